"""Batches of whole samples of similar length, in an order that a seed and a step fix."""

import os

import numpy as np
import torch

import wire


class Part:
    def __init__(self, folder, name):
        load = lambda key: np.load(os.path.join(folder, f"{name}.{key}.npy"), mmap_mode="r")
        self.ids, self.loss, self.starts = load("ids"), load("loss"), load("starts")
        self.lengths = np.diff(self.starts)


class Loader:
    """mix: {part: share of samples}. batch(step) depends on nothing but (seed, step)."""

    CHUNK = 16  # batches that are sorted by length together

    def __init__(self, folder, mix, tokens, seed, text_share):
        self.parts = {name: Part(folder, name) for name in mix}
        self.mix, self.tokens, self.seed, self.text_share = mix, tokens, seed, text_share
        self.chunk, self.at = None, -1
        self.mean = sum(self.parts[n].lengths.mean() * w for n, w in mix.items()) / sum(mix.values())

    def _chunk(self, index):
        """CHUNK batches; samples of a part are walked in a seeded order without repeats until all were seen."""
        rng = np.random.default_rng([self.seed, index])
        want = int(self.CHUNK * self.tokens / self.mean)
        rows, total = [], sum(self.mix.values())
        for name, share in self.mix.items():
            part, count = self.parts[name], max(1, round(want * share / total))
            n = len(part.lengths)
            for k in range(index * count, (index + 1) * count):
                order = self._order(name, k // n)
                rows.append((name, int(order[k % n])))
        rows.sort(key=lambda r: self.parts[r[0]].lengths[r[1]])
        per = -(-len(rows) // self.CHUNK)
        cuts, batch, longest = [], [], 0
        for r in rows:  # close a batch when padding it would pass the token budget
            longest = max(longest, int(self.parts[r[0]].lengths[r[1]]))
            if batch and longest * (len(batch) + 1) > self.tokens * 1.15:
                cuts.append(batch)
                batch, longest = [], int(self.parts[r[0]].lengths[r[1]])
            batch.append(r)
        cuts.append(batch)
        return [cuts[i] for i in rng.permutation(len(cuts))]

    def _order(self, name, epoch):
        key = (name, epoch)
        if getattr(self, "_orders", None) is None or key not in self._orders:
            self._orders = {k: v for k, v in (getattr(self, "_orders", None) or {}).items() if k[1] >= epoch - 1}
            self._orders[key] = np.random.default_rng([self.seed, 7, epoch, len(name)]).permutation(len(self.parts[name].lengths))
        return self._orders[key]

    def batches(self, chunk=0, skip=0, rank=0, workers=1):
        """Endless (chunk, batches of it used, ids [B, T], weights [B, T] of each position's next token).

        Of every `workers` batches in a row each rank gets one; a rest at the end of a chunk is left out.
        """
        while True:
            rows = self._chunk(chunk)
            for n in range(skip, len(rows) - workers + 1, workers):
                yield chunk, n + workers, *self._pad(rows[n + rank], chunk, n + rank)
            chunk, skip = chunk + 1, 0

    def _pad(self, rows, chunk, n):
        rng = np.random.default_rng([self.seed, 11, chunk, n])
        longest = max(int(self.parts[name].lengths[i]) for name, i in rows)
        ids = np.zeros((len(rows), longest), np.int64)
        weights = np.zeros((len(rows), longest), np.float32)
        for r, (name, i) in enumerate(rows):
            part = self.parts[name]
            a, b = int(part.starts[i]), int(part.starts[i + 1])
            ids[r, : b - a] = part.ids[a:b]
            loss = part.loss[a + 1 : b]
            text = (loss == wire.TEXT) & (rng.random(b - a - 1) < self.text_share)
            weights[r, : b - a - 1] = (loss == wire.ANSWER) + 0.5 * text
        return torch.from_numpy(ids), torch.from_numpy(weights)

"""Writes the training data: token ids, loss classes, and where each sample starts.

    python dataset.py CASES.json TOKENIZER.json OUT_DIR [SCALE]

Parts: mini (short files, several bugs), task (what the judged loop meets),
long (up to 150 lines), ask (questions), lib (library source), copy (lines of
random words, then the same lines in another order), retry (a wrong first edit). Each part is
drawn from its own seed. OUT_DIR/data.json records sizes and SHA-256 sums.
"""

import hashlib
import json
import os
import random
import re
import sys

import numpy as np

import dialogues
import packages
import shapes
import stdlib
import tok
import wire

SIZES = {"mini": 24_000, "task": 12_000, "long": 1_000, "ask": 1_500, "lib": 1_000, "copy": 8_000, "retry": 3_000}

TWO_FILES = 0.2  # share of every kind of repair that is over two files

# Functions of a file (least, most), numbers of bugs to draw from, lines of the longest file, how the dialogue goes.
REPAIRS = {
    "mini": (1, 3, [1, 2, 2, 3, 3], (6, 34), lambda rng: {"tool_block": rng.random() < 0.05, "whole": rng.random() < 0.25}),
    "task": (2, 6, [1, 1, 1, 1, 2, 2, 3], (14, 62), lambda rng: {"slips": 0.06}),
    "retry": (2, 4, [1, 1, 1, 2], (14, 50), lambda rng: {"tool_block": rng.random() < 0.5, "retries": 1.0}),
    "long": (6, 14, [1, 1, 1, 2], (60, 150), lambda rng: {}),
}


def sample(part, rng, all_shapes, cases, pairs, chunks):
    """The wire parts of one sample, or None to draw again."""
    if part in REPAIRS:
        least, most, bugs, lines, how = REPAIRS[part]
        files = 2 if rng.random() < TWO_FILES else 1
        most = min(most, least + 1) if files == 2 else most
        package = packages.build(rng, all_shapes, cases, functions=(least, most), bugs=rng.choice(bugs), files=files, lines=lines)
        return dialogues.repair(rng, package, **how(rng)).parts
    if part == "copy":
        return copying(rng, chunks)
    if part == "ask":
        return dialogues.question(rng, pairs, rng.random() < 0.3).parts
    return [(None, rng.choice(chunks), wire.TEXT), ("<|endoftext|>", "", wire.TEXT)]


def copying(rng, chunks):
    """Random words of library source, or random tokens, in lines, and some of the lines again."""
    if rng.random() < 0.5:
        words = [w for c in rng.sample(chunks, 6) for w in re.findall(r"\s?[\w.]+|\s?[^\w\s]+", c)]
        line = lambda: "".join(rng.choice(words).replace("\n", " ") for _ in range(rng.randint(2, 8))) + "\n"
        whole = lambda lines: "".join(lines)
    else:
        line = lambda: [rng.randrange(wire.BASE) for _ in range(rng.randint(3, 10))]
        whole = lambda lines: [i for l in lines for i in l]
    lines = [line() for _ in range(rng.randint(3, 9))]
    again = [rng.choice(lines) for _ in range(rng.randint(3, 9))]
    return [(None, whole(lines), wire.NONE), (None, whole(again), wire.ANSWER), ("<|endoftext|>", "", wire.NONE)]


def library_chunks(sources):
    """Stretches of 40 lines of library source that training may see."""
    out = []
    for n, (_, text) in enumerate(sources):
        if not stdlib.is_held(n):
            lines = text.splitlines(keepends=True)
            out += ["".join(lines[i : i + 40]) for i in range(0, len(lines), 40)]
    return [c for c in out if len(c) < 3000]


def write(folder, part, samples, encoder):
    ids, losses, starts = [], [], [0]
    for parts in samples:
        i, l = encoder.parts(parts)
        if len(i) > 3000:
            continue
        ids += i
        losses += l
        starts.append(len(ids))
    arrays = {"ids": np.array(ids, np.uint16), "loss": np.array(losses, np.uint8), "starts": np.array(starts, np.int64)}
    digest = hashlib.sha256()
    for name, a in arrays.items():
        np.save(os.path.join(folder, f"{part}.{name}.npy"), a)
        digest.update(a.tobytes())
    return {"samples": len(starts) - 1, "tokens": len(ids), "answer_tokens": int((arrays["loss"] == wire.ANSWER).sum()), "sha256": digest.hexdigest()}


def main():
    cases, encoder, folder = json.load(open(sys.argv[1])), tok.Encoder(sys.argv[2]), sys.argv[3]
    scale = float(sys.argv[4]) if len(sys.argv) > 4 else 1.0
    os.makedirs(folder, exist_ok=True)
    all_shapes, sources = shapes.load(), stdlib.files()
    pairs, chunks = stdlib.questions(sources), library_chunks(sources)
    path = os.path.join(folder, "data.json")
    record = json.load(open(path)) if os.path.exists(path) else {}
    for part, count in SIZES.items():
        if part in record:
            continue
        draws = (sample(part, random.Random(f"{part} {n}"), all_shapes, cases, pairs, chunks) for n in range(int(count * scale)))
        record[part] = write(folder, part, draws, encoder)
        print(part, record[part], flush=True)
        json.dump(record, open(path, "w"), indent=1)


if __name__ == "__main__":
    main()

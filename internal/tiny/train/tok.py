"""Trains the byte-level BPE with GLM's split pattern and added tokens.

    python tok.py CASES.json OUT_DIR      writes OUT_DIR/tokenizer.json
"""

import json
import os
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import dialogues
import packages
import shapes
import stdlib
import wire

BASE = wire.BASE
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def corpus(cases, count=3000):
    """Dialogue text without its control tokens, questions, and some library source."""
    all_shapes, rng = shapes.load(), random.Random("tokenizer")
    for n in range(count):
        package = packages.build(rng, all_shapes, cases, bugs=rng.choice([1, 2]))
        parts = dialogues.repair(rng, package, tool_block=n % 10 == 0).parts
        yield from (text for name, text, _ in parts if not name)
    sources = stdlib.files()
    for ask, say in stdlib.questions(sources):
        yield ask
        yield say
    for n, (_, text) in enumerate(sources):
        if not stdlib.is_held(n):
            yield text[:12_000]


def train(texts):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=BASE, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tok.train_from_iterator(texts, trainer)
    if tok.get_vocab_size() != BASE:
        raise ValueError(f"corpus is too small for {BASE} tokens: {tok.get_vocab_size()}")
    for name in wire.ADDED:
        token = AddedToken(name, single_word=False, lstrip=False, rstrip=False, normalized=False, special=name in wire.SPECIAL)
        (tok.add_special_tokens if name in wire.SPECIAL else tok.add_tokens)([token])
    for n, name in enumerate(wire.ADDED):
        if tok.token_to_id(name) != BASE + n:
            raise ValueError(f"{name} has id {tok.token_to_id(name)}, want {BASE + n}")
    return tok


class Encoder:
    """Parts of a wire.Render to ids; text never yields an added token."""

    def __init__(self, path):
        data = json.load(open(path, encoding="utf-8"))
        self.control = {t["content"]: t["id"] for t in data["added_tokens"]}
        data["added_tokens"] = []
        self.plain = Tokenizer.from_str(json.dumps(data))
        self.full = Tokenizer.from_file(path)
        self.cache = {}

    def encode(self, text):
        ids = self.cache.get(text)
        if ids is None:
            ids = self.plain.encode(text).ids
            if len(text) < 400 and len(self.cache) < 50_000:
                self.cache[text] = ids
        return ids

    def parts(self, parts):
        """(ids, loss classes); a text may be a list of ids already."""
        ids, losses = [], []
        for name, text, loss in parts:
            new = [self.control[name]] if name else self.encode(text) if isinstance(text, str) else text
            ids += new
            losses += [loss] * len(new)
        return ids, losses

    def decode(self, ids):
        return self.full.decode(ids, skip_special_tokens=False)


def main():
    cases = json.load(open(sys.argv[1]))
    tok = train(corpus(cases))
    os.makedirs(sys.argv[2], exist_ok=True)
    tok.save(os.path.join(sys.argv[2], "tokenizer.json"))


if __name__ == "__main__":
    main()

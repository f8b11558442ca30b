"""Compares this project's tokenizer with two others, id for id.

    python reference.py --ranks FILE.tiktoken.gz --json tokenizer.json --dir DIR
        [--result RESULT] [--golden ../testdata/golden.json]

DIR holds what _encode/main.go wrote. The references are tiktoken and Hugging Face
tokenizers, which share no code: their regex engines (fancy-regex, Oniguruma) and
their merging differ. Each runs both vocabularies, so each vocabulary is converted
once: ranks to a tokenizer.json for tokenizers, tokenizer.json to ranks for
tiktoken.

Text that is not UTF-8 cannot be given to either. There the comparison follows the
definition: every byte that is not part of well-formed UTF-8 counts as one
character that is neither letter, number nor blank. Such bytes are replaced by
private-use characters, the text is split, the bytes are put back and each piece
is merged as bytes.

With --golden the hashes that `go test` checks are written: what both references
make of the documents in DIR/golden with the rank file. Where they differ from
each other, nothing is written.
"""

import argparse
import base64
import gzip
import hashlib
import json
import struct
import sys
from importlib.metadata import version
from pathlib import Path

import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
KINDS = "code prose chinese scripts emoji blanks digits marks contractions soup runs control broken".split()

CONTROLS = (
    "<|endoftext|> [MASK] [gMASK] [sMASK] <sop> <eop> <|system|> <|user|> <|assistant|> <|observation|> "
    "<|begin_of_image|> <|end_of_image|> <|begin_of_video|> <|end_of_video|> <|begin_of_audio|> <|end_of_audio|> "
    "<|begin_of_transcription|> <|end_of_transcription|> <|code_prefix|> <|code_middle|> <|code_suffix|> "
    "<think> </think> <tool_call> </tool_call> <tool_response> </tool_response> <arg_key> </arg_key> "
    "<arg_value> </arg_value> /nothink <|begin_of_box|> <|end_of_box|> <|image|> <|video|>"
).split()


def alphabet():
    """The byte-level alphabet: byte -> character."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(rest)}


CHAR = alphabet()
BYTE = {c: b for b, c in CHAR.items()}


def to_chars(data):
    return "".join(CHAR[b] for b in data)


class Reference:
    """One vocabulary in both references."""

    def __init__(self, ranks, hf, controls):
        self.tiktoken = tiktoken.Encoding("x", pat_str=SPLIT, mergeable_ranks=ranks, special_tokens=controls)
        self.hf = hf
        self.splitter = pre_tokenizers.Split(Regex(SPLIT), "isolated")
        # Without added tokens, for text in which none may be recognised.
        plain = json.loads(hf.to_str())
        plain["added_tokens"] = []
        plain["post_processor"] = None
        self.hf_plain = Tokenizer.from_str(json.dumps(plain))

    def pieces(self, data):
        text = data.decode("utf-8", "surrogateescape")
        used = set(text)
        base = next(b for b in range(0x10F000, 0x10FF00, 0x100) if not any(chr(b + i) in used for i in range(256)))
        mapped = "".join(chr(base + ord(c) - 0xDC00) if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text)
        for piece, _ in self.splitter.pre_tokenize_str(mapped):
            yield b"".join(
                bytes([ord(c) - base]) if base <= ord(c) < base + 256 else c.encode() for c in piece
            )

    def encode(self, data, valid):
        """Returns the ids by tiktoken and by tokenizers."""
        if valid:
            text = data.decode()
            return self.tiktoken.encode_ordinary(text), self.hf_plain.encode(text, add_special_tokens=False).ids
        first, second = [], []
        for piece in self.pieces(data):
            first += self.tiktoken._core_bpe.encode_single_piece(piece)
            second += [t.id for t in self.hf.model.tokenize(to_chars(piece))]
        return first, second

    def encode_added(self, text):
        return (
            self.tiktoken.encode(text, allowed_special="all"),
            self.hf.encode(text, add_special_tokens=False).ids,
        )


def from_ranks(path):
    lines = gzip.decompress(Path(path).read_bytes()).splitlines()
    ranks = {base64.b64decode(t): int(r) for t, r in (line.split() for line in lines)}
    merges = []
    for token, rank in ranks.items():
        for i in range(1, len(token)):
            if token[:i] in ranks and token[i:] in ranks:
                merges.append((rank, ranks[token[:i]], to_chars(token[:i]), to_chars(token[i:])))
    merges.sort()
    hf = Tokenizer(
        models.BPE(
            vocab={to_chars(t): r for t, r in ranks.items()},
            merges=[(a, b) for _, _, a, b in merges],
            ignore_merges=True,
        )
    )
    hf.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    hf.decoder = decoders.ByteLevel()
    hf.add_tokens([AddedToken(c, normalized=False, special=i <= 20 or c == "/nothink") for i, c in enumerate(CONTROLS)])
    return Reference(ranks, hf, {c: len(ranks) + i for i, c in enumerate(CONTROLS)})


def from_json(path):
    hf = Tokenizer.from_file(path)
    model = json.loads(Path(path).read_bytes())
    ranks = {bytes(BYTE[c] for c in t): i for t, i in model["model"]["vocab"].items()}
    return Reference(ranks, hf, {a["content"]: a["id"] for a in model["added_tokens"]})


def documents(path):
    data = path.read_bytes()
    at = 0
    while at < len(data):
        kind, n = struct.unpack_from("<II", data, at)
        yield KINDS[kind], data[at + 8 : at + 8 + n]
        at += 8 + n


def id_lists(path):
    data = path.read_bytes()
    at = 0
    while at < len(data):
        (n,) = struct.unpack_from("<I", data, at)
        yield list(struct.unpack_from(f"<{n}i", data, at + 4))
        at += 4 + 4 * n


def digest(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()


def golden(ref, path):
    entries = []
    for kind, data in documents(path):
        plain = ref.encode(data, kind != "broken")
        added = ref.encode_added(data.decode()) if kind != "broken" else (None, None)
        if plain[0] != plain[1] or added[0] != added[1]:
            sys.exit(f"golden: the references differ from each other on {kind}")
        entry = {"kind": kind, "text": hashlib.sha256(data).hexdigest(), "tokens": len(plain[0]), "ids": digest(plain[0])}
        if added[0] is not None:
            entry["ids_with_added"] = digest(added[0])
        entries.append(entry)
    return {
        "about": "SHA-256 of the texts and of their ids (32 bits each, little-endian) in cl100k_base with the added tokens of GLM from 100256 on",
        "made_by": f"tiktoken {version('tiktoken')} and tokenizers {version('tokenizers')}, which agree",
        "cl100k_base": entries,
    }


def first_difference(a, b):
    i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"token {i}: {a[max(0, i - 3) : i + 4]} and {b[max(0, i - 3) : i + 4]}"


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--ranks", required=True)
    args.add_argument("--json", required=True)
    args.add_argument("--dir", type=Path, required=True)
    args.add_argument("--result", type=Path)
    args.add_argument("--golden", type=Path)
    args = args.parse_args()

    rows, differences = [], 0
    for name, label, ref in (
        ("ranks", "cl100k_base (rank file)", from_ranks(args.ranks)),
        ("json", "Llama 3 (tokenizer.json)", from_json(args.json)),
    ):
        if args.golden and name == "ranks":
            args.golden.write_text(json.dumps(golden(ref, args.dir / "golden"), indent=1) + "\n")
        counts = {}
        ours, added = id_lists(args.dir / f"ours.{name}"), id_lists(args.dir / f"ours.{name}.added")
        for i, (kind, data) in enumerate(documents(args.dir / "corpus")):
            row = counts.setdefault(kind, [0, 0, 0, 0])
            mine = next(ours)
            checks = [("tiktoken", "tokenizers", mine, ref.encode(data, kind != "broken"))]
            mine = next(added)
            if kind != "broken":
                checks.append(("tiktoken, added", "tokenizers, added", mine, ref.encode_added(data.decode())))
            row[0] += len(data)
            row[1] += len(checks[0][2])
            for one, two, mine, (first, second) in checks:
                for who, ids, column in ((one, first, 2), (two, second, 3)):
                    if ids != mine:
                        row[column] += 1
                        differences += 1
                        print(f"{label}: document {i} ({kind}), ours and {who}: {first_difference(mine, ids)}")
        for kind, (size, tokens, d1, d2) in counts.items():
            rows.append(f"| {label} | {kind} | {size:,} | {tokens:,} | {d1} | {d2} |")
        total = [sum(c[i] for c in counts.values()) for i in range(4)]
        rows.append(f"| **{label}** | all | {total[0]:,} | {total[1]:,} | {total[2]} | {total[3]} |")
        print(rows[-1], flush=True)

    table = "\n".join(
        ["| vocabulary | kind | bytes | tokens | documents that differ from tiktoken | from tokenizers |", "|---|---|---:|---:|---:|---:|"]
        + rows
    )
    if args.result:
        head = f"tiktoken {version('tiktoken')}, tokenizers {version('tokenizers')}, Python {sys.version.split()[0]}"
        args.result.write_text(f"{head}\n\n{table}\n")
    sys.exit(differences != 0)


if __name__ == "__main__":
    main()

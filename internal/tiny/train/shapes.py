"""Function shapes: what a generated function does and how it can be broken.

shapes.txt holds the shapes. This file reads it, and asks the Go toolchain
what every shape and every broken form of it really returns for a few dozen
arguments, so that the test output in the training dialogues is true without
a compiler run for each of them.

    python shapes.py OUT.json     evaluates everything (a few seconds of Go)
"""

import dataclasses
import json
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CASES_PER_SHAPE = 40

KINDS = """arith assign bool bound call compare const flow index init logic negate return swap var""".split()


@dataclasses.dataclass
class Bug:
    kind: str
    line: int  # index into Shape.body
    old: str  # the broken line, indentation included
    good: str  # the right line


@dataclasses.dataclass
class Shape:
    name: str
    verbs: list
    docs: list
    args: list
    params: str
    result: str
    body: list
    bugs: list

    def roles(self):
        text = self.params + "\n" + "\n".join(self.body)
        return list(dict.fromkeys(re.findall(r"\$(\w+)", text)))


def load(path=os.path.join(HERE, "shapes.txt")):
    """Reads the shapes, in the order of the file."""
    shapes, shape = [], None
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("\t"):
            shape.body.append(line)
            continue
        word, rest = line.split(" ", 1)
        if word == "shape":
            shape = Shape(rest, [], [], [], "", "", [], [])
            shapes.append(shape)
        elif word == "verbs":
            shape.verbs = rest.split()
        elif word == "doc":
            shape.docs.append(rest)
        elif word == "args":
            shape.args = rest.split()
        elif word == "func":
            shape.params, shape.result = re.fullmatch(r"\((.*)\) (.*)", rest).groups()
        elif word == "bug":
            kind, old, new = re.fullmatch(r"(\w+): (.*) => (.*)", rest).groups()
            hits = [i for i, b in enumerate(shape.body) if b.strip() == old]
            if len(hits) != 1 or kind not in KINDS:
                raise ValueError(f"{path}:{number}: {len(hits)} lines match in {shape.name}")
            good = shape.body[hits[0]]
            indent = good[: len(good) - len(good.lstrip("\t"))]
            shape.bugs.append(Bug(kind, hits[0], indent + new, good))
        else:
            raise ValueError(f"{path}:{number}: unknown word {word}")
    return shapes


WORDS = "ant bee cow dog elk fox gnu hen ibis jay kiwi lark mole newt owl pig ram seal toad wren".split()


def _words(rng):
    pool = rng.sample(WORDS, 3)
    return [rng.choice(pool) for _ in range(rng.randint(2, 4))]


def _quote_list(words):
    return "[]string{" + ", ".join(f'"{w}"' for w in words) + "}"


def _int_list(numbers):
    return "[]int{" + ", ".join(map(str, numbers)) + "}"


def arguments(specs, rng):
    """One tuple of Go literals for the argument generators of a shape."""
    out, words = [], None
    for spec in specs:
        name, *rest = spec.split(":")
        if name == "int":
            out.append(str(rng.randint(int(rest[0]), int(rest[1]))))
        elif name in ("int5", "int10"):
            step = int(name[3:])
            out.append(str(rng.randrange(int(rest[0]), int(rest[1]) + 1, step)))
        elif name == "ints":
            out.append(_int_list([rng.randint(1, 9) for _ in range(rng.randint(2, 4))]))
        elif name == "ints0":
            out.append(_int_list([rng.randint(1, 9) for _ in range(rng.choice([0, 0, 1, 2, 3, 4]))]))
        elif name == "sints":
            out.append(_int_list([rng.randint(1, 6) for _ in range(rng.randint(2, 3))]))
        elif name == "nints":
            out.append(_int_list([rng.randint(-2, 6) for _ in range(rng.randint(1, 4))]))
        elif name == "sorted":
            out.append(_int_list(sorted(rng.sample(range(1, 13), rng.randint(1, 5)))))
        elif name == "pair3":
            out += [_int_list([rng.randint(1, 5) for _ in range(2)]) for _ in range(2)]
        elif name == "words":
            words = _words(rng)
            out.append(_quote_list(words))
        elif name == "dict":
            words = rng.sample(WORDS, rng.randint(1, 3))
            out.append("map[string]int{" + ", ".join(f'"{w}": {rng.randint(1, 9)}' for w in sorted(words)) + "}")
        elif name == "word":
            out.append('"' + (rng.choice(words + [rng.choice(WORDS)]) if words else rng.choice(WORDS)) + '"')
        elif name == "letter":
            out.append("'" + rng.choice(out[-1].strip('"')) + "'")
        elif name == "sep":
            out.append(rng.choice(['"-"', '", "', '"+"', '"/"', '"!"']))
        elif name == "text":
            out.append('"' + " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 4))) + '"')
        elif name == "padded":
            out.append('"' + rng.choice(["", " "]) + rng.choice(WORDS).title() + rng.choice(["", " "]) + '"')
        elif name == "prefixed":
            word = rng.choice(WORDS)
            other = rng.choice([word, word[:2], word[:1], rng.choice(WORDS)[:2]])
            out += [f'"{word}"', f'"{other}"']
        elif name == "pal":
            w = rng.choice(WORDS)
            out.append('"' + rng.choice([w, w + w[::-1], w + w[-2::-1]]) + '"')
        elif name == "year":
            out.append(str(rng.choice([1900, 2000, 2023, 2024, 2100, 2400, 1996, 2001, 2010, 2300])))
        elif name == "grade":
            out.append(str(rng.choice([90, 70, 95, 50, 75, 85, 69, 89, 100, 71])))
        else:
            raise ValueError(f"unknown argument generator {spec}")
    return out


def plain(shape, lines):
    """The body with every role named after itself."""
    return [re.sub(r"\$(\w+)", r"\1_", line) for line in lines]


def verb(result):
    """The fmt verb that the generated tests print a result with."""
    return "%q" if "string" in result and not result.startswith("map") else "%v"


def evaluate(shapes, seed=1):
    """{shape: {"cases": [[args], want, wantLiteral, {bug: got}]}} from a real Go run.

    A bug whose call panics or does not end is left out of that case.
    """
    rng = random.Random(seed)
    funcs, calls, table = [], [], {}
    for shape in shapes:
        table[shape.name] = []
        params = re.sub(r"\$(\w+)", r"\1_", shape.params)
        bodies = {"ok": shape.body}
        for n, bug in enumerate(shape.bugs):
            bodies[str(n)] = shape.body[: bug.line] + [bug.old] + shape.body[bug.line + 1 :]
        for key, body in bodies.items():
            funcs.append(f"func {shape.name}_{key}({params}) {shape.result} {{\n" + "\n".join(plain(shape, body)) + "\n}\n")
        seen = set()
        for _ in range(CASES_PER_SHAPE * 4):
            args = arguments(shape.args, rng)
            if tuple(args) in seen or len(seen) >= CASES_PER_SHAPE:
                continue
            seen.add(tuple(args))
            table[shape.name].append(args)
            for key in bodies:
                ident = f"{shape.name}/{len(table[shape.name]) - 1}/{key}"
                calls.append(f"\trun({json.dumps(ident)}, \"{verb(shape.result)}\", func() any {{ return {shape.name}_{key}({', '.join(args)}) }})\n")
    text = "".join(funcs)
    imports = "".join(f'\t"{p}"\n' for p in ("sort", "strings") if p + "." in text)
    chunks = [calls[i : i + 500] for i in range(0, len(calls), 500)]
    source = (
        "package main\n\nimport (\n\t\"encoding/json\"\n\t\"fmt\"\n\t\"os\"\n\t\"time\"\n" + imports + ")\n\n" + text
        + """
var results = map[string][2]string{}

func run(id, verb string, f func() any) {
	done := make(chan any, 1)
	go func() {
		defer func() {
			if recover() != nil {
				close(done)
			}
		}()
		done <- f()
	}()
	select {
	case v, ok := <-done:
		if ok {
			results[id] = [2]string{fmt.Sprintf(verb, v), fmt.Sprintf("%#v", v)}
		}
	case <-time.After(2 * time.Second):
	}
}

"""
        + "".join(f"func calls{i}() {{\n{''.join(c)}}}\n\n" for i, c in enumerate(chunks))
        + "func main() {\n" + "".join(f"\tcalls{i}()\n" for i in range(len(chunks)))
        + "\tjson.NewEncoder(os.Stdout).Encode(results)\n}\n"
    )
    with tempfile.TemporaryDirectory() as tmp:
        open(os.path.join(tmp, "main.go"), "w").write(source)
        open(os.path.join(tmp, "go.mod"), "w").write("module cases\n\ngo 1.26\n")
        done = subprocess.run(["go", "run", "."], cwd=tmp, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[:4000])
        raw = done.stdout
    results = json.loads(raw)
    out = {}
    for shape in shapes:
        rows = []
        for n, args in enumerate(table[shape.name]):
            ok = results.get(f"{shape.name}/{n}/ok")
            if ok is None:
                continue
            got = {str(b): results[k][0] for b in range(len(shape.bugs)) if (k := f"{shape.name}/{n}/{b}") in results}
            rows.append([args, ok[0], ok[1], got])
        out[shape.name] = rows
    return out


def main():
    shapes = load()
    cases = evaluate(shapes)
    for shape in shapes:
        for n, bug in enumerate(shape.bugs):
            rows = cases[shape.name]
            hits = sum(1 for r in rows if r[3].get(str(n), r[1]) != r[1])
            if hits < 4:
                print(f"{shape.name} bug {n} ({bug.kind}) shows in {hits} of {len(rows)} cases", file=sys.stderr)
    json.dump(cases, open(sys.argv[1], "w"), indent=0)


if __name__ == "__main__":
    main()

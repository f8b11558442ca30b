"""Writes the held-out tasks and checks every one of them with the Go toolchain.

    python tasks.py CASES.json OUT_DIR

short.json    100 one-file tasks of 30 to 60 lines: the judged set
test.json     100 tasks for the project's tests: 40 short, 40 of 61 to 150 lines, 20 over two files
release.json  the same mix, kept for releases

A task is {"name", "kind", "shape", "lines", "request", "files"}. It holds no
solution; the generator knows it and checks that the repaired package passes.
"""

import json
import os
import random
import sys

import check_packages
import dialogues
import packages
import shapes


def draw(rng, all_shapes, cases, kind):
    if kind == "two":
        return packages.build(rng, all_shapes, cases, held=True, functions=(2, 4), files=2, lines=(20, 60))
    if kind == "long":
        return packages.build(rng, all_shapes, cases, held=True, functions=(6, 14), lines=(61, 150))
    return packages.build(rng, all_shapes, cases, held=True, functions=(3, 6), lines=(30, 60))


def make(name, kinds, all_shapes, cases):
    out = []
    for n, kind in enumerate(kinds):
        rng = random.Random(f"held-out {name} {n}")
        while True:
            package = draw(rng, all_shapes, cases, kind)
            problem = check_packages.check(package)
            if not problem:
                break
            print(f"{name} {n}: drawn again: {problem[:300]}")
        edit = package.edits[0]
        function = next(s for s in package.functions if s.name == edit.function)
        out.append({
            "name": f"{name}-{n:03d}", "kind": edit.kind, "shape": function.shape.name, "lines": package.longest,
            "request": dialogues.request(rng, package, held=True), "files": package.files,
        })
    return out


def write(path, tasks):
    with open(path, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(t, ensure_ascii=False) for t in tasks) + "\n]\n")


def main():
    cases, folder = json.load(open(sys.argv[1])), sys.argv[2]
    all_shapes = shapes.load()
    mixed = ["short"] * 40 + ["long"] * 40 + ["two"] * 20
    for name, kinds in (("short", ["short"] * 100), ("test", mixed), ("release", mixed)):
        tasks = make(name, kinds, all_shapes, cases)
        write(os.path.join(folder, name + ".json"), tasks)
        print(name, len(tasks), "kinds", len({t["kind"] for t in tasks}), "shapes", len({t["shape"] for t in tasks}), flush=True)


if __name__ == "__main__":
    main()

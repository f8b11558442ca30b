"""Runs the Go toolchain over generated packages: the broken form must fail
with exactly the predicted output, the repaired form must pass.

    python check_packages.py CASES.json COUNT [held]
"""

import json
import random
import sys

import packages
import shapes
import workspace


def check(package):
    """None, or what is wrong with a package."""
    with workspace.Workspace(package.files) as w:
        output = w.run_tests()
        if output != package.output:
            return f"predicted:\n{package.output}\ngot:\n{output}"
        for edit in package.edits:
            result = w.edit_file(edit.path, edit.old, edit.new)
            if result != "ok":
                return f"edit of {edit.function}: {result}"
        output = w.run_tests()
        if output != f"ok  \t{package.name}":
            return f"still fails after the edit: {output}"
        for path, text in package.fixed.items():
            if w.read_file(path) != text:
                return f"{path} differs from the repaired text"
    return None


def main():
    cases = json.load(open(sys.argv[1]))
    held = len(sys.argv) > 3
    bad = 0
    for seed in range(int(sys.argv[2])):
        rng = random.Random(f"check {seed} {held}")
        package = packages.build(rng, shapes.load(), cases, held, functions=(1, 5), bugs=rng.choice([1, 1, 2, 3]), files=rng.choice([1, 1, 2]))
        problem = check(package)
        if problem:
            bad += 1
            print(f"seed {seed} ({package.edits[0].kind}): {problem[:1500]}")
    print(f"{bad} of {sys.argv[2]} packages are wrong")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()

"""Text from the Go standard library (BSD licence, see MODEL.md): sources to
read, and prose made from its documentation comments as questions and answers.
"""

import functools
import os
import re
import subprocess

PACKAGES = """bufio bytes container/heap container/list errors fmt io maps math math/bits os path path/filepath slices
sort strconv strings text/tabwriter time unicode unicode/utf8""".split()

ASKS = ["What does $F do?", "What is $F for?", "Tell me about $F.", "Explain the Go function $F."]
HELD_ASKS = ["How would you describe $F?"]


@functools.cache
def files():
    """[(path inside GOROOT/src, text)], tests and generated tables left out."""
    root = os.path.join(subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip(), "src")
    out = []
    for package in PACKAGES:
        folder = os.path.join(root, package)
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".go") or name.endswith("_test.go") or "tables" in name or re.search(r"_(windows|plan9|wasm|js|aix|solaris|s390x|arm64|amd64)", name):
                continue
            text = open(os.path.join(folder, name), encoding="utf-8").read()
            if "Code generated" not in text[:500] and len(text) < 200_000:
                out.append((package + "/" + name, text))
    return out


def is_held(number):
    return number % 10 == 7


def questions(sources, held=False):
    """[(question, answer)] about exported functions; every tenth function is held out."""
    out, number = [], 0
    for path, text in sources:
        package = os.path.dirname(path).split("/")[-1]
        for doc, name in re.findall(r"\n((?://[^\n]*\n)+)func ([A-Z]\w*)\(", text):
            prose = " ".join(line[2:].strip() for line in doc.splitlines())
            first = re.split(r"(?<=[a-z)])\. ", prose)[0].rstrip(".")
            if not first.startswith(name + " ") or len(first) > 160:
                continue
            number += 1
            if is_held(number) != held:
                continue
            for ask in HELD_ASKS if held else ASKS:
                out.append((ask.replace("$F", f"{package}.{name}"), f"{package}.{first}."))
    return out

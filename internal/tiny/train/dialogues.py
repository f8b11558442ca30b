"""Tool-using dialogues over broken packages, and questions that need no tool.

The policy is always the same, so that greedy decoding has one thing to learn:
list the files and run the tests (two calls in one turn), read the file that the
failure names, say the failing function line by line until a line is wrong,
replace that line, run the tests again, answer. Saying the lines puts the bug right
before the place where the model has to judge it, and before the edit that copies it.
"""

import copy
import json
import os
import random

import wire

TOOLS = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools.json"), encoding="utf-8"))
EXTRA_TOOLS = [
    {"name": "write_file", "description": "Writes a file.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}, "required": ["path", "text"]}},
    {"name": "search", "description": "Finds a word in all files.", "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}},
    {"name": "weather", "description": "Tells the weather.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
]

# A training request is a statement, a demand, or both; held-out ones share no sentence with them.
STATEMENTS = """The tests of package $P fail.
go test fails in package $P.
go test is red for $P.
Something is broken in package $P.
Something in $P does not work.
A test of $P fails.
One of the tests in $P fails since today.
Package $P has a bug.
I think that $P has a bug.
There must be a bug in $P.
We found a bug in $P.
A function in $P returns wrong results.
One function of $P gives the wrong answer.
Package $P is broken.
I broke $P yesterday.
Our $P code does not do what its tests say.
CI complains about $P.
The unit tests for $P are not green.
The tests in the $P folder don't pass.
Package $P used to work.
After my last change $P fails.
Somebody broke package $P.
The code in $P is wrong.
Why does go test fail for $P?
Why is $P red?
What is wrong with $P?
Hello, $P does not pass its tests.
I get a failure from go test in $P.""".splitlines()
DEMANDS = """Please fix the code.
Please fix it.
Fix it.
Fix this.
Find the bug and repair it.
Find it and fix it.
Can you repair it?
Can you fix that for me?
Would you fix this?
Could you repair the code?
Please debug it until go test is green.
Repair the code, not the test.
Please make the tests pass.
Make its tests pass.
I need it green.
Help me fix it.
Please repair this.
Please look for the bug and fix it.
Please find out why and fix it.
Leave the tests as they are and fix the code.
Don't change the tests.
Thanks for fixing it.""".splitlines()
ALONE = """Fix package $P.
Please fix $P.
Repair $P.
Repair the package $P so that every test passes.
Make the tests of $P pass.
Debug package $P.
Please debug package $P until go test is green.
Can you repair package $P? Its tests are red.
Could you fix package $P?
Would you please repair $P?
I want $P to pass go test.
Find the bug in $P.
Make $P green.
Please make go test pass in $P.""".splitlines()
HELD_REQUESTS = [
    "My $P package stopped working, please have a look and correct it.",
    "Get the test suite of $P to pass again.",
    "There is a mistake somewhere in $P, could you sort it out?",
    "The build of $P is failing in our pipeline. Please take care of it.",
]
OPENING = "I list the files and run the tests."
AGAIN = "I run the tests again."


def request(rng, package, held=False):
    if held:
        text = rng.choice(HELD_REQUESTS)
    elif rng.random() < 0.3:
        text = rng.choice(ALONE)
    elif rng.random() < 0.25:
        text = rng.choice(STATEMENTS)
    else:
        both = [rng.choice(STATEMENTS), rng.choice(DEMANDS)]
        text = " ".join(both if rng.random() < 0.85 else both[::-1])
    return text.replace("$P", package.name)


def tools(rng, vary):
    """The four tools as they stand, or now and then in another order, form or company."""
    out = [copy.deepcopy(t["function"]) for t in TOOLS]
    if not vary or rng.random() < 0.6:
        return out
    if rng.random() < 0.5:
        out += copy.deepcopy(rng.sample(EXTRA_TOOLS, rng.randint(1, 2)))
        rng.shuffle(out)
    if rng.random() < 0.5:
        for t in out:
            t["parameters"]["additionalProperties"] = False
    if rng.random() < 0.3:
        for t in out:
            for name, schema in t["parameters"]["properties"].items():
                schema["description"] = {"path": "file name", "old": "text to replace", "new": "its replacement"}.get(name, name)
    return out


def read_paths(package):
    """The source files that the test output names, in its order."""
    out = []
    for edit in package.edits:
        if edit.path not in out:
            out.append(edit.path)
    return out


def opening(r, package, listing):
    r.assistant(OPENING, "", [("list_files", []), ("run_tests", [])])
    r.results([listing, package.output])


def check(edit, old=None, new=None, path=None, loss=wire.ANSWER):
    """The turn that finds a wrong line and replaces it, as arguments of Render.assistant."""
    args = [("path", path or edit.path), ("old", old or edit.old), ("new", new or edit.new)]
    return f"I check {edit.function}.\n{edit.walk}The last line is wrong.", "", [("edit_file", args)], loss


def repair(rng, package, tool_block=True, vary=True, slips=0.0, whole=True, retries=0.0):
    """The whole dialogue, or up to the edits. slips: share in which a first edit is refused by the tool and done
    again; retries: share in which a first edit is wrong, as the tests then show."""
    r = wire.Render()
    r.start(tools(rng, vary) if tool_block else (), rng.choice(["Max"] * 8 + ["High", "Low"]) if vary else "Max")
    if vary and rng.random() < 0.05:
        r.system("You are a careful Go programmer.")
    r.user(request(rng, package))
    opening(r, package, "\n".join(sorted(package.files)))
    read(r, package)
    if rng.random() < slips:
        slip(rng, r, package)
    if rng.random() < retries:
        package = mistake(rng, r, package)
    for n, edit in enumerate(package.edits):
        r.assistant(*check(edit))
        if not whole and n == len(package.edits) - 1:
            r.control("<|observation|>", wire.ANSWER)
            return r
        r.results(["ok"])
    r.assistant(AGAIN, "", [("run_tests", [])])
    r.results([f"ok  \t{package.name}"])
    done = " ".join(f"I fixed {e.function} in {e.path}." for e in package.edits)
    r.assistant("", f"{done} The tests pass.")
    r.user("", wire.ANSWER)
    return r


def read(r, package):
    """Names what fails and reads the files it lies in."""
    paths = read_paths(package)
    names = ", ".join(e.function for e in package.edits)
    r.assistant(f"{names} fails. I read {', '.join(paths)}.", "", [("read_file", [("path", p)]) for p in paths])
    r.results([(package.files[p], wire.TEXT) for p in paths])


def mistake(rng, r, package):
    """A wrong edit, which the loss skips, the tests after it, and another look. Returns the package as it then is."""
    edit = rng.choice(package.edits)
    function = next(f for f in package.functions if f.name == edit.function)
    others = [n for n, b in enumerate(function.shape.bugs) if b.line == function.bug.line and n != function.bug_index]
    rng.shuffle(others)
    for index in others:
        worse = package.swapped(function.name, index)
        now = worse and next(e for e in worse.edits if e.function == function.name)
        if now and now.old != edit.old and worse.files[now.path].count(now.old) == 1:
            break
    else:
        return package
    for e in package.edits:
        if e is not edit:
            r.assistant(*check(e))
            r.results(["ok"])
    r.assistant(*check(edit, new=now.old, loss=wire.NONE))
    r.results(["ok"])
    left = worse.only(function.name)
    r.assistant(AGAIN, "", [("run_tests", [])])
    r.results([left.output])
    read(r, left)
    return left


def slip(rng, r, package):
    """A wrong first edit, which the loss skips, and the tool's complaint about it."""
    edit = package.edits[0]
    way = rng.randrange(3)
    if way == 0:
        old = next((w for w in (edit.new, edit.old.strip() + ";\n") if w not in package.files[edit.path]))
        wrong, message = check(edit, old=old, loss=wire.NONE), f"error: old text not found in {edit.path}"
    elif way == 1:
        path = edit.path.replace(".go", "_test.go")
        wrong, message = check(edit, path=path, loss=wire.NONE), f"error: {path} is read-only"
    else:
        wrong, message = check(edit, path="main.go", loss=wire.NONE), "error: no file main.go"
    r.assistant(*wrong)
    r.results([message], wire.NONE)


def question(rng, pairs, tool_block):
    """One to three questions about the standard library, answered from memory."""
    r = wire.Render()
    r.start(tools(rng, True) if tool_block else (), "Max")
    for n in range(rng.randint(1, 3)):
        ask, say = rng.choice(pairs)
        r.user(ask, wire.ANSWER if n else wire.NONE)
        r.assistant("", say)
    r.user("", wire.ANSWER)
    return r


def main():
    import packages
    import shapes

    cases = json.load(open(os.sys.argv[1]))
    rng = random.Random(os.sys.argv[2])
    print(repair(rng, packages.build(rng, shapes.load(), cases)).string())


if __name__ == "__main__":
    main()

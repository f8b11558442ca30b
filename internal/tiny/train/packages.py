"""Broken Go packages: sources, tests, the bugs, and what `go test` prints.

A package is drawn from a random generator alone, so a seed names it. Held-out
packages (held=True) differ from training ones in every function name, in the
layout of the file, in the line on which a bug stands, and in the wording of
comments (and, in dialogues.py, of the request).
"""

import dataclasses
import re

import names
import shapes

# (what stands between the functions, where). The second list never occurs in training.
TRAIN_LAYOUTS = [
    ("none", "top"), ("const", "top"), ("const", "middle"), ("type", "top"), ("type", "bottom"),
    ("var", "middle"), ("var", "bottom"),
]
HELD_LAYOUTS = [("const", "bottom"), ("type", "middle"), ("var", "top")]

TRAIN_FRAMES = ["$F returns $D.", "$F computes $D.", "$F gives $D.", "$F tells $D."]
HELD_FRAMES = ["$F reports $D.", "$F determines $D."]

TRAIN_HEADERS = ["Package $P has helpers for $N.", "Package $P works on $N.", "Package $P holds functions about $N."]
HELD_HEADERS = ["Package $P collects what we need for $N.", "Package $P deals with $N."]


def held_line(number):
    """Whether bugs on this line of a file are kept for held-out tasks."""
    return number % 5 == 2


@dataclasses.dataclass
class Function:
    shape: shapes.Shape
    name: str
    vars: dict
    doc: str
    bug: shapes.Bug = None
    bug_index: int = -1

    def fill(self, text):
        return re.sub(r"\$(\w+)", lambda m: self.vars[m.group(1)], text)

    def lines(self, fixed=False):
        """Comment, signature, body, closing brace; the bug in place unless fixed."""
        out = ["// " + self.doc] if self.doc else []
        out.append(f"func {self.name}({self.fill(self.shape.params)}) {self.shape.result} {{")
        for n, line in enumerate(self.shape.body):
            if self.bug and not fixed and n == self.bug.line:
                line = self.bug.old
            out.append(self.fill(line))
        return out + ["}"]


@dataclasses.dataclass
class Edit:
    path: str
    function: str
    kind: str
    old: str  # whole lines, with line ends
    new: str
    line: int


@dataclasses.dataclass
class Package:
    name: str
    files: dict  # broken state, path -> text
    fixed: dict  # repaired state of the source files
    edits: list
    output: str  # of the tests, durations removed
    functions: list
    layout: tuple
    longest: int  # lines of the longest source file


def misspell(rng, name):
    """A near miss of an identifier, the way typing errors look."""
    while True:
        i = rng.randrange(len(name))
        way = rng.randrange(3)
        out = name[:i] + name[i] + name[i:] if way == 0 else name[:i] + name[i + 1 :] if way == 1 else name + rng.choice("sx")
        if out and out != name and not out[0].isdigit():
            return out


def _break(rng, fn):
    """Puts a bug into a function. False if the function can't have one."""
    if rng.random() < 0.08:
        spots = [(n, r) for n, line in enumerate(fn.shape.body) for r in set(re.findall(r"\$(\w+)", line))
                 if len(fn.vars[r]) > 2 and ("$" + r in fn.shape.params or "\n".join(fn.shape.body).count("$" + r) > 3) and not re.search(r"\$%s\b.*:=|:= range|var \$%s\b" % (r, r), line)]
        if spots:
            n, role = rng.choice(spots)
            line = fn.shape.body[n]
            wrong = misspell(rng, fn.vars[role])
            if wrong in fn.vars.values():
                return False
            at = rng.choice([m.start() for m in re.finditer(r"\$%s\b" % role, line)])
            old = line[:at] + wrong + line[at + 1 + len(role):]
            fn.bug, fn.bug_index = shapes.Bug("undefined", n, old, line), -1
            fn.typo = (wrong, fn.fill(line[:at]))
            return True
    fn.bug_index = rng.randrange(len(fn.shape.bugs))
    fn.bug = fn.shape.bugs[fn.bug_index]
    return True


def _function(rng, shape, noun, held, docs, taken):
    while True:
        name = rng.choice(shape.verbs) + noun
        if name not in taken:
            break
        noun = names.noun(rng, held)
    taken.add(name)
    fn = Function(shape, name, names.variables(rng, shape.roles()), "")
    if docs:
        frame = rng.choice(HELD_FRAMES if held else TRAIN_FRAMES)
        fn.doc = frame.replace("$F", name).replace("$D", fn.fill(rng.choice(shape.docs)))
    return fn


def _extra(rng, what, noun):
    low = noun.lower()
    if what == "const":
        rows = rng.sample([f"max{noun}", f"min{noun}", f"default{noun}"], rng.randint(1, 2))
        if len(rows) == 1:
            return [f"const {rows[0]} = {rng.randint(2, 99)}"]
        width = max(map(len, rows))
        return ["const ("] + [f"\t{r.ljust(width)} = {rng.randint(2, 99)}" for r in rows] + [")"]
    if what == "type":
        fields = rng.sample([("Name", "string"), ("Count", "int"), ("Size", "int"), ("Open", "bool")], 2)
        width = max(len(f) for f, _ in fields)
        return [f"type {noun}Info struct {{"] + [f"\t{f.ljust(width)} {t}" for f, t in fields] + ["}"]
    if what == "var":
        return [f"var {low}Sample = []int{{{', '.join(str(rng.randint(1, 9)) for _ in range(3))}}}"]
    return []


def _source(package, functions, layout, header, extra):
    """Lines of one file, and for each function the line number of its first line."""
    text = "\n".join(line for fn in functions for state in (False, True) for line in fn.lines(state))
    lines = ["// " + header] if header else []
    lines += ["package " + package, ""]
    imports = [p for p in ("sort", "strings") if re.search(r"\b%s\." % p, text)]
    if len(imports) == 1:
        lines += [f'import "{imports[0]}"', ""]
    elif imports:
        lines += ["import ("] + [f'\t"{p}"' for p in imports] + [")", ""]
    place = {"top": 0, "middle": (len(functions) + 1) // 2, "bottom": len(functions)}[layout[1]]
    starts, fixed = [], list(lines)
    for n in range(len(functions) + 1):
        if n == place and extra:
            lines += extra + [""]
            fixed += extra + [""]
        if n < len(functions):
            starts.append(len(lines) + 1)
            lines += functions[n].lines() + [""]
            fixed += functions[n].lines(True) + [""]
    return lines[:-1], fixed[:-1], starts


def _equal(result, literal):
    if result.startswith("[]"):
        return "!slices.Equal(got, %s)" % literal
    if result.startswith("map"):
        return "!maps.Equal(got, %s)" % literal.replace('":', '": ')
    if result == "bool":
        return ("!got" if literal == "true" else "got")
    return "got != " + literal


def _test_file(rng, package, path, functions, cases):
    """Text of a test file and the failures it will report: {function: message}."""
    body, failures, number = [], {}, 0
    need = sorted({p for fn in functions for p in (["slices"] if fn.shape.result.startswith("[]") else ["maps"] if fn.shape.result.startswith("map") else [])})
    head = ["package " + package, ""]
    head += ["import ("] + [f'\t"{p}"' for p in need] + ['\t"testing"', ")"] if need else ['import "testing"']
    lines = head
    for fn in functions:
        rows = cases[fn.shape.name]
        bad = [r for r in rows if fn.bug_index >= 0 and fn.bug.kind != "shadow" and r[3].get(str(fn.bug_index), r[1]) != r[1]]
        good = [r for r in rows if fn.bug_index < 0 or fn.bug.kind == "shadow" or r[3].get(str(fn.bug_index)) == r[1]]
        chosen = rng.sample(good, min(len(good), rng.randint(1, 2)))
        if bad:
            chosen = chosen[: rng.randint(0, 1)] + [rng.choice(bad)]
        elif fn.bug and fn.bug_index >= 0 and fn.bug.kind != "shadow":
            raise ValueError(f"{fn.shape.name} bug {fn.bug_index} never shows")
        lines += ["", f"func Test{fn.name}(t *testing.T) {{"]
        for args, want, literal, got in chosen:
            call = f"{fn.name}({', '.join(args)})"
            lines.append(f"\tif got := {call}; {_equal(fn.shape.result, literal)} {{")
            lines.append(f"\t\tt.Fatalf(`{call} = {shapes.verb(fn.shape.result)}, want {want}`, got)")
            if bad and got.get(str(fn.bug_index), want) != want:
                failures[fn.name] = f"{path}:{len(lines)}: {call} = {got[str(fn.bug_index)]}, want {want}"
            lines.append("\t}")
        lines.append("}")
    return "\n".join(lines) + "\n", failures


def _output(package, sources, failures):
    """What the test tool prints: the output of `go test` without durations."""
    broken = []
    for path, functions, starts in sources:
        for fn, start in zip(functions, starts):
            if fn.bug and fn.bug.kind in ("undefined", "shadow"):
                line = start + (1 if fn.doc else 0) + 1 + fn.bug.line
                text = fn.fill(fn.bug.old)
                if fn.bug.kind == "undefined":
                    broken.append(f"./{path}:{line}:{len(fn.typo[1].encode()) + 1}: undefined: {fn.typo[0]}")
                else:
                    col = len(text) - len(text.lstrip("\t")) + 1
                    broken.append(f"./{path}:{line}:{col}: declared and not used: {text.split()[0]}")
    if broken:
        return "\n".join([f"# {package} [{package}.test]"] + broken + [f"FAIL\t{package} [build failed]"])
    rows = [f"--- FAIL: Test{name}\n    {message}" for name, message in failures.items()]
    return "\n".join(rows + ["FAIL", f"FAIL\t{package}"])


def build(rng, all_shapes, cases, held=False, functions=(3, 5), bugs=1, files=1, lines=None, docs=None):
    """Draws one broken package. lines = (least, most) for the file that holds the bug."""
    while True:
        package = _draw(rng, all_shapes, cases, held, rng.randint(*functions), bugs, files, docs)
        if package is None:
            continue
        if lines and not lines[0] <= package.longest <= lines[1]:
            continue
        return package


def _draw(rng, all_shapes, cases, held, count, bugs, files, docs):
    layout = rng.choice(HELD_LAYOUTS if held else TRAIN_LAYOUTS)
    package = rng.choice(names.HELD_PACKAGES if held else names.TRAIN_PACKAGES)
    docs = rng.random() < 0.75 if docs is None else docs
    taken, per_file = set(), []
    for _ in range(files):
        noun = names.noun(rng, held)
        picked = rng.sample(all_shapes, count)
        per_file.append((noun, [_function(rng, s, noun if rng.random() < 0.7 else names.noun(rng, held), held, docs, taken) for s in picked]))
    if len({n for n, _ in per_file}) < files:
        return None
    pool = [fn for _, fns in per_file for fn in fns]
    chosen = rng.sample(pool, min(bugs, len(pool)))
    for fn in chosen:
        if not _break(rng, fn):
            return None
    kinds = {fn.bug.kind in ("undefined", "shadow") for fn in chosen}
    if len(kinds) > 1:
        return None  # a build failure hides failing tests
    files_out, fixed_out, sources, edits, failures, longest = {}, {}, [], [], {}, 0
    for noun, fns in per_file:
        path, test = f"{noun.lower()}.go", f"{noun.lower()}_test.go"
        header = ""
        if rng.random() < 0.4:
            header = rng.choice(HELD_HEADERS if held else TRAIN_HEADERS).replace("$P", package).replace("$N", noun.lower())
        lines, fixed, starts = _source(package, fns, layout, header, _extra(rng, layout[0], noun))
        longest = max(longest, len(lines))
        for fn, start in zip(fns, starts):
            if fn.bug:
                at = start + (1 if fn.doc else 0) + 1 + fn.bug.line
                if held_line(at) != held:
                    return None
                old, new = lines[at - 1] + "\n", fixed[at - 1] + "\n"
                if ("\n".join(lines) + "\n").count(old) > 1:
                    return None  # the edit tool needs a unique text
                edits.append(Edit(path, fn.name, fn.bug.kind, old, new, at))
        files_out[path], fixed_out[path] = "\n".join(lines) + "\n", "\n".join(fixed) + "\n"
        text, fails = _test_file(rng, package, test, fns, cases)
        files_out[test] = text
        failures.update(fails)
        sources.append((path, fns, starts))
    order = {path: n for n, path in enumerate(sorted(files_out))}
    failures = dict(sorted(failures.items(), key=lambda kv: order[kv[1].split(":")[0]]))
    sources.sort(key=lambda s: order[s[0]])
    edits.sort(key=lambda e: (order[e.path], e.line))
    files_out["go.mod"] = f"module {package}\n\ngo 1.26\n"
    return Package(package, files_out, fixed_out, edits, _output(package, sources, failures),
                   pool, layout, longest)

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

    def text(self, fixed=False):
        """The function without its comment."""
        return "\n".join(self.lines(fixed)[bool(self.doc):]) + "\n"


@dataclasses.dataclass
class Edit:
    path: str
    function: str
    kind: str
    walk: str  # the function up to and with the broken line
    old: str  # the broken line
    new: str
    line: int  # its number


@dataclasses.dataclass
class File:
    path: str
    functions: list
    header: str
    extra: list
    test: str = ""  # text of its test file
    checks: dict = None  # function -> [(line of the message in the test file, row of cases)]

    def test_path(self):
        return self.path.replace(".go", "_test.go")


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
    parts: list  # of File

    def swapped(self, name, index):
        """The package with another bug in one function, or None if its tests would not tell."""
        parts = [dataclasses.replace(f, functions=[dataclasses.replace(fn) for fn in f.functions]) for f in self.parts]
        for f in parts:
            for fn in f.functions:
                if fn.name != name:
                    continue
                fn.bug, fn.bug_index = fn.shape.bugs[index], index
                got = [row[3].get(str(index)) for _, row in f.checks[name]]
                if None in got or got == [row[1] for _, row in f.checks[name]]:
                    return None
        return _render(self.name, self.layout, parts)

    def only(self, name):
        """The package with every bug repaired but the one in a function."""
        parts = [dataclasses.replace(f, functions=[fn if fn.name == name else dataclasses.replace(fn, bug=None, bug_index=-1) for fn in f.functions]) for f in self.parts]
        return _render(self.name, self.layout, parts)


def _break(rng, fn):
    """Puts a bug into a function."""
    fn.bug_index = rng.randrange(len(fn.shape.bugs))
    fn.bug = fn.shape.bugs[fn.bug_index]


def _function(rng, shape, noun, held, docs, taken, variables):
    while True:
        name = rng.choice(shape.verbs) + noun
        if name not in taken:
            break
        noun = names.noun(rng, held)
    taken.add(name)
    fn = Function(shape, name, names.variables(rng, shape.roles(), variables), "")
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


def _test_file(rng, package, file, cases):
    """Draws the checks of a test file and writes it."""
    functions = file.functions
    need = sorted({p for fn in functions for p in (["slices"] if fn.shape.result.startswith("[]") else ["maps"] if fn.shape.result.startswith("map") else [])})
    lines = ["package " + package, ""]
    lines += ["import ("] + [f'\t"{p}"' for p in need] + ['\t"testing"', ")"] if need else ['import "testing"']
    file.checks = {}
    for fn in functions:
        rows = cases[fn.shape.name]
        bad = [r for r in rows if fn.bug_index >= 0 and r[3].get(str(fn.bug_index), r[1]) != r[1]]
        good = [r for r in rows if fn.bug_index < 0 or r[3].get(str(fn.bug_index)) == r[1]]
        chosen = rng.sample(good, min(len(good), rng.randint(1, 2)))
        if bad:
            chosen = chosen[: rng.randint(0, 1)] + [rng.choice(bad)]
        elif fn.bug:
            raise ValueError(f"{fn.shape.name} bug {fn.bug_index} never shows")
        lines += ["", f"func Test{fn.name}(t *testing.T) {{"]
        file.checks[fn.name] = []
        for row in chosen:
            args, want, literal, _ = row
            call = f"{fn.name}({', '.join(args)})"
            lines.append(f"\tif got := {call}; {_equal(fn.shape.result, literal)} {{")
            lines.append(f"\t\tt.Fatalf(`{call} = {shapes.verb(fn.shape.result)}, want {want}`, got)")
            file.checks[fn.name].append((len(lines), row))
            lines.append("\t}")
        lines.append("}")
    file.test = "\n".join(lines) + "\n"


def _failures(file):
    """[(function, message)] of its tests as they stand; each test stops at its first failure."""
    out = []
    for fn in file.functions:
        if not file.checks or fn.bug_index < 0:
            continue
        for line, (args, want, _, got) in file.checks[fn.name]:
            if got.get(str(fn.bug_index), want) != want:
                out.append((fn.name, f"{file.test_path()}:{line}: {fn.name}({', '.join(args)}) = {got[str(fn.bug_index)]}, want {want}"))
                break
    return out


def _output(package, failures):
    """What the test tool prints: the output of `go test` without durations."""
    rows = [f"--- FAIL: Test{name}\n    {message}" for name, message in failures]
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
        picked, variables = rng.sample(all_shapes, count), set()
        nouns = [noun]  # one of every function's own: a name says at its end which function it is
        while len(nouns) < count:
            other = names.noun(rng, held)
            nouns += [other] if other not in nouns else []
        rng.shuffle(nouns)
        per_file.append((noun, [_function(rng, s, n, held, docs, taken, variables) for s, n in zip(picked, nouns)]))
    if len({n for n, _ in per_file}) < files:
        return None
    pool = [fn for _, fns in per_file for fn in fns]
    chosen = rng.sample(pool, min(bugs, len(pool)))
    for fn in chosen:
        _break(rng, fn)
    parts = []
    for noun, fns in per_file:
        header = ""
        if rng.random() < 0.4:
            header = rng.choice(HELD_HEADERS if held else TRAIN_HEADERS).replace("$P", package).replace("$N", noun.lower())
        parts.append(File(f"{noun.lower()}.go", fns, header, _extra(rng, layout[0], noun)))
        alone = _render(package, layout, parts[-1:])
        text = alone.files[parts[-1].path]
        if any(held_line(e.line) != held or text.count(e.old) != 1 for e in alone.edits):
            return None
        _test_file(rng, package, parts[-1], cases)
    return _render(package, layout, parts)


def _render(package, layout, parts):
    """Everything that follows from the functions and their bugs."""
    parts = sorted(parts, key=lambda f: f.path)
    files, fixed_files, edits, failures, longest = {}, {}, [], [], 0
    for f in parts:
        lines, fixed, starts = _source(package, f.functions, layout, f.header, f.extra)
        longest = max(longest, len(lines))
        files[f.path], fixed_files[f.path] = "\n".join(lines) + "\n", "\n".join(fixed) + "\n"
        files[f.test_path()] = f.test
        for fn, start in zip(f.functions, starts):
            if fn.bug:
                at = start + (1 if fn.doc else 0) + 1 + fn.bug.line
                n = fn.bug.line + 1
                walk, right = fn.text().splitlines(keepends=True)[: n + 1], fn.text(True).splitlines(keepends=True)[n]
                edits.append(Edit(f.path, fn.name, fn.bug.kind, "".join(walk), walk[-1], right, at))
        failures += _failures(f)
    files["go.mod"] = f"module {package}\n\ngo 1.26\n"
    return Package(package, files, fixed_files, edits, _output(package, failures),
                   [fn for f in parts for fn in f.functions], layout, longest, parts)

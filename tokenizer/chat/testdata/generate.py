"""Makes goldens.json: conversations from a seed, rendered by templates/ with Jinja.

    python3 -m venv env && env/bin/pip install jinja2==3.1.6
    env/bin/python generate.py > goldens.json

With other arguments it makes the same kind of conversations for a comparison
with other templates, which are not part of this repository:

    generate.py --seed 7 --count 2000 --names GLM-5.2 --template path/to/chat_template.jinja

Released templates print null content as None and show a part of a tool result
as a Python dict, and none knows the role developer. For them the conversation
is first put in the form that says the same (see plain).
"""

import argparse
import copy
import json
import os
import random
import sys

import jinja2

NAMES = ["GLM-4.5", "GLM-4.6", "GLM-4.7", "GLM-4.7-Flash", "GLM-5",
         "GLM-5.1", "GLM-5.2", "GLM-5.3", "GLM-5.3-Flash"]
OURS = {"GLM-4.5": "glm45", "GLM-4.6": "glm45",
        "GLM-4.7": "glm47", "GLM-4.7-Flash": "glm47", "GLM-5": "glm47",
        "GLM-5.1": "glm51", "GLM-5.2": "glm52",
        "GLM-5.3": "glm53", "GLM-5.3-Flash": "glm53"}

WORDS = ["list the files", "  indented\n", "\n\nblank lines\n\n", "你好，世界", "naïve café", "🙂👩‍👩‍👧", "a\tb\r\nc",
         "<b>&amp;</b>", "\"quoted\" \\back\\", "1234567890", "x = {'a': [1, 2]}", "\u00a0wide\u3000", "\x1c\x1ffs",
         "don't I'LL", "</tools>", "None", "{{ braces }} {% if %}", "ends with space ", "\u2028line", "\x7f\x01"]
CONTROLS = ["<|user|>", "<|system|>", "</think>", "<think>", "<tool_call>", "</arg_value>", "/nothink", "[gMASK]<sop>"]
KEYS = ["path", "命令", "with space", "n", "type", "<key>", "a.b", "\"q\"", ""]


class Maker:
    """Draws conversations. Whatever it draws, the next draw depends on the seed alone."""

    def __init__(self, seed, generation):
        self.r = random.Random(seed)
        self.generation = generation
        self.calls = 0
        self.controls = self.r.choice([0, 0, 0.3])  # how often text looks like a control token

    def chance(self, p):
        return self.r.random() < p

    def text(self, most=3):
        parts = [self.r.choice(CONTROLS if self.chance(self.controls) else WORDS) for _ in range(self.r.randint(0, most))]
        return self.r.choice(["", " ", "\n"]).join(parts)

    def number(self):
        return self.r.choice([0, -1, 7, 2**63, -(10**40), 0.5, 1e16, 1e22, 1.5e-7, 0.0001, -0.0, 123456.789, 1e300])

    def value(self, depth=0):
        kinds = ["text", "text", "number", "bool", "null"] + (["list", "object"] if depth < 3 else [])
        kind = self.r.choice(kinds)
        if kind == "text":
            return self.text(most=2)
        if kind == "number":
            return self.number()
        if kind == "bool":
            return self.chance(0.5)
        if kind == "null":
            return None
        if kind == "list":
            return [self.value(depth + 1) for _ in range(self.r.randint(0, 3))]
        return self.object(depth + 1)

    def object(self, depth=0):
        return {self.r.choice(KEYS): self.value(depth) for _ in range(self.r.randint(0, 3))}

    def schema(self):
        names = self.r.sample(KEYS, self.r.randint(0, 3))
        return {"type": "object",
                "properties": {k: {"type": self.r.choice(["string", "integer", "array"]), "x": self.value(2)} for k in names},
                "required": names[:1]}

    def tool(self, name):
        f = {"name": name, "description": self.text(), "parameters": self.schema()}
        if self.chance(0.3):
            f["strict"] = self.chance(0.5)
        if self.chance(0.3):
            f["defer_loading"] = self.chance(0.6)
        keys = list(f)
        self.r.shuffle(keys)
        f = {k: f[k] for k in keys}
        return {"type": "function", "function": f} if self.chance(0.8) else f

    def content(self, null=0.1, listed=0.25):
        if self.chance(null):
            return None
        if not self.chance(listed):
            return self.text()
        return [self.text(most=1) if self.chance(0.3) else {"type": "text", "text": self.text()}
                for _ in range(self.r.randint(1, 3))]

    def assistant(self, tools):
        m = {"role": "assistant", "content": self.content(null=0.25)}
        if self.chance(0.15):
            m["content"] = self.r.choice(["<think>\n%s\n</think>\n%s", "%s</think>%s"]) % (self.text(), self.text())
        elif self.chance(0.7):
            m["reasoning_content"] = self.text()
        if self.chance(0.6):
            m["tool_calls"] = []
            for _ in range(self.r.randint(1, 3)):
                self.calls += 1
                m["tool_calls"].append({"id": "c%d" % self.calls, "type": "function", "function": {
                    "name": self.r.choice(tools + ["unknown"]), "arguments": self.object()}})
        return m

    def output(self, names):
        """What a part with an output, or a whole message, may hold as content."""
        if names and self.generation >= 5.2 and self.chance(0.2):
            return [{"type": "tool_reference", "name": self.r.choice(names)} for _ in range(self.r.randint(1, 2))]
        return self.content(null=0, listed=0.2)

    def results(self, calls, names):
        ids = [c["id"] for c in calls] or ["stray"]
        if self.chance(0.5):
            self.r.shuffle(ids)
        if self.chance(0.1):
            ids.append(ids[0])
        if self.chance(0.1):
            ids = ids[:1]
        if self.chance(0.2):
            return [{"role": "tool", "content": [
                {"tool_call_id": i, "output": self.output(names if self.generation >= 5.3 else [])} for i in ids]}]
        found = []
        for i in ids:
            m = {"role": "tool", "content": self.output(names)}
            if self.chance(0.95):
                m["tool_call_id"] = i
            found.append(m)
        return found

    def conversation(self):
        names = self.r.sample(["read", "write_file", "天气", "math.add"], self.r.randint(0, 3))
        c = {"messages": []}
        if names:
            c["tools"] = [self.tool(n) for n in names]
        if self.chance(0.5):
            c["messages"].append({"role": self.r.choice(["system", "developer"]), "content": self.content()})
        for _ in range(self.r.randint(1, 2)):
            c["messages"].append({"role": "user", "content": self.content()})
            for _ in range(self.r.randint(0, 2)):
                m = self.assistant(names)
                c["messages"].append(m)
                if m.get("tool_calls"):
                    c["messages"] += self.results(m["tool_calls"], names)
            if self.chance(0.05):
                c["messages"].append({"role": "system", "content": self.text()})
        if self.chance(0.3):
            c["messages"].append({"role": "user", "content": self.text() + self.r.choice(["", "/nothink"])})
        # Thinking that is off and a stated effort go together in the reference,
        # but are one setting here.
        if self.chance(0.3):
            c["enable_thinking"] = self.chance(0.3)
        if c.get("enable_thinking", True) and self.chance(0.4):
            c["reasoning_effort"] = self.r.choice(["low", "medium", "high", "max"])
        if self.chance(0.4):
            c["clear_thinking"] = self.chance(0.5)
        return c


def write(v, r, free=False):
    """Writes JSON, now and then in another spelling that means the same.

    In free JSON, such as arguments, a key may stand twice: the last value counts,
    in the first place."""
    if isinstance(v, dict):
        pairs = [write(k, r) + ": " + write(x, r, free or k in ["arguments", "parameters"]) for k, x in v.items()]
        if free and v and r.random() < 0.1:
            pairs.insert(0, write(list(v)[0], r) + ": [1,2]")
        return "{" + ",".join(pairs) + "}"
    if isinstance(v, list):
        return "[" + ", ".join(write(x, r, free) for x in v) + "]"
    if isinstance(v, float) and r.random() < 0.5:
        return r.choice(["1E2", "1.50", "-0.0", "100.0e-1", "1e400", "2.5E-9"])
    if isinstance(v, int) and not isinstance(v, bool) and r.random() < 0.1:
        return "-0"
    s = json.dumps(v, ensure_ascii=r.random() < 0.2)
    return s.replace("/", "\\/") if isinstance(v, str) and r.random() < 0.1 else s


def plain(c):
    """The conversation in the form in which released templates print what is meant."""
    c = copy.deepcopy(c)
    for m in c["messages"]:
        if m["role"] == "developer":
            m["role"] = "system"
        if m["content"] is None:
            m["content"] = ""
        if m["role"] == "tool" and isinstance(m["content"], list):
            if "output" in m["content"][0]:
                for p in m["content"]:
                    p["output"] = joined(p["output"])
            else:
                m["content"] = [joined([p]) if is_text(p) else p for p in m["content"]]
    return c


def is_text(part):
    return isinstance(part, str) or part.get("type") == "text"


def joined(content):
    if isinstance(content, list) and all(map(is_text, content)):
        return "".join(p if isinstance(p, str) else p["text"] for p in content)
    return content


def last_user(roles):
    return max((i for i, role in enumerate(roles) if role == "user"), default=-1)


def environment(path):
    env = jinja2.Environment(loader=jinja2.FileSystemLoader(path), trim_blocks=True, lstrip_blocks=True,
                             extensions=["jinja2.ext.loopcontrols"])
    dumps = lambda v, ensure_ascii=False: json.dumps(v, ensure_ascii=ensure_ascii)
    env.filters.update(json=dumps, tojson=dumps, last_user=last_user)
    return env


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--seed", type=int, default=20261130)
    a.add_argument("--count", type=int, default=100)
    a.add_argument("--names", nargs="*", default=NAMES + ["GLM-5.1", "GLM-5.2"])
    a.add_argument("--template", help="a template outside this folder, instead of ours")
    a = a.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    if a.template:
        env = environment(os.path.dirname(os.path.abspath(a.template)))
    else:
        env = environment(os.path.join(here, "templates"))
    cases = []
    for i in range(a.count):
        name = a.names[i % len(a.names)]
        maker = Maker(a.seed * 1000003 + i, float(name.split("-")[1]))
        text = write(maker.conversation(), maker.r)
        c = json.loads(text)  # the reference reads what the test reads
        file = os.path.basename(a.template) if a.template else OURS[name] + ".jinja"
        c = plain(c) if a.template else c
        for m in c["messages"]:
            m["role"] = {"developer": "system"}.get(m["role"], m["role"])
        expected = env.get_template(file).render(**c, add_generation_prompt=True)
        cases.append('{"template": %s, "case": "%d",\n "input": %s,\n "expected": %s}' %
                     (json.dumps(name), i, text, json.dumps(expected, ensure_ascii=False)))
    sys.stdout.write('{"cases": [\n%s\n]}\n' % ",\n".join(cases))


main()

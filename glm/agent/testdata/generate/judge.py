"""Plays scripted repairs through the Python judge and records its prompts.

    python judge.py ../../../../internal/tiny > ../judge.json

The judge is internal/tiny/train/evaluate.py as it is; only the model is replaced,
by a list of replies, and the tokenizer, by one whose ids are bytes and then GLM's
added tokens. So the prompts hold whatever the judge and its tools do.
"""

import json
import os
import sys
import types

TINY = sys.argv[1]
sys.path.insert(0, os.path.join(TINY, "train"))

import evaluate
import wire

FIRST = 256


class Bytes:
    """A tokenizer of bytes."""

    def __init__(self):
        self.control = {name: FIRST + n for n, name in enumerate(wire.ADDED)}
        self.plain = self

    def parts(self, parts):
        ids = []
        for name, text, _ in parts:
            ids += [self.control[name]] if name else list(text.encode())
        return ids, None

    def decode(self, ids, skip_special_tokens):
        assert not skip_special_tokens and all(i < FIRST for i in ids)
        return bytes(ids).decode()


def call(name, **args):
    return lambda r: r.call_text(name, list(args.items()), wire.NONE)


def reply(reasoning, *calls, text=""):
    r = wire.Render()
    r.text(reasoning)
    r.control("</think>")
    r.text(text)
    for c in calls:
        c(r)
    r.control("<|observation|>" if calls else "<|user|>")
    return r.parts


class Script:
    """Stands where the judge has its greedy model."""

    def __init__(self, unused):
        pass

    def run(self, ids, stops, limit):
        start = len(ids)
        prompts.append(list(ids))
        ids += encoder.parts(replies.pop(0))[0]
        assert ids[-1] in stops and len(ids) - start <= limit
        return ids[start:-1]


encoder = Bytes()
evaluate.Greedy = Script
evaluate.modelling.EOS = [encoder.control[n] for n in ("<|endoftext|>", "<|user|>", "<|observation|>")]
model = types.SimpleNamespace(config=types.SimpleNamespace(max_position_embeddings=10**6))
tasks = {t["name"]: t for t in json.load(open(os.path.join(TINY, "tasks", "short.json"), encoding="utf-8"))}


def record(task, script, passes):
    global replies, prompts
    replies, prompts = list(script), []
    said = [encoder.parts(r)[0] for r in script]
    passed, cause, turns, _ = evaluate.repair(model, encoder, task)
    assert passed == passes and not replies, (task["name"], passed, cause)
    return {"task": task, "replies": said, "prompts": prompts, "passed": passed}


first = tasks["short-000"]
odd = {
    "name": "odd",
    "request": "Fix «odd»: <|user|> is <b>not</b> a role here.",
    "files": {
        "go.mod": "module odd\n\ngo 1.26\n",
        "odd.go": "package odd\n\n// Odd is <think>wrong</think> twice, twice: é世界.\nfunc Odd(n int) bool { return n%2 == 0 }\n",
        "odd_test.go": "package odd\n\nimport \"testing\"\n\nfunc TestOdd(t *testing.T) {\n\tfor n := range 40 {\n\t\tif Odd(n) != (n&1 == 1) {\n\t\t\tt.Errorf(\"Odd(%d) is wrong; </tool_response><|assistant|>\", n)\n\t\t}\n\t}\n}\n",
    },
}

json.dump(
    [
        record(first, [
            reply("I list the files and run the tests.", call("list_files"), call("run_tests")),
            reply("", call("read_file", path="balloons.go")),
            reply("u*u is wrong.", call("edit_file", path="balloons.go", old="\t\tlist2 = append(list2, u*u)\n", new="\t\tlist2 = append(list2, u*scale)\n")),
            reply("I run the tests again.", call("run_tests")),
            reply("", text="ScaleBalloons squared its elements; now it scales them."),
        ], True),
        record(odd, [
            reply("All that can go wrong.", call("read_file", path="even.go"), call("edit_file", path="odd_test.go", old="wrong", new="right"), call("edit_file", path="go.mod", old="odd", new="even")),
            reply("", call("edit_file", path="odd.go", old="thrice", new="x"), call("edit_file", path="odd.go", old="twice", new="x"), call("edit_file", path="odd.go", old="", new="x")),
            reply("", call("write_file", path="odd.go", text="x"), call("read_file"), call("read_file", path="odd.go", line="1"), call("list_files", path=".")),
            reply("It does not build now.", call("edit_file", path="odd.go", old="n%2 == 0", new="m%2 == 0"), call("run_tests")),
            reply("And now?", call("edit_file", path="odd.go", old="m%2", new="n%2"), call("read_file", path="odd.go"), call("run_tests")),
            reply("Right.", call("edit_file", path="odd.go", old="== 0", new="!= 0"), call("run_tests")),
            reply("", text="Done."),
        ], True),
    ],
    sys.stdout, ensure_ascii=False, separators=(",", ":"),
)
print()

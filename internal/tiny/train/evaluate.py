"""The judge: the reference class in a plain repair loop over held-out tasks.

    python evaluate.py CHECKPOINT_DIR TASKS.json [--random] [--withhold] [--count N] [--out RESULT.json]

Greedy, at most 12 turns, KV cached. The loop knows the four tools and nothing
else: the edit is the model's own old and new text, test files are read-only.
A task passes if `go test` passes in the end with the task's own test files.
--random: random weights. --withhold: every tool result is an empty text.
"""

import argparse
import collections
import json
import time

import torch
from transformers import DynamicCache, GlmMoeDsaForCausalLM

import dialogues
import model as modelling
import tok
import wire
import workspace

TURNS, TURN_TOKENS = 12, 900


class Greedy:
    """Feeds ids and continues them greedily with the reference class."""

    def __init__(self, model):
        self.model, self.cache, self.fed = model, DynamicCache(config=model.config), 0

    @torch.no_grad()
    def run(self, ids, stops, limit):
        """Appends the continuation to ids, the stop id included; returns it without the stop id, or None at the limit."""
        start = len(ids)
        while len(ids) - start < limit:
            fresh = torch.tensor([ids[self.fed :]])
            logits = self.model(fresh, cache=self.cache, use_cache=True, logits_to_keep=1).logits[0, -1]
            self.fed = len(ids)
            best = logits[: wire.VOCABULARY].argmax().item()
            ids.append(best)
            if best in stops:
                return ids[start:-1]
        return None


def calls(ids, encoder):
    """[(tool name, {argument: text})] of a generated turn; text that isn't well formed yields a call of name None."""
    c, out, n = encoder.control, [], 0
    text = lambda part: encoder.plain.decode(part, skip_special_tokens=False)
    while n < len(ids):
        if ids[n] != c["<tool_call>"]:
            n += 1
            continue
        if c["</tool_call>"] not in ids[n:]:
            out.append((None, {}))
            break
        end = ids.index(c["</tool_call>"], n)
        body = ids[n + 1 : end]
        cut = body.index(c["<arg_key>"]) if c["<arg_key>"] in body else len(body)
        name, args, rest = text(body[:cut]), {}, body[cut:]
        try:
            while rest:
                a, b = rest.index(c["</arg_key>"]), rest.index(c["</arg_value>"])
                if rest[0] != c["<arg_key>"] or rest[a + 1] != c["<arg_value>"]:
                    raise ValueError
                args[text(rest[1:a])] = text(rest[a + 2 : b])
                rest = rest[b + 1 :]
            out.append((name, args))
        except (ValueError, IndexError):
            out.append((None, {}))
        n = end + 1
    return out


TOOLS = {"list_files": (), "read_file": ("path",), "edit_file": ("path", "old", "new"), "run_tests": ()}


def use(space, name, args):
    if name not in TOOLS:
        return f"error: no tool {name}"
    if set(args) != set(TOOLS[name]):
        return "error: wrong arguments"
    return getattr(space, name)(**args)


def repair(model, encoder, task, withhold=False):
    """(passed, what happened, turns, ids)"""
    r = wire.Render()
    r.start([t["function"] for t in dialogues.TOOLS])
    r.user(task["request"])
    ids, _ = encoder.parts(r.parts)
    greedy, edits, end = Greedy(model), 0, "turns used up"
    with workspace.Workspace(task["files"]) as space:
        for turn in range(1, TURNS + 1):
            r = wire.Render()
            r.prompt()
            ids += encoder.parts(r.parts)[0]
            said = greedy.run(ids, modelling.EOS, TURN_TOKENS)
            if said is None:
                end = "turn too long"
                break
            wanted = calls(said, encoder)
            if not wanted:
                end = "answered"
                break
            edits += sum(name == "edit_file" for name, _ in wanted)
            results = [use(space, name, args) for name, args in wanted]
            r = wire.Render()
            r.results(["" if withhold else x for x in results])
            if ids[-1] == encoder.control["<|observation|>"]:
                r.parts = r.parts[1:]
            ids += encoder.parts(r.parts)[0]
            if len(ids) > model.config.max_position_embeddings - TURN_TOKENS:
                end = "context used up"
                break
        for path, text in task["files"].items():  # the judge's own tests
            if path.endswith("_test.go") and space.read_file(path) != text:
                raise RuntimeError(f"{task['name']}: {path} was changed")
        passed = space.passes()
    cause = "passed" if passed else f"{end} without an edit" if not edits else end
    return passed, cause, turn, ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("tasks")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--withhold", action="store_true")
    parser.add_argument("--count", type=int, default=10**6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = GlmMoeDsaForCausalLM.from_pretrained(args.checkpoint, dtype=torch.float32, attn_implementation="eager").eval()
    if args.random:
        torch.manual_seed(1)
        model = GlmMoeDsaForCausalLM(model.config).eval()
    encoder = tok.Encoder(args.checkpoint + "/tokenizer.json")
    tasks = json.load(open(args.tasks, encoding="utf-8"))[: args.count]
    causes, kinds, rows, began = collections.Counter(), collections.Counter(), [], time.time()
    for task in tasks:
        passed, cause, turns, ids = repair(model, encoder, task, args.withhold)
        causes[cause] += 1
        kinds[task["kind"], passed] += 1
        rows.append({"name": task["name"], "passed": passed, "cause": cause, "turns": turns, "tokens": len(ids)})
        if not passed:
            print(task["name"], task["kind"], task["shape"], cause, flush=True)
    print(f"{sum(r['passed'] for r in rows)} of {len(rows)} pass, {time.time() - began:.0f} s; {dict(causes)}")
    print("by kind:", {k: f"{kinds[k, True]}/{kinds[k, True] + kinds[k, False]}" for k in sorted({k for k, _ in kinds})})
    if args.out:
        json.dump({"tasks": args.tasks, "random": args.random, "withhold": args.withhold, "rows": rows}, open(args.out, "w"), indent=1)


if __name__ == "__main__":
    main()

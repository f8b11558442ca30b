"""Teacher-forced look at a checkpoint: how many held-out edits it would write.

    python probe.py CASES.json TOKENIZER.json STATE.pt [COUNT] [dense|sparse]
"""

import json
import random
import sys

import torch

import dialogues
import fused
import model as modelling
import packages
import shapes
import tok
import wire


def spans(ids, encoder):
    """[(argument, start, end)] of the calls of a dialogue."""
    c = encoder.control
    out, key = [], None
    for n, i in enumerate(ids):
        if i == c["<arg_key>"]:
            key = encoder.decode(ids[n + 1 : n + 2])
        elif i == c["<arg_value>"]:
            start = n + 1
        elif i == c["</arg_value>"]:
            out.append((key, start, n + 1))
    return out


def main():
    cases, encoder = json.load(open(sys.argv[1])), tok.Encoder(sys.argv[2])
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 40
    sparse = len(sys.argv) > 5 and sys.argv[5] == "sparse"
    torch.set_num_threads(1)
    model = modelling.create(modelling.config())
    state = torch.load(sys.argv[3], weights_only=False)
    model.load_state_dict(state.get("model", state))
    print("at", state.get("at"))
    all_shapes = shapes.load()
    for label, held, kw in (("seen names, short", False, dict(functions=(1, 3), lines=(6, 34))), ("held-out, 30-60 lines", True, dict(functions=(3, 6), lines=(30, 60)))):
        hits = dict.fromkeys(("read", "walk", "old", "new", "all", "tokens", "of"), 0)
        for n in range(count):
            rng = random.Random(f"probe {n} {held}")
            package = packages.build(rng, all_shapes, cases, held=held, **kw)
            ids, losses = encoder.parts(dialogues.repair(rng, package, vary=False).parts)
            with torch.no_grad():
                hidden = fused.forward(model, torch.tensor([ids]), sparse) if fused.available() else modelling.forward(model, torch.tensor([ids]), sparse)[0]
                guess = model.lm_head(hidden.float()).argmax(-1).tolist()
            right = [True] + [g == i for g, i in zip(guess, ids[1:])]
            answer = [r for r, l in zip(right, losses) if l == wire.ANSWER]
            marks = {}
            for key, a, b in spans(ids, encoder):
                marks.setdefault(key, (a, all(right[a:b])))
            first = marks["old"][0]
            think = max(n for n in range(first) if ids[n] == encoder.control["<think>"])
            end = max(n for n in range(first) if ids[n] == encoder.control["</think>"])
            call = max(n for n in range(think) if ids[n] == encoder.control["<tool_call>"])
            read = max(n for n in range(call) if ids[n] == encoder.control["<think>"])
            hits["read"] += all(r for r, l in zip(right[read:think], losses[read:think]) if l == wire.ANSWER)
            hits["walk"] += all(right[think + 1 : end + 1])
            hits["old"] += marks["old"][1]
            hits["new"] += marks["new"][1]
            hits["all"] += all(answer)
            hits["tokens"] += sum(answer)
            hits["of"] += len(answer)
        print(f"{label}: read {hits['read']}, walk {hits['walk']}, old {hits['old']}, new {hits['new']}, "
              f"whole dialogue {hits['all']} of {count}; answer tokens {hits['tokens'] / hits['of']:.4f}", flush=True)


if __name__ == "__main__":
    main()

"""Reference values for the Go engine, from the reference class in float32.

    python goldens.py CHECKPOINT_DIR CASES.json TASKS.json OUT_DIR

goldens.json   prompts (ids) with 64 greedy ids each, perplexity over the
               windows of heldout.u16, MTP acceptance, sparsity, expert loads
logits.f32     little-endian float32 [prompts, vocab_size]: logits after each prompt
heldout.u16    little-endian uint16 ids, windows of WINDOW tokens

The latent norms of the reference use eps 1e-6, not config.json's 1e-5. Many index
scores are exactly zero (a ReLU), and which of equal scores torch.topk takes is
not specified: here the lower position, as in the library.
"""

import json
import os
import random
import sys

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import GlmMoeDsaForCausalLM

import dialogues
import evaluate
import model as modelling
import packages
import shapes
import stdlib
import tok
import wire

WINDOW, WINDOWS, PROMPTS, GREEDY = 1000, 20, 10, 64


def stable_topk(x, k, dim=-1, **unused):
    """torch.topk, with the lower position first among equals."""
    values, indices = x.sort(dim=dim, descending=True, stable=True)
    return torch.return_types.topk((values.narrow(dim, 0, k).contiguous(), indices.narrow(dim, 0, k).contiguous()))


def open_mtp(folder, cfg):
    """The MTP layer of a published checkpoint as a modelling.Mtp."""
    prefix = f"model.layers.{cfg.num_hidden_layers}."
    raw = {k.removeprefix(prefix): v.float() for k, v in load_file(os.path.join(folder, "model.safetensors")).items() if k.startswith(prefix)}
    mtp, state = modelling.Mtp(cfg), {}
    for name in mtp.state_dict():
        if name.endswith("experts.gate_up_proj"):
            base = name.removeprefix("layer.").removesuffix("gate_up_proj")
            state[name] = torch.stack([torch.cat([raw[f"{base}{e}.gate_proj.weight"], raw[f"{base}{e}.up_proj.weight"]]) for e in range(cfg.n_routed_experts)])
        elif name.endswith("experts.down_proj"):
            base = name.removeprefix("layer.").removesuffix("down_proj")
            state[name] = torch.stack([raw[f"{base}{e}.down_proj.weight"] for e in range(cfg.n_routed_experts)])
        else:
            state[name] = raw[{"norm.weight": "shared_head.norm.weight"}.get(name, name.removeprefix("layer."))]
    mtp.load_state_dict(state)
    return mtp.eval()


def held_dialogues(cases, encoder, seed):
    """Endless ids and loss classes of whole held-out dialogues."""
    rng, all_shapes = random.Random(seed), shapes.load()
    while True:
        package = packages.build(rng, all_shapes, cases, held=True, functions=(3, 6), lines=(30, 60))
        yield encoder.parts(dialogues.repair(rng, package, vary=False).parts)


def windows(cases, encoder):
    """WINDOWS stretches of WINDOW ids: half dialogues, half library source of files that training left out."""
    talk, text = [], []
    source = held_dialogues(cases, encoder, "perplexity")
    while len(talk) < WINDOW * WINDOWS // 2:
        talk += next(source)[0]
    for n, (_, content) in enumerate(stdlib.files()):
        if stdlib.is_held(n):
            text += encoder.encode(content)
    ids = talk[: WINDOW * WINDOWS // 2] + text[: WINDOW * WINDOWS // 2]
    return np.array(ids, "<u2").reshape(WINDOWS, WINDOW)


def prompts(encoder, tasks):
    """Six first turns of held-out tasks, two later turns, two plain texts."""
    out = []
    for task in tasks[:8]:
        r = wire.Render()
        r.start([t["function"] for t in dialogues.TOOLS])
        r.user(task["request"])
        if len(out) >= 2:
            path = next(p for p in sorted(task["files"]) if p.endswith(".go") and not p.endswith("_test.go"))
            r.assistant(dialogues.OPENING, "", [("list_files", [])], wire.NONE)
            r.results(["\n".join(sorted(task["files"]))], wire.NONE)
            if len(out) >= 4:
                r.assistant("", "", [("read_file", [("path", path)])], wire.NONE)
                r.results([task["files"][path]], wire.NONE)
        r.prompt()
        out.append(encoder.parts(r.parts)[0])
    out.append(encoder.encode("// Package sort provides"))
    out.append(encoder.encode("func Max(a, b int) int {\n"))
    return out


@torch.no_grad()
def measure_mtp(model, mtp, cases, encoder, count=20):
    """Share of answer positions at which the draft for token i+2 is what the model then says."""
    hits = total = 0
    source = held_dialogues(cases, encoder, "mtp")
    for _ in range(count):
        ids, losses = next(source)
        hidden = modelling.forward(model, torch.tensor([ids]), sparse=True)
        says = model.lm_head(hidden)[0].argmax(-1)
        drafts = model.lm_head(modelling.mtp_forward(mtp, model, torch.tensor([ids]), hidden, sparse=True))[0].argmax(-1)
        for i in range(len(ids) - 2):
            if losses[i + 2] == wire.ANSWER:
                hits += int(drafts[i] == says[i + 1])
                total += 1
    return hits / total


@torch.no_grad()
def measure_sparsity(model, encoder, tasks):
    """On prompts up to the first edit: median share of visible keys that the last query's selection leaves out, by
    full layer; and the largest change of a last logit when attention is dense."""
    shares, moves = [], []
    kept = {}

    def hook(name):
        def record(module, args, kwargs, out):
            kept[name] = out
        return record

    handles = [l.self_attn.indexer.register_forward_hook(hook(i), with_kwargs=True) for i, l in enumerate(model.model.layers) if l.self_attn.indexer is not None]
    for task in tasks:
        r = wire.Render()
        r.start([t["function"] for t in dialogues.TOOLS])
        r.user(task["request"])
        r.results(list(task["files"].values())[:1])
        r.prompt()
        ids = torch.tensor([encoder.parts(r.parts)[0]])
        sparse = model(ids, use_cache=False, logits_to_keep=1).logits
        dense = model.lm_head(modelling.forward(model, ids)[:, -1:])
        shares.append([1 - kept[k].shape[-1] / ids.shape[1] for k in sorted(kept)])
        moves.append((sparse - dense).abs().max().item())
    for h in handles:
        h.remove()
    return {"full_layers": sorted(kept), "unselected_median": np.median(np.array(shares), 0).round(4).tolist(), "dense_moves_a_logit_median": float(np.median(moves))}


@torch.no_grad()
def measure(model, rows):
    """(perplexity over windows, share of tokens per expert and layer)"""
    losses, loads = [], {}

    def hook(index):
        def record(module, args, out):
            loads[index] = loads.get(index, 0) + torch.bincount(out[2].flatten(), minlength=module.num_experts)
        return record

    handles = [l.mlp.gate.register_forward_hook(hook(i)) for i, l in enumerate(model.model.layers) if hasattr(l.mlp, "gate")]
    for row in rows:
        ids = torch.from_numpy(row.astype(np.int64))[None]
        logits = model(ids, use_cache=False).logits[0, :-1]
        losses.append(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum").item())
    for h in handles:
        h.remove()
    mean = sum(losses) / (len(rows) * (rows.shape[1] - 1))
    half = len(rows) // 2
    per = rows.shape[1] - 1
    return {
        "perplexity": float(np.exp(mean)), "perplexity_dialogues": float(np.exp(sum(losses[:half]) / half / per)),
        "perplexity_library": float(np.exp(sum(losses[half:]) / (len(rows) - half) / per)),
        "expert_share": {str(i): (c / c.sum()).numpy().round(4).tolist() for i, c in loads.items()},
    }


def main():
    folder, cases, tasks, out = sys.argv[1], json.load(open(sys.argv[2])), json.load(open(sys.argv[3], encoding="utf-8")), sys.argv[4]
    os.makedirs(out, exist_ok=True)
    torch.set_num_threads(2)
    torch.topk = torch.Tensor.topk = stable_topk
    model = GlmMoeDsaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    encoder = tok.Encoder(os.path.join(folder, "tokenizer.json"))
    rows, logits = [], []
    for ids in prompts(encoder, tasks):
        with torch.no_grad():
            logits.append(model(torch.tensor([ids]), use_cache=False, logits_to_keep=1).logits[0, -1].numpy())
        whole = list(ids)
        evaluate.Greedy(model).run(whole, (), GREEDY)
        rows.append({"prompt": ids, "greedy": whole[len(ids):]})
    np.array(logits, "<f4").tofile(os.path.join(out, "logits.f32"))
    held = windows(cases, encoder)
    held.tofile(os.path.join(out, "heldout.u16"))
    record = {
        "latent_eps": 1e-6, "vocab_size": model.config.vocab_size, "window": WINDOW, "prompts": rows, **measure(model, held),
        "mtp_acceptance": measure_mtp(model, open_mtp(folder, model.config), cases, encoder), "sparsity": measure_sparsity(model, encoder, tasks[:40]),
    }
    with open(os.path.join(out, "goldens.json"), "w", encoding="utf-8") as f:
        json.dump(record, f)
        f.write("\n")
    print({k: v for k, v in record.items() if k != "prompts"})


if __name__ == "__main__":
    main()

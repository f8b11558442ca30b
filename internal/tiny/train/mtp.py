"""Trains the MTP layer on top of a frozen, finished main model.

    python mtp.py DATA_DIR MAIN.pt OUT.pt [TOKENS]

Cross entropy of the draft for token i+2, and the layer's own indexer by KL to
its attention. The main model doesn't change, so this can run at any later time.
"""

import os
import sys
import time

import torch
import torch.nn.functional as F

import fused
import loader
import model as modelling
import optim

MIX = {"mini": 0.3, "task": 0.6, "lib": 0.05, "ask": 0.05}


def main():
    total = float(sys.argv[4]) if len(sys.argv) > 4 else 1.2e6
    torch.set_num_threads(1)
    if not fused.available():
        sys.exit("the training forward needs g++")
    cfg = modelling.config()
    main_model = modelling.create(cfg)
    state = torch.load(sys.argv[2], weights_only=False)
    main_model.load_state_dict(state.get("model", state))
    main_model.requires_grad_(False)
    torch.manual_seed(9)
    mtp = modelling.Mtp(cfg)
    copy_last(mtp, main_model)
    named = dict(mtp.named_parameters())
    index = [p for n, p in named.items() if ".indexer." in n]
    large = [p for n, p in named.items() if p.dim() > 1 and ".indexer." not in n and "gate.weight" not in n]
    small = [p for n, p in named.items() if ".indexer." not in n and (p.dim() < 2 or "gate.weight" in n)]
    muon, adam, index_adam = optim.Muon(large), optim.Adam(small), optim.Adam(index)
    gate, done, step, shown, losses = mtp.layer.mlp.gate, 0, 0, time.time(), []
    for _, _, ids, weights in loader.Loader(sys.argv[1], MIX, 4096, 77, 0.3).batches():
        rate = min(1.0, (step + 1) / 20) * max(0.02, 1 - done / total)
        loads, kl = [], []
        with torch.no_grad():
            hidden = fused.forward(main_model, ids, sparse=True).float().view(*ids.shape, -1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            drafts = modelling.mtp_forward(mtp, main_model, ids, hidden, True, loads, kl if step % 2 == 0 else None)
            w = weights[:, 1:]  # weight of position i+1's next token, token i+2
            keep = w > 0
            logits = main_model.lm_head(drafts[keep])
        target = torch.cat([ids[:, 2:], ids[:, :1]], 1)[keep]
        loss = (F.cross_entropy(logits.float(), target, reduction="none") * w[keep]).sum() / w[keep].sum()
        (loss + sum(kl)).backward()
        muon.step(lambda flat: None, 0, 1, 0.01 * rate, 0.9)
        adam.step(2e-3 * rate)
        if kl:
            index_adam.step(2e-3 * rate)
        mtp.zero_grad(set_to_none=True)
        with torch.no_grad():
            share = loads[0][0] / loads[0][0].sum()
            gate.e_score_correction_bias += 2e-3 * rate * torch.sign(share.mean() - share)
        losses.append(loss.item())
        done, step = done + ids.numel(), step + 1
        if time.time() - shown > 30 or done >= total:
            print(f"{step} {done} loss {sum(losses) / len(losses):.4f} load {share.min():.3f} to {share.max():.3f}", flush=True)
            shown, losses = time.time(), []
            torch.save(mtp.state_dict(), sys.argv[3] + ".new")
            os.replace(sys.argv[3] + ".new", sys.argv[3])
        if done >= total:
            break


def copy_last(mtp, model):
    """Starts the draft layer from the last layer of the model."""
    last = model.model.layers[-1]
    own = mtp.layer.state_dict()
    mtp.layer.load_state_dict({k: v.clone() for k, v in last.state_dict().items() if k in own})
    with torch.no_grad():
        mtp.norm.weight.copy_(model.model.norm.weight)


if __name__ == "__main__":
    main()

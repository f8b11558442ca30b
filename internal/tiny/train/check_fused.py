"""Holds the fused bf16 forward and its gradients against model.forward in float32."""

import sys
import time

import torch
import torch.nn.functional as F

import fused
import model as modelling


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    if not fused.available():
        sys.exit("g++ is needed")
    m = modelling.create(modelling.config(index_topk=64))
    for p in m.parameters():
        p.data.add_(torch.randn_like(p) * 0.05)
    bad = False
    for sparse in (False, True):
        ids = torch.randint(0, 4132, (3, 203))
        weights = (torch.rand(ids.shape) < 0.4).float() * (0.5 + torch.rand(ids.shape))
        weights[:, -1] = 0
        keep = weights > 0
        target = torch.cat([ids[:, 1:], ids[:, :1]], 1)[keep]
        m.zero_grad()
        logits = m.lm_head(modelling.forward(m, ids, sparse)[keep])
        want = (F.cross_entropy(logits, target, reduction="none") * weights[keep]).sum() / weights[keep].sum()
        want.backward()
        grads = {n: p.grad.clone() for n, p in m.named_parameters() if p.grad is not None}
        m.zero_grad()
        got = fused.loss(m, ids, weights, sparse)
        got.backward()
        print(f"sparse={sparse}: loss {got.item():.5f}, reference {want.item():.5f}")
        bad |= abs(got.item() - want.item()) > 0.02
        lowest = 1.0
        for n, p in m.named_parameters():
            if n in grads and grads[n].norm() > 1e-7:
                cosine = F.cosine_similarity(p.grad.flatten(), grads[n].flatten(), dim=0).item()
                ratio = (p.grad.norm() / grads[n].norm()).item()
                if cosine < 0.9 or not 0.9 < ratio < 1.1:
                    print(f"  {n}: cosine {cosine:.4f}, norm ratio {ratio:.3f}")
                if "mlp.gate." not in n:  # bf16 moves tokens between experts, which a random router notices most
                    lowest = min(lowest, cosine)
        print(f"  lowest cosine of a gradient: {lowest:.4f}")
        bad |= lowest < 0.85
    for shape in ((16, 370), (8, 760)):
        ids = torch.randint(0, 4132, shape)
        weights = (torch.rand(shape) < 0.35).float()
        began = time.process_time()
        for _ in range(3):
            fused.loss(m, ids, weights).backward()
        print(f"{shape}: {3 * ids.numel() / (time.process_time() - began):.0f} tokens per CPU second")
    sys.exit(bad)


if __name__ == "__main__":
    main()

"""Holds the fast forward against the reference class, in float32.

    python check_model.py [CHECKPOINT_DIR]     a random model without a directory
"""

import sys

import torch
from transformers import GlmMoeDsaForCausalLM

import model


def main():
    torch.manual_seed(3)
    if len(sys.argv) > 1:
        ref = GlmMoeDsaForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, attn_implementation="eager")
    else:
        ref = model.create(model.config(index_topk=48))
        for layer in ref.model.layers[1:]:
            layer.mlp.gate.e_score_correction_bias.normal_(std=0.2)
        for p in ref.parameters():
            p.data.add_(torch.randn_like(p) * 0.1)
    ref.eval()
    worst = 0.0
    with torch.no_grad():
        for t in (1, 7, 48, 130, 600):
            ids = torch.randint(0, 4132, (2, t))
            want = ref(ids, use_cache=False).logits
            got = ref.lm_head(model.forward(ref, ids, sparse=True))
            diff = (want - got).abs().max().item()
            worst = max(worst, diff)
            print(f"length {t}: largest logit difference {diff:.2e} (logits up to {want.abs().max():.1f})")
            if t > ref.config.index_topk:
                dense = ref.lm_head(model.forward(ref, ids))
                print(f"  dense attention moves a logit by up to {(want - dense).abs().max():.2e}")
    if worst > 1e-4:
        sys.exit(f"forward() is {worst:.2e} away from the reference class")


if __name__ == "__main__":
    main()

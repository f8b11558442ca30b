"""Random weights under the published tensor names.

Default initialisation hides bugs: attention is flat, the router indifferent, biases are zero.
Here every matrix W is drawn with standard deviation gain / sqrt(fan_in), so that activations
stay near one while scores are spread; norm weights lie around one and biases are not zero.
What goes into a norm, the residual stream included, is kept small instead, so that a wrong eps is seen.

Each tensor has its own stream, seeded by (seed, name): adding a tensor moves no other.
"""

import hashlib
import re

import torch

# Gain by the last name part before ".weight"; see Plan.gains for overrides.
GAINS = {
    "embed_tokens": 0.2,
    "lm_head": 1.6,
    "q_a_proj": 0.1,
    "q_b_proj": 1.5,
    "kv_a_proj_with_mqa": 0.1,
    "kv_b_proj": 1.2,
    "o_proj": 0.15,
    "q_proj": 1.5,
    "k_proj": 1.2,
    "v_proj": 1.2,
    "gate": 1.5,
    "gate_proj": 1.2,
    "up_proj": 1.2,
    "down_proj": 0.15,
    "wq_b": 1.5,
    "wk": 0.05,
    "weights_proj": 2.0,
    "eh_proj": 1.0,
    "head": 1.6,
}


def generator(seed, name):
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))


def shapes(plan):
    """Every tensor of the checkpoint, name -> shape, in layer order."""
    c = plan.config
    h, v = c["hidden_size"], c["vocab_size"]
    out = {"model.embed_tokens.weight": [v, h]}
    for n in range(c["num_hidden_layers"]):
        sparse = n >= c["first_k_dense_replace"]
        out.update(_layer(plan, n, sparse, indexer=_runs_indexer(plan, n) or plan.shared_indexers))
    if plan.mtp:
        n = c["num_hidden_layers"]
        p = f"model.layers.{n}."
        if plan.mtp_copies:
            out[p + "embed_tokens.weight"] = [v, h]
        out.update(_layer(plan, n, sparse=True, indexer=c["model_type"] == "glm_moe_dsa"))
        out.update({p + "enorm.weight": [h], p + "hnorm.weight": [h], p + "eh_proj.weight": [h, 2 * h],
                    p + "shared_head.norm.weight": [h]})
        if plan.mtp_copies:
            out[p + "shared_head.head.weight"] = [v, h]
    if plan.inv_freq:
        out["model.layers.0.self_attn.rotary_emb.inv_freq"] = [c["qk_rope_head_dim"] // 2]
    out["model.norm.weight"] = [h]
    out["lm_head.weight"] = [v, h]
    return out


def full_layers(config):
    """Layers that run an indexer."""
    if config["model_type"] != "glm_moe_dsa":
        return []
    n = config["num_hidden_layers"]
    types = config.get("indexer_types")
    if types is None and config.get("index_topk_pattern"):
        types = [{"F": "full", "S": "shared"}[x] for x in config["index_topk_pattern"]]
    if types is None:
        freq, offset = config.get("index_topk_freq", 1), config.get("index_skip_topk_offset", 2)
        types = ["full" if max(i - offset + 1, 0) % freq == 0 else "shared" for i in range(n)]
    return [i for i in range(n) if types[i] == "full"]


def _runs_indexer(plan, n):
    return n in full_layers(plan.config)


def _layer(plan, n, sparse, indexer):
    c = plan.config
    h, heads = c["hidden_size"], c["num_attention_heads"]
    p = f"model.layers.{n}."
    a = p + "self_attn."
    out = {p + "input_layernorm.weight": [h]}
    if c["model_type"] == "glm4_moe":
        d, kv = c["head_dim"], c["num_key_value_heads"]
        for x, rows in (("q", heads * d), ("k", kv * d), ("v", kv * d)):
            out[f"{a}{x}_proj.weight"] = [rows, h]
            if c["attention_bias"]:
                out[f"{a}{x}_proj.bias"] = [rows]
        if c["use_qk_norm"]:
            out[a + "q_norm.weight"] = [d]
            out[a + "k_norm.weight"] = [d]
        out[a + "o_proj.weight"] = [h, heads * d]
    else:
        ql, kvl = c["q_lora_rank"], c["kv_lora_rank"]
        nope, rope, vd = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
        out.update({
            a + "q_a_proj.weight": [ql, h],
            a + "q_a_layernorm.weight": [ql],
            a + "q_b_proj.weight": [heads * (nope + rope), ql],
            a + "kv_a_proj_with_mqa.weight": [kvl + rope, h],
            a + "kv_a_layernorm.weight": [kvl],
            a + "kv_b_proj.weight": [heads * (nope + vd), kvl],
            a + "o_proj.weight": [h, heads * vd],
        })
        if indexer:
            ih, idim = c.get("index_n_heads", 0), c.get("index_head_dim", 0)
            out.update({
                a + "indexer.wq_b.weight": [ih * idim, ql],
                a + "indexer.wk.weight": [idim, h],
                a + "indexer.k_norm.weight": [idim],
                a + "indexer.k_norm.bias": [idim],
                a + "indexer.weights_proj.weight": [ih, h],
            })
    out[p + "post_attention_layernorm.weight"] = [h]

    def mlp(prefix, width):
        out[prefix + "gate_proj.weight"] = [width, h]
        out[prefix + "up_proj.weight"] = [width, h]
        out[prefix + "down_proj.weight"] = [h, width]

    if not sparse:
        mlp(p + "mlp.", c["intermediate_size"])
        return out
    out[p + "mlp.gate.weight"] = [c["n_routed_experts"], h]
    out[p + "mlp.gate.e_score_correction_bias"] = [c["n_routed_experts"]]
    for e in range(c["n_routed_experts"]):
        mlp(f"{p}mlp.experts.{e}.", c["moe_intermediate_size"])
    mlp(p + "mlp.shared_experts.", c["moe_intermediate_size"] * c["n_shared_experts"])
    return out


def draw(plan, seed):
    """All tensors in f32, before rounding to their stored dtype."""
    return {name: _tensor(plan, seed, name, shape) for name, shape in shapes(plan).items()}


def _tensor(plan, seed, name, shape):
    # The MTP copies are copies, as in the checkpoints that ship them.
    if re.search(r"layers\.\d+\.embed_tokens", name):
        name = "model.embed_tokens.weight"
    if name.endswith("shared_head.head.weight"):
        name = "lm_head.weight"
    g = generator(seed, name)
    x = torch.randn(shape, generator=g, dtype=torch.float32)
    if name.endswith("inv_freq"):
        return x.abs() + 100  # nonsense on purpose: nobody may use it
    if name.endswith("e_score_correction_bias"):
        u = torch.rand(shape, generator=g, dtype=torch.float32)
        return plan.bias_center + plan.bias_spread * (u - 0.5)
    if name.endswith("_proj.bias"):
        return plan.bias_gain * x
    if name.endswith(".bias"):
        return 0.3 * x
    if len(shape) == 1:
        return 1 + 0.2 * x
    part = name.removesuffix(".weight").split(".")[-1]
    gain = plan.gains.get(part, GAINS[part])
    if part == "embed_tokens":
        if plan.negative_heads:
            x[:, 0] = 2.0 + 0.1 * x[:, 0]  # a nearly constant channel for weights_proj to see
        return gain * x
    x = gain * x / shape[1] ** 0.5
    if part == "kv_a_proj_with_mqa":
        x[plan.config["kv_lora_rank"]:] *= 1.2 / gain  # the rope part has no norm after it
    if part == "weights_proj" and plan.negative_heads:
        x[:, 0] = -1.2 * x[:, 0].abs() - 0.5
    return x

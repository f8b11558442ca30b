"""The model: the reference class, and a faster forward over the same parameters.

GlmMoeDsaForCausalLM owns every parameter; forward() below computes what its
forward computes (check_model.py: within 1e-4 in float32) with grouped experts
and fused attention, and gives access to the indexer's scores, which the
reference hides behind no_grad. The MTP layer, which the reference class lacks,
is a second small module of the same parts.
"""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GlmMoeDsaConfig, GlmMoeDsaForCausalLM
from transformers.models.glm_moe_dsa.modeling_glm_moe_dsa import GlmMoeDsaDecoderLayer, GlmMoeDsaRMSNorm

BASE = 4096
EOS = [BASE, BASE + 7, BASE + 9]  # <|endoftext|>, <|user|>, <|observation|>


def config(layers=6, hidden=192, **changes):
    fields = dict(
        vocab_size=4160, hidden_size=hidden, intermediate_size=384, moe_intermediate_size=64, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=4, n_shared_experts=1, n_routed_experts=8, num_experts_per_tok=2,
        routed_scaling_factor=2.5, kv_lora_rank=128, q_lora_rank=128, qk_nope_head_dim=48, qk_rope_head_dim=16, v_head_dim=64,
        n_group=1, topk_group=1, norm_topk_prob=True, max_position_embeddings=8192, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, first_k_dense_replace=1,
        index_topk=256, index_head_dim=32, index_n_heads=4, initializer_range=0.02,
        indexer_types=["full", "full", "shared", "full", "shared", "full"][:layers],
        pad_token_id=BASE, bos_token_id=None, eos_token_id=EOS, attn_implementation="eager",
    )
    fields.update(changes)
    return GlmMoeDsaConfig(**fields)


def create(cfg, seed=0):
    """A fresh model; matrices that write to the residual stream start at zero."""
    torch.manual_seed(seed)
    model = GlmMoeDsaForCausalLM(cfg)
    initialize(model)
    return model


def initialize(module):
    for name, p in module.named_parameters():
        if p.dim() < 2:
            continue
        if name.endswith(("o_proj.weight", "down_proj", "down_proj.weight")):
            nn.init.zeros_(p)
        elif "embed_tokens" in name:
            nn.init.normal_(p, std=0.1)
        else:
            nn.init.normal_(p, std=0.5 * p.shape[-1] ** -0.5)


class Mtp(nn.Module):
    """The next-next-token layer: eh_proj over [enorm(embedding); hnorm(hidden)], one decoder layer, a norm."""

    def __init__(self, cfg):
        super().__init__()
        one = GlmMoeDsaConfig.from_dict({**cfg.to_dict(), "num_hidden_layers": 1, "indexer_types": ["full"], "mlp_layer_types": ["sparse"], "layer_types": None})
        self.enorm = GlmMoeDsaRMSNorm(cfg.hidden_size, cfg.rms_norm_eps)
        self.hnorm = GlmMoeDsaRMSNorm(cfg.hidden_size, cfg.rms_norm_eps)
        self.eh_proj = nn.Linear(2 * cfg.hidden_size, cfg.hidden_size, bias=False)
        self.layer = GlmMoeDsaDecoderLayer(one, 0)
        self.norm = GlmMoeDsaRMSNorm(cfg.hidden_size, cfg.rms_norm_eps)
        initialize(self)


class _Spread(torch.autograd.Function):
    """Rows of x in the order of order // k; the gradient is summed over the k copies."""

    @staticmethod
    def forward(ctx, x, order, inverse, k):
        ctx.save_for_backward(inverse)
        ctx.k = k
        return x[order // k]

    @staticmethod
    def backward(ctx, grad):
        (inverse,) = ctx.saved_tensors
        return grad[inverse].view(-1, ctx.k, grad.shape[-1]).sum(1), None, None, None


class _Permute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, index, inverse):
        ctx.save_for_backward(inverse)
        return x[index]

    @staticmethod
    def backward(ctx, grad):
        (inverse,) = ctx.saved_tensors
        return grad[inverse], None, None


def norm(m, x):
    return F.rms_norm(x, m.weight.shape, m.weight, m.variance_epsilon)


def mlp(m, x):
    return m.down_proj(F.silu(m.gate_proj(x)) * m.up_proj(x))


def moe(m, x, loads=None):
    """x [N, H]. loads collects [tokens per expert, mean score per expert]."""
    gate = m.gate
    with torch.autocast("cpu", enabled=False):
        scores = F.linear(x.float(), gate.weight.float()).sigmoid()
        chosen = (scores.detach() + gate.e_score_correction_bias).topk(gate.top_k, dim=-1)[1]
        weights = scores.gather(1, chosen)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * gate.routed_scaling_factor
    flat = chosen.view(-1)
    order = flat.argsort(stable=True)
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order))
    counts = torch.bincount(flat, minlength=gate.num_experts)
    if loads is not None:
        loads.append((counts, scores))
    e = m.experts
    up, down = e.gate_up_proj, e.down_proj
    if torch.is_autocast_enabled("cpu"):
        x, up, down = x.bfloat16(), up.bfloat16(), down.bfloat16()
    parts = _Spread.apply(x, order, inverse, gate.top_k).split(counts.tolist())
    out = []
    for i, part in enumerate(parts):
        g, u = F.linear(part, up[i]).chunk(2, dim=-1)
        out.append(F.linear(F.silu(g) * u, down[i]))
    out = _Permute.apply(torch.cat(out), inverse, order).view(-1, gate.top_k, x.shape[-1])
    return (out * weights.unsqueeze(-1).to(out.dtype)).sum(1) + mlp(m.shared_experts, x)


def rope(x, cos, sin):
    """Interleaved pairs; x [..., T, heads, d], cos and sin [T, 1, d/2]. The output order is a fixed permutation."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def index_scores(ix, h, q_resid, cos, sin):
    """[B, T, T] scores of the lightning indexer, before the causal mask, in float32."""
    b, t, _ = h.shape
    r = ix.qk_rope_head_dim
    with torch.autocast("cpu", enabled=False):
        h, q_resid = h.float(), q_resid.float()
        q = ix.wq_b(q_resid).view(b, t, ix.n_heads, ix.head_dim)
        k = ix.k_norm(ix.wk(h)).unsqueeze(2)
        q = torch.cat([rope(q[..., :r], cos, sin), q[..., r:]], -1)
        k = torch.cat([rope(k[..., :r], cos, sin), k[..., r:]], -1).squeeze(2)
        w = ix.weights_proj(h) * ix.n_heads**-0.5
        total = 0
        for n in range(ix.n_heads):
            total = total + w[:, :, n : n + 1] * F.relu(q[:, :, n] @ k.transpose(1, 2) * ix.softmax_scale)
        return total


def attention(a, h, cos, sin, mask, probs):
    """h: normed input. mask: None (causal) or [B, 1, T, T] bool. probs: also return head-summed attention."""
    b, t, _ = h.shape
    q_resid = norm(a.q_a_layernorm, a.q_a_proj(h))
    q = a.q_b_proj(q_resid).view(b, t, a.num_heads, a.qk_head_dim)
    kv = a.kv_a_proj_with_mqa(h)
    c = norm(a.kv_a_layernorm, kv[..., : a.kv_lora_rank])
    kr = rope(kv[..., a.kv_lora_rank :].unsqueeze(2), cos, sin)
    kvs = a.kv_b_proj(c).view(b, t, a.num_heads, a.qk_nope_head_dim + a.v_head_dim)
    q = torch.cat([q[..., : a.qk_nope_head_dim], rope(q[..., a.qk_nope_head_dim :], cos, sin)], -1)
    k = torch.cat([kvs[..., : a.qk_nope_head_dim], kr.expand(-1, -1, a.num_heads, -1)], -1)
    v = kvs[..., a.qk_nope_head_dim :]
    dtype = v.dtype
    q, k, v = (x.to(dtype).transpose(1, 2) for x in (q, k, v))
    total = None
    if probs:
        s = (q @ k.transpose(2, 3)).float() * a.scaling
        s = s.masked_fill(~causal(t) if mask is None else ~mask, float("-inf")).softmax(-1)
        total = s.detach().sum(1)
        o = s.to(dtype) @ v
    elif mask is None:
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=a.scaling)
    else:
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=a.scaling)
    return a.o_proj(o.transpose(1, 2).reshape(b, t, -1)), q_resid, total


def causal(t):
    return torch.ones(t, t, dtype=torch.bool).tril()


def angles(cfg, t):
    d = cfg.qk_rope_head_dim
    inv = 1.0 / (cfg.rope_parameters["rope_theta"] ** (torch.arange(0, d, 2).float() / d))
    freqs = torch.arange(t).float()[:, None] * inv
    return freqs.cos()[:, None, :], freqs.sin()[:, None, :]


def select(scores, topk):
    """[B, 1, T, T] mask of the causal top-k of index scores."""
    t = scores.shape[-1]
    seen = causal(t)
    if t <= topk:
        return seen.expand(scores.shape[0], 1, t, t)
    chosen = scores.masked_fill(~seen, float("-inf")).topk(topk, dim=-1).indices
    return (torch.zeros(scores.shape, dtype=torch.bool).scatter(-1, chosen, True) & seen).unsqueeze(1)


def decoder(layer, x, cos, sin, mask, loads, probs=False, indexing=None):
    """One decoder layer. indexing, if given, maps (indexer, h, q_resid) to this layer's mask first."""
    a, h = layer.self_attn, norm(layer.input_layernorm, x)
    if indexing:
        mask = indexing(a, h)
    out, q_resid, total = attention(a, h, cos, sin, mask, probs)
    x = x + out
    h = norm(layer.post_attention_layernorm, x)
    if hasattr(layer.mlp, "gate"):
        y = moe(layer.mlp, h.reshape(-1, h.shape[-1]), loads).view(x.shape)
    else:
        y = mlp(layer.mlp, h)
    return x + y, mask, total


def forward(model, ids, sparse=False, loads=None, kl=None):
    """Hidden states after the final norm, [B, T, H].

    sparse: attention sees the indexer's selection only. kl: a list that
    receives the indexer losses (KL of the head-summed attention of a full layer
    and the shared layers after it against the indexer's distribution);
    the hidden states the indexer reads are detached, as are the targets.
    """
    cfg = model.config
    x = model.model.embed_tokens(ids)
    cos, sin = angles(cfg, ids.shape[1])
    mask, pending = None, None
    for layer in model.model.layers:
        scores = None

        def indexing(a, h):
            nonlocal scores, mask
            if a.indexer is None:
                return mask
            q_resid = norm(a.q_a_layernorm, a.q_a_proj(h))
            with torch.set_grad_enabled(kl is not None and torch.is_grad_enabled()):
                scores = index_scores(a.indexer, h.detach(), q_resid.detach(), cos, sin)
            return select(scores.detach(), cfg.index_topk) if sparse and ids.shape[1] > cfg.index_topk else None

        need = kl is not None or sparse and ids.shape[1] > cfg.index_topk
        x, mask, total = decoder(layer, x, cos, sin, mask, loads, kl is not None, indexing if need else None)
        if kl is not None:
            if scores is not None:
                if pending:
                    kl.append(divergence(*pending))
                pending = [scores, total, mask]
            else:
                pending[1] = pending[1] + total
    if kl is not None:
        kl.append(divergence(*pending))
    return norm(model.model.norm, x)


def divergence(scores, total, mask):
    """Mean over queries of KL(attention || softmax(index scores)), over the visible (or selected) keys."""
    seen = causal(scores.shape[-1]) if mask is None else mask.squeeze(1)
    target = total / total.sum(-1, keepdim=True)
    logq = scores.masked_fill(~seen, -1e30).log_softmax(-1)
    return (torch.xlogy(target, target) - target * logq.masked_fill(~seen, 0)).sum(-1).mean()


def mtp_forward(mtp, model, ids, hidden, sparse=False, loads=None, kl=None):
    """Draft hidden states for positions 0..T-2: position i reads hidden[i] and token i+1, predicts token i+2."""
    cfg = model.config
    e = model.model.embed_tokens(ids[:, 1:])
    x = mtp.eh_proj(torch.cat([norm(mtp.enorm, e), norm(mtp.hnorm, hidden[:, :-1])], -1)).float()
    cos, sin = angles(cfg, x.shape[1])
    scores, mask = None, None

    def indexing(a, h):
        nonlocal scores
        q_resid = norm(a.q_a_layernorm, a.q_a_proj(h))
        scores = index_scores(a.indexer, h.detach(), q_resid.detach(), cos, sin)
        return select(scores.detach(), cfg.index_topk) if sparse and x.shape[1] > cfg.index_topk else None

    x, mask, total = decoder(mtp.layer, x, cos, sin, None, loads, kl is not None, indexing if sparse or kl is not None else None)
    if kl is not None:
        kl.append(divergence(scores, total, mask))
    return norm(mtp.norm, x)

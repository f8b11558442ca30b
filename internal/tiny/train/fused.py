"""Autograd functions over fused.cc, and the training forward built from them.

Same parameters and same formulas as model.forward, with bf16 activations;
check_fused.py holds losses and gradients of the two against each other.
Needs g++; train.py falls back to model.forward without it.
"""

import ctypes
import os
import subprocess
import tempfile

import torch
import torch.nn.functional as F

import model as modelling

LOG2E = 1.4426950408889634
_lib = None


def available():
    """Compiles the kernels on first use."""
    global _lib
    if _lib is None:
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fused.cc")
        target = os.path.join(tempfile.mkdtemp(), "fused.so")
        try:
            subprocess.run(["g++", "-O3", "-march=native", "-ffast-math", "-fno-finite-math-only", "-shared", "-fPIC", source, "-o", target, "-lm"], check=True)
            _lib = ctypes.CDLL(target)
        except (OSError, subprocess.CalledProcessError) as e:
            print("no fused kernels:", e)
            _lib = False
    return bool(_lib)


def _args(values):
    out = []
    for v in values:
        if isinstance(v, torch.Tensor):
            assert v.is_contiguous()
            out.append(ctypes.c_void_p(v.data_ptr()))
        elif v is None:
            out.append(ctypes.c_void_p(0))
        elif isinstance(v, float):
            out.append(ctypes.c_float(v))
        elif isinstance(v, int):
            out.append(ctypes.c_long(v))
        else:
            out.append(v)
    return out


def call(name, *values):
    getattr(_lib, name)(*_args(values))


class AddNorm(torch.autograd.Function):
    """(x + branch, its RMS norm as bf16)"""

    @staticmethod
    def forward(ctx, x, branch, w, eps):
        n, h = x.shape
        xo, y, rstd = torch.empty_like(x), torch.empty(n, h, dtype=torch.bfloat16), torch.empty(n)
        call("addnorm_fwd", n, h, x, branch, w, float(eps), xo, y, rstd)
        ctx.save_for_backward(xo, w, rstd)
        ctx.branch = branch is not None
        return xo, y

    @staticmethod
    def backward(ctx, dxo, dy):
        xo, w, rstd = ctx.saved_tensors
        n, h = xo.shape
        dx, dw = torch.empty_like(xo), torch.zeros_like(w)
        db = torch.empty(n, h, dtype=torch.bfloat16) if ctx.branch else None
        call("addnorm_bwd", n, h, xo, w, rstd, None if dxo is None else dxo.contiguous(), dy.contiguous(), dx, db, dw)
        return dx, db, dw, None


class Latents(torch.autograd.Function):
    """Splits [q latent, kv latent, rope key] rows: the two latents normed, the key as it is."""

    @staticmethod
    def forward(ctx, x, wq, wc, eps):
        n, stride = x.shape
        hq, hc = wq.numel(), wc.numel()
        q, c = torch.empty(n, hq, dtype=torch.bfloat16), torch.empty(n, hc, dtype=torch.bfloat16)
        rq, rc = torch.empty(n), torch.empty(n)
        call("norm_fwd", n, stride, 0, hq, x, wq, float(eps), q, rq)
        call("norm_fwd", n, stride, hq, hc, x, wc, float(eps), c, rc)
        ctx.save_for_backward(x, wq, wc, rq, rc)
        return q, c, x[:, hq + hc :].contiguous()

    @staticmethod
    def backward(ctx, dq, dc, dk):
        x, wq, wc, rq, rc = ctx.saved_tensors
        n, stride = x.shape
        hq, hc = wq.numel(), wc.numel()
        dx, dwq, dwc = torch.empty_like(x), torch.zeros_like(wq), torch.zeros_like(wc)
        call("norm_bwd", n, stride, 0, hq, x, wq, rq, dq.contiguous(), dx, dwq)
        call("norm_bwd", n, stride, hq, hc, x, wc, rc, dc.contiguous(), dx, dwc)
        dx[:, hq + hc :] = dk
        return dx, dwq, dwc, None


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        n, h = x.shape[0], x.shape[1] // 2
        y = torch.empty(n, h, dtype=torch.bfloat16)
        call("swiglu_fwd", n, h, x, y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        call("swiglu_bwd", x.shape[0], x.shape[1] // 2, x, dy.contiguous(), dx)
        return dx


class Dispatch(torch.autograd.Function):
    """Rows in expert order; order[i] // k is the token of row i, place its inverse."""

    @staticmethod
    def forward(ctx, x, order, place, k):
        ctx.save_for_backward(place)
        ctx.k = k
        y = torch.empty(len(order), x.shape[1], dtype=torch.bfloat16)
        call("gather_rows", len(order), x.shape[1], x, order, k, y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (place,) = ctx.saved_tensors
        n = len(place) // ctx.k
        dx = torch.empty(n, dy.shape[1], dtype=torch.bfloat16)
        call("sum_rows", n, dy.shape[1], ctx.k, dy.contiguous(), place, dx)
        return dx, None, None, None


class Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, out, place, weight, shared):
        n, k = weight.shape
        weight = weight.contiguous()
        ctx.save_for_backward(out, place, weight)
        y = torch.empty_like(shared)
        call("combine_fwd", n, out.shape[1], k, out, place, weight, shared, y)
        return y

    @staticmethod
    def backward(ctx, dy):
        out, place, weight = ctx.saved_tensors
        dy = dy.contiguous()
        dout, dw = torch.empty_like(out), torch.empty_like(weight)
        call("combine_bwd", *weight.shape[:1], out.shape[1], weight.shape[1], out, place, weight, dy, dout, dw)
        return dout, None, dw, dy


class Grouped(torch.autograd.Function):
    """Rows of each expert times that expert's matrix; w [E, out, in]."""

    @staticmethod
    def forward(ctx, x, w, counts):
        ctx.save_for_backward(x, w)
        ctx.counts = counts
        y = torch.empty(x.shape[0], w.shape[1], dtype=torch.bfloat16)
        at = 0
        for i, n in enumerate(counts):
            if n:
                torch.mm(x[at : at + n], w[i].t(), out=y[at : at + n])
            at += n
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dx, dw = torch.empty_like(x), torch.zeros_like(w)
        at = 0
        for i, n in enumerate(ctx.counts):
            if n:
                torch.mm(dy[at : at + n], w[i], out=dx[at : at + n])
                torch.mm(dy[at : at + n].t(), x[at : at + n], out=dw[i])
            at += n
        return dx, dw, None


class _Attn(ctypes.Structure):
    _fields_ = [(n, ctypes.c_long) for n in ("b", "t", "heads", "nope", "rope", "stride", "from_")] + [("scale", ctypes.c_float)] + [
        (n, ctypes.c_void_p) for n in ("q", "kv", "kr", "cs", "sn", "mask")
    ]


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, kv, kr, cs, sn, shape, scale, mask):
        b, t, heads, nope, rope = shape
        a = _Attn(b, t, heads, nope, rope, rope, 0, scale * LOG2E, q.data_ptr(), kv.data_ptr(), kr.data_ptr(), cs.data_ptr(), sn.data_ptr(),
                  mask.data_ptr() if mask is not None else None)
        o, lse = torch.empty(b * t, heads * (nope + rope), dtype=torch.bfloat16), torch.empty(b, heads, t)
        _lib.attention_fwd(ctypes.byref(a), *_args([o, lse]))
        ctx.save_for_backward(q, kv, kr, cs, sn, o, lse, *([mask] if mask is not None else []))
        ctx.a = a
        return o

    @staticmethod
    def backward(ctx, dout):
        q, kv, kr, cs, sn, o, lse, *_ = ctx.saved_tensors
        dq, dkv, dkr = torch.empty_like(q), torch.empty_like(kv), torch.zeros(kr.shape)
        _lib.attention_bwd(ctypes.byref(ctx.a), *_args([o, lse, dout.contiguous(), dq, dkv, dkr]))
        return dq, dkv, dkr.bfloat16(), None, None, None, None, None


class CrossEntropy(torch.autograd.Function):
    """Weighted sum of the losses of bf16 logits, which are overwritten."""

    @staticmethod
    def forward(ctx, logits, target, weight):
        loss = torch.empty(len(target))
        call("cross_entropy", *logits.shape, logits, target, weight, loss)
        ctx.save_for_backward(logits)
        return (loss * weight).sum()

    @staticmethod
    def backward(ctx, grad):
        (dlogits,) = ctx.saved_tensors
        return dlogits * grad.to(dlogits.dtype), None, None


def linear(x, *weights):
    w = weights[0] if len(weights) == 1 else torch.cat(weights)
    return F.linear(x, w.bfloat16())


def mlp(m, h):
    return linear(SwiGLU.apply(linear(h, m.gate_proj.weight, m.up_proj.weight)), m.down_proj.weight)


def moe(m, h, loads):
    gate = m.gate
    scores = F.linear(h.float(), gate.weight).sigmoid()
    with torch.no_grad():
        chosen = (scores + gate.e_score_correction_bias).topk(gate.top_k, dim=-1)[1]
        flat = chosen.view(-1)
        order = flat.argsort(stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order))
        counts = torch.bincount(flat, minlength=gate.num_experts)
    weights = scores.gather(1, chosen)
    weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * gate.routed_scaling_factor
    if loads is not None:
        loads.append((counts, scores))
    e = m.experts
    x = Dispatch.apply(h, order, place, gate.top_k)
    n = counts.tolist()
    x = Grouped.apply(SwiGLU.apply(Grouped.apply(x, e.gate_up_proj.bfloat16(), n)), e.down_proj.bfloat16(), n)
    return Combine.apply(x, place, weights, mlp(m.shared_experts, h))


def attention(a, h, b, t, cs, sn, mask, rows):
    x = linear(h, a.q_a_proj.weight, a.kv_a_proj_with_mqa.weight)
    q, c, kr = Latents.apply(x, a.q_a_layernorm.weight, a.kv_a_layernorm.weight, a.q_a_layernorm.variance_epsilon)
    shape = (b, t, a.num_heads, a.qk_nope_head_dim, a.qk_rope_head_dim)
    o = Attention.apply(linear(q, a.q_b_proj.weight), linear(c, a.kv_b_proj.weight), kr, cs, sn, shape, a.scaling, mask)
    return linear(o if rows is None else o[rows], a.o_proj.weight)


def layer_forward(layer, x, branch, b, t, cs, sn, loads, mask=None, rows=None):
    """Returns (residual stream, branch still to be added to it); rows: of these tokens only."""
    x, h = AddNorm.apply(x, branch, layer.input_layernorm.weight, layer.input_layernorm.variance_epsilon)
    if callable(mask):
        mask = mask(layer.self_attn, h)
    branch = attention(layer.self_attn, h, b, t, cs, sn, mask, rows)
    if rows is not None:
        x = x[rows]
    x, h = AddNorm.apply(x, branch, layer.post_attention_layernorm.weight, layer.post_attention_layernorm.variance_epsilon)
    return x, moe(layer.mlp, h, loads) if hasattr(layer.mlp, "gate") else mlp(layer.mlp, h)


def forward(model, ids, sparse=False, loads=None, rows=None):
    """Hidden states after the final norm as bf16, [B*T, H], or of some rows of it only."""
    cfg, (b, t) = model.config, ids.shape
    cs, sn = (x.squeeze(1).contiguous() for x in modelling.angles(cfg, t))
    x, branch, last = model.model.embed_tokens(ids).view(b * t, -1), None, None
    for layer in model.model.layers:

        def mask(a, h):
            nonlocal last
            if a.indexer is not None:
                with torch.no_grad():
                    q = modelling.norm(a.q_a_layernorm, F.linear(h, a.q_a_proj.weight.bfloat16()).float())
                    scores = modelling.index_scores(a.indexer, h.float().view(b, t, -1), q.view(b, t, -1), cs[:, None], sn[:, None])
                    last = modelling.select(scores, cfg.index_topk).squeeze(1).transpose(1, 2).contiguous().view(torch.uint8)
            return last

        last_layer = layer is model.model.layers[-1]
        x, branch = layer_forward(layer, x, branch, b, t, cs, sn, loads, mask if sparse and t > cfg.index_topk else None, rows if last_layer else None)
    return AddNorm.apply(x, branch, model.model.norm.weight, model.model.norm.variance_epsilon)[1]


def loss(model, ids, weights, sparse=False, loads=None):
    """Weighted mean loss of the next tokens."""
    rows = (weights.view(-1) > 0).nonzero().squeeze(1)
    hidden = forward(model, ids, sparse, loads, rows)
    target = torch.cat([ids[:, 1:], ids[:, :1]], 1).view(-1)[rows]
    w = weights.view(-1)[rows]
    return CrossEntropy.apply(linear(hidden, model.lm_head.weight), target, w / w.sum())

"""The models from their formulas, in float64, straight from a checkpoint's bytes.

Shares nothing with the reference: own dequantisation, absorbed MLA, own routing. `fault` names one
deliberate mistake, used by verify.py to show that the goldens can tell.
"""

import json
import math
from pathlib import Path

import torch
from safetensors import safe_open

# Mistakes that implementations have made; each must move some golden.
FAULTS = [
    "norm eps 1e-6", "latent eps 1e-5", "indexer eps 1e-5", "mla rope half-split", "gqa rope interleaved",
    "gqa rope on all dims", "indexer rope half-split", "indexer rope last", "indexer without relu",
    "indexer key norm without bias", "indexer key norm is rms", "indexer reads unnormed latent",
    "indexer head weights made positive", "indexer ties to higher position", "indexer on shared layers",
    "shared layers see everything", "selection of the layer before last", "stale selection of the row before",
    "mla scale from nope dims", "no QK norm", "QK norm after rope", "no attention bias",
    "bias used as weight", "bias in bf16", "router without bias", "weights not normalised", "experts not scaled",
    "scale before normalising", "shared expert missing", "shared expert scaled", "softmax router",
    "top-k one less", "rope theta 10000", "keys one position ahead", "gate and up swapped",
    "fp8 scale of the block before", "fp8 last scale row lost", "fp8 scale divided",
]


class Model:
    def __init__(self, folder, latent_eps, fault=None):
        self.c = json.loads((Path(folder) / "config.json").read_text())
        self.latent_eps = latent_eps if fault != "latent eps 1e-5" else 1e-5
        self.eps = self.c["rms_norm_eps"] if fault != "norm eps 1e-6" else 1e-6
        self.fault = fault
        self.raw = {}
        for f in sorted(Path(folder).glob("*.safetensors")):
            with safe_open(f, "pt") as s:
                self.raw.update({n: s.get_tensor(n) for n in s.keys()})
        rope = self.c.get("rope_parameters") or self.c
        self.theta = float(rope["rope_theta"]) if fault != "rope theta 10000" else 1e4
        self.sparse = range(self.c["first_k_dense_replace"], self.c["num_hidden_layers"])
        self.cache = {}

    def w(self, name):
        if name not in self.cache:
            self.cache[name] = self._decode(name)
        return self.cache[name]

    def _decode(self, name):
        x = self.raw[name].to(torch.float64)
        if name + "_scale" in self.raw:
            return x * self.raw[name + "_scale"].to(torch.float64)
        if name + "_scale_inv" not in self.raw:
            return x
        scale = self.raw[name + "_scale_inv"].to(torch.float64)
        if self.fault == "fp8 scale of the block before" and scale.numel() > 1:
            scale = scale.flatten().roll(1).view_as(scale)
        if self.fault == "fp8 last scale row lost" and scale.shape[0] > 1:
            scale = torch.cat([scale[:-1], torch.zeros_like(scale[-1:])])
        rows, cols = torch.arange(x.shape[0]) // 128, torch.arange(x.shape[1]) // 128
        m = scale[rows[:, None], cols[None, :]]
        return x / m if self.fault == "fp8 scale divided" else x * m

    def norm(self, x, name, eps):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * self.w(name)

    def rotate(self, x, interleaved, first=0):
        """x [rows, ..., d]; all d dims are rotated, row 0 is position first. Pairs stay where they stood."""
        d = x.shape[-1]
        # The product of position and frequency is a float32 one in every implementation.
        freq = (1.0 / self.theta ** (torch.arange(0, d, 2, dtype=torch.float32) / d)).to(torch.float32)
        angle = (torch.arange(first, first + x.shape[0], dtype=torch.float32)[:, None] * freq).to(torch.float64)
        angle = angle.view(x.shape[0], *[1] * (x.dim() - 2), d // 2)
        cos, sin = angle.cos(), angle.sin()
        y = torch.empty_like(x)
        a, b = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, d // 2), slice(d // 2, None))
        y[..., a] = x[..., a] * cos - x[..., b] * sin
        y[..., b] = x[..., b] * cos + x[..., a] * sin
        return y

    def forward(self, ids):
        """(logits, {layer: selected mask [rows, keys]}, {layer: experts [rows, k]})."""
        c = self.c
        h = self.w("model.embed_tokens.weight")[ids]
        self.causal = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
        picked, routed, carried, seen = {}, {}, None, []
        for n in range(c["num_hidden_layers"]):
            p = f"model.layers.{n}."
            x = self.norm(h, p + "input_layernorm.weight", self.eps)
            if c["model_type"] == "glm4_moe":
                h = h + self.gqa(p + "self_attn.", x)
            else:
                c_q = x @ self.w(p + "self_attn.q_a_proj.weight").T
                raw_q = c_q
                c_q = self.norm(c_q, p + "self_attn.q_a_layernorm.weight", self.latent_eps)
                mask = self.causal
                if c["model_type"] == "glm_moe_dsa":
                    run = self.full(n) or (self.fault == "indexer on shared layers"
                                           and p + "self_attn.indexer.wk.weight" in self.raw)
                    if run:
                        fed = raw_q if self.fault == "indexer reads unnormed latent" else c_q
                        carried = self.select(p + "self_attn.indexer.", x, fed)
                    if self.full(n):
                        picked[n] = carried
                    mask = carried
                    seen.append(carried)
                    if not self.full(n):
                        if self.fault == "shared layers see everything":
                            mask = self.causal
                        if self.fault == "selection of the layer before last":
                            mask = picked[sorted(picked)[-2]] if len(picked) > 1 else mask
                        if self.fault == "stale selection of the row before":
                            mask = torch.cat([mask[:1], mask[:-1]]) | torch.eye(len(ids), dtype=torch.bool)
                h = h + self.mla(p + "self_attn.", x, c_q, mask)
            x = self.norm(h, p + "post_attention_layernorm.weight", self.eps)
            if n in self.sparse:
                y, routed[n] = self.experts(p + "mlp.", x)
                h = h + y
            else:
                h = h + self.mlp(p + "mlp.", x)
        return self.norm(h, "model.norm.weight", self.eps) @ self.w("lm_head.weight").T, picked, routed

    def full(self, n):
        c = self.c
        if c.get("indexer_types"):
            return c["indexer_types"][n] == "full"
        if c.get("index_topk_pattern"):
            return c["index_topk_pattern"][n] == "F"
        return max(n - c.get("index_skip_topk_offset", 2) + 1, 0) % c.get("index_topk_freq", 1) == 0

    def select(self, p, x, c_q):
        c, f = self.c, self.fault
        heads, d, rope = c["index_n_heads"], c["index_head_dim"], c["qk_rope_head_dim"]
        q = (c_q @ self.w(p + "wq_b.weight").T).view(len(x), heads, d)
        k = x @ self.w(p + "wk.weight").T
        if f != "indexer key norm is rms":
            k = k - k.mean(-1, keepdim=True)
        eps = 1e-5 if f == "indexer eps 1e-5" else 1e-6
        k = k / torch.sqrt((k * k).mean(-1, keepdim=True) + eps) * self.w(p + "k_norm.weight")
        if f != "indexer key norm without bias":
            k = k + self.w(p + "k_norm.bias")
        inter = f != "indexer rope half-split"
        if f == "indexer rope last":
            q = torch.cat([q[..., :-rope], self.rotate(q[..., -rope:], inter)], -1)
            k = torch.cat([k[..., :-rope], self.rotate(k[..., -rope:], inter)], -1)
        else:
            q = torch.cat([self.rotate(q[..., :rope], inter), q[..., rope:]], -1)
            k = torch.cat([self.rotate(k[..., :rope], inter), k[..., rope:]], -1)
        w = (x @ self.w(p + "weights_proj.weight").T) * heads**-0.5
        if f == "indexer head weights made positive":
            w = w.abs()
        s = torch.einsum("shd,td->sht", q, k) * d**-0.5
        if f != "indexer without relu":
            s = s.clamp(min=0)
        score = torch.einsum("sh,sht->st", w, s) + 0.0
        score = score.masked_fill(~self.causal, -math.inf)
        keep = min(c["index_topk"] - (f == "top-k one less"), len(x))
        if f == "indexer ties to higher position":
            order = len(x) - 1 - torch.sort(score.flip(-1), dim=-1, descending=True, stable=True).indices
        else:
            order = torch.sort(score, dim=-1, descending=True, stable=True).indices
        return torch.zeros_like(self.causal).scatter(1, order[:, :keep], True) & self.causal

    def mla(self, p, x, c_q, mask):
        c = self.c
        heads, lora = c["num_attention_heads"], c["kv_lora_rank"]
        nope, rope, vd = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
        inter = self.fault != "mla rope half-split"
        q = (c_q @ self.w(p + "q_b_proj.weight").T).view(len(x), heads, nope + rope)
        q_pe = self.rotate(q[..., nope:], inter)
        kv = x @ self.w(p + "kv_a_proj_with_mqa.weight").T
        ahead = 1 if self.fault == "keys one position ahead" else 0
        lat = self.norm(kv[:, :lora], p + "kv_a_layernorm.weight", self.latent_eps)
        k_pe = self.rotate(kv[:, lora:], inter, ahead)
        b = self.w(p + "kv_b_proj.weight").view(heads, nope + vd, lora)
        a = torch.einsum("shn,hnl->shl", q[..., :nope], b[:, :nope])
        scale = (nope if self.fault == "mla scale from nope dims" else nope + rope) ** -0.5
        score = (torch.einsum("shl,tl->hst", a, lat) + torch.einsum("shr,tr->hst", q_pe, k_pe)) * scale
        prob = score.masked_fill(~mask, -math.inf).softmax(-1)
        u = torch.einsum("hst,tl->shl", prob, lat)
        o = torch.einsum("shl,hvl->shv", u, b[:, nope:]).reshape(len(x), heads * vd)
        return o @ self.w(p + "o_proj.weight").T

    def gqa(self, p, x):
        c, f = self.c, self.fault
        heads, kv, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        rot = d if f == "gqa rope on all dims" else int(d * c["partial_rotary_factor"])

        def project(name, n):
            y = x @ self.w(f"{p}{name}_proj.weight").T
            if c["attention_bias"] and f != "no attention bias":
                y = y + self.w(f"{p}{name}_proj.bias")
            return y.view(len(x), n, d)

        def position(y):
            ahead = 1 if f == "keys one position ahead" and y.shape[1] == kv else 0
            return torch.cat([self.rotate(y[..., :rot], f == "gqa rope interleaved", ahead), y[..., rot:]], -1)

        q, k, v = project("q", heads), project("k", kv), project("v", kv)
        if c["use_qk_norm"] and f != "no QK norm":
            def qk(y, name):
                return self.norm(y, p + name + "_norm.weight", self.eps)
            if f == "QK norm after rope":
                q, k = qk(position(q), "q"), qk(position(k), "k")
            else:
                q, k = position(qk(q, "q")), position(qk(k, "k"))
        else:
            q, k = position(q), position(k)
        of = torch.arange(heads) // (heads // kv)
        score = torch.einsum("shd,thd->hst", q, k[:, of]) * d**-0.5
        prob = score.masked_fill(~self.causal, -math.inf).softmax(-1)
        return torch.einsum("hst,thd->shd", prob, v[:, of]).reshape(len(x), heads * d) @ self.w(p + "o_proj.weight").T

    def mlp(self, p, x):
        a, b = ("up", "gate") if self.fault == "gate and up swapped" else ("gate", "up")
        g = x @ self.w(f"{p}{a}_proj.weight").T
        return (g * torch.sigmoid(g) * (x @ self.w(f"{p}{b}_proj.weight").T)) @ self.w(p + "down_proj.weight").T

    def experts(self, p, x):
        c, f = self.c, self.fault
        logits = x @ self.w(p + "gate.weight").T
        s = logits.softmax(-1) if f == "softmax router" else logits.sigmoid()
        bias = self.raw[p + "gate.e_score_correction_bias"]
        bias = (bias.to(torch.bfloat16) if f == "bias in bf16" else bias).to(torch.float64)
        choice = s if f == "router without bias" else s + bias
        # In float32 the sum is rounded to the bias's step; the choice is made on the rounded sums.
        choice = choice.to(torch.float32)
        top = torch.sort(choice, dim=-1, descending=True, stable=True).indices[:, : c["num_experts_per_tok"]]
        weight = (s + bias if f == "bias used as weight" else s).gather(1, top)
        scale = 1.0 if f == "experts not scaled" else c["routed_scaling_factor"]
        if f == "scale before normalising":
            weight, scale = weight * scale, 1.0
        if c["norm_topk_prob"] and f != "weights not normalised":
            weight = weight / (weight.sum(-1, keepdim=True) + 1e-20)
        weight = weight * scale
        y = torch.zeros_like(x)
        for e in range(c["n_routed_experts"]):
            rows, slot = torch.where(top == e)
            if len(rows):
                y[rows] += self.mlp(f"{p}experts.{e}.", x[rows]) * weight[rows, slot, None]
        if f != "shared expert missing":
            y = y + self.mlp(p + "shared_experts.", x) * (scale if f == "shared expert scaled" else 1.0)
        return y, top

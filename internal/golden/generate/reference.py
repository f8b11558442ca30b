"""The public reference, observed but not changed.

The model classes are used as installed. Around them this module puts
- a stable top-k (larger first, then lower position; -0.0 equals 0.0) in place of torch.topk,
  which promises no order among equals;
- hooks that keep the indexer's scores and choices and the router's;
- a float64 mode that runs the same code in double precision, to measure float32 noise.
"""

import contextlib
import importlib
import re
import sys
from dataclasses import dataclass, field

import torch
import transformers
from transformers.utils import logging as hf_logging

hf_logging.set_verbosity_error()
hf_logging.disable_progress_bar()


def load(folder, extra):
    """Load a checkpoint folder through the reference's own loader, in float32 with eager attention.

    `extra` are the tensors that the main model must ignore; nothing may be missing, and nothing
    else may be left over.
    """
    config = transformers.AutoConfig.from_pretrained(folder)
    cls = getattr(transformers, config.architectures[0])
    model, info = cls.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager", output_loading_info=True
    )
    if info["missing_keys"] or info["mismatched_keys"]:
        raise RuntimeError(f"reference misses {info['missing_keys']} {info['mismatched_keys']}")
    # The loader stacks experts before it looks: a layer's triples appear under two joint names.
    joint = {re.sub(r"experts\.\d+\.(gate|up)_proj\.weight$", "experts.gate_up_proj", n) for n in extra}
    joint |= {re.sub(r"experts\.\d+\.down_proj\.weight$", "experts.down_proj", n) for n in extra}
    left = set(info["unexpected_keys"]) - joint
    if left:
        raise RuntimeError(f"reference ignores tensors it should use: {sorted(left)}")
    model.eval()
    for name, p in model.named_parameters():
        if p.dtype != torch.float32:
            raise RuntimeError(f"{name} is {p.dtype}")
    return model


@dataclass
class Trace:
    """What one forward pass chose."""

    logits: torch.Tensor = None
    index_scores: dict = field(default_factory=dict)  # layer -> [rows, keys]
    index_heads: dict = field(default_factory=dict)  # layer -> largest pre-ReLU head score [rows, keys]
    selected: dict = field(default_factory=dict)  # layer -> [rows, topk] as returned
    choice: dict = field(default_factory=dict)  # layer -> [rows, experts], sigmoid + bias
    experts: dict = field(default_factory=dict)  # layer -> [rows, k]
    weights: dict = field(default_factory=dict)  # layer -> [rows, k]


def stable_topk(x, k, dim=-1, largest=True, sorted=True):
    if not largest or dim not in (-1, x.dim() - 1):
        raise ValueError("stable_topk: only the largest along the last dimension")
    if torch.isnan(x).any():
        raise ValueError("stable_topk: NaN among the scores")
    values, indices = torch.sort(x + 0.0, dim=-1, descending=True, stable=True)
    return torch.return_types.topk((values[..., :k], indices[..., :k]))


class Observer:
    """Installs the stable top-k and the hooks on one model, for the length of a `with`."""

    def __init__(self, model):
        self.model = model
        self.trace = Trace()
        self._layer = None  # the indexer that is running, if any

    def __enter__(self):
        self._undo = contextlib.ExitStack()
        relu = torch.nn.functional.relu

        def topk(x, k, dim=-1, largest=True, sorted=True):
            if self._layer is not None:
                self.trace.index_scores[self._layer] = x[0].detach().clone()
            return stable_topk(x, k, dim, largest, sorted)

        def seen_relu(x, *a, **kw):
            if self._layer is not None:  # [B, S, H, T]
                self.trace.index_heads[self._layer] = x[0].detach().amax(dim=1)
            return relu(x, *a, **kw)

        _swap(self._undo, torch, "topk", topk)
        _swap(self._undo, torch.Tensor, "topk", topk)
        _swap(self._undo, torch.nn.functional, "relu", seen_relu)
        for n, layer in enumerate(self.model.model.layers):
            indexer = getattr(layer.self_attn, "indexer", None)
            if indexer is not None:
                self._hook(indexer.register_forward_pre_hook(lambda *_, n=n: setattr(self, "_layer", n)))
                self._hook(indexer.register_forward_hook(lambda m, i, o, n=n: self._indexed(n, o)))
            gate = getattr(layer.mlp, "gate", None)
            if gate is not None:
                self._hook(gate.register_forward_hook(lambda m, i, o, n=n: self._routed(n, m, o)))
        return self

    def __exit__(self, *exc):
        return self._undo.__exit__(*exc)

    def _hook(self, handle):
        self._undo.callback(handle.remove)

    def _indexed(self, n, out):
        self.trace.selected[n] = out[0].detach().long()
        self._layer = None

    def _routed(self, n, gate, out):
        logits, weights, indices = out
        self.trace.choice[n] = logits.sigmoid() + gate.e_score_correction_bias
        self.trace.experts[n] = indices.detach().clone()
        self.trace.weights[n] = weights.detach().clone()


def forward(model, ids):
    """One pass over ids without a cache: logits at every position, and every choice."""
    with torch.no_grad(), Observer(model) as seen:
        out = model(torch.tensor([ids]), use_cache=False)
    seen.trace.logits = out.logits[0].detach()
    return seen.trace


def argmax(row):
    return int(torch.nonzero(row == row.max())[0, 0])


def greedy_cached(model, ids, steps):
    """Greedy continuation over the reference's own cache: prompt at once, then token by token."""
    out = []
    with torch.no_grad(), Observer(model):
        step = model(torch.tensor([ids]), use_cache=True)
        for _ in range(steps):
            out.append(argmax(step.logits[0, -1]))
            step = model(torch.tensor([[out[-1]]]), cache=step.cache, use_cache=True)
    return out


def greedy_recomputed(model, ids, steps):
    """Greedy continuation by a full pass over everything at every step."""
    out = []
    with torch.no_grad(), Observer(model):
        for _ in range(steps):
            out.append(argmax(model(torch.tensor([ids + out]), use_cache=False).logits[0, -1]))
    return out


class _DoubleTorch:
    """torch, as a modeling module sees it in the float64 mode: its float32 is float64."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def double_precision(model):
    """Run the reference's code in float64.

    Rotary angles stay the float32 product of position and frequency, which is part of the formula; cosine
    and sine of that angle are then taken in float64.
    """
    module = importlib.import_module(type(model).__module__)
    rotary = type(model.model.rotary_emb)

    def angles(self, x, position_ids):
        freqs = position_ids[..., None].to(torch.float32) * self.inv_freq.to(torch.float32)
        emb = torch.cat((freqs, freqs), dim=-1).to(torch.float64)
        return emb.cos(), emb.sin()

    def wide(t):
        return t.to(torch.float64)

    with contextlib.ExitStack() as undo:
        _swap(undo, module, "torch", _DoubleTorch())
        _swap(undo, torch.Tensor, "float", wide)
        _swap(undo, rotary, "forward", angles)
        model.double()
        undo.callback(model.float)
        yield model


def _swap(undo, owner, name, value):
    old = getattr(owner, name)
    setattr(owner, name, value)
    undo.callback(setattr, owner, name, old)


def versions():
    import numpy
    import safetensors

    return {
        "python": sys.version.split()[0],
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
        "safetensors": safetensors.__version__,
        "numpy": numpy.__version__,
    }

"""Checkpoints in the published form: config.json, generation_config.json, safetensors shards.

`store` returns, next to the files, the f32 values that the stored bytes stand for: exactly those
run through the reference.
"""

import json
import math
import re
from pathlib import Path

import torch
from safetensors.torch import save_file

BLOCK = 128
E4M3_MAX = 448.0

# What the vendor's FP8 repositories quantise; everything else keeps its dtype.
QUANTISED = re.compile(
    r"(self_attn\.(q_a_proj|q_b_proj|kv_a_proj_with_mqa|kv_b_proj|o_proj|q_proj|k_proj|v_proj)"
    r"|indexer\.(wq_b|wk)"
    r"|mlp\.(gate_proj|up_proj|down_proj)"
    r"|(shared_experts|experts\.\d+)\.(gate_proj|up_proj|down_proj))\.weight$"
)


def encode(plan, tensors):
    """Stored tensors and the f32 values they mean, both by name."""
    stored, meaning = {}, {}
    for name, x in tensors.items():
        if name.endswith(("e_score_correction_bias", "inv_freq")):
            stored[name], meaning[name] = x, x
        elif plan.quant and QUANTISED.search(name):
            quantise = _quantise_blocks if plan.quant == "block" else _quantise_rows
            suffix = "_scale_inv" if plan.quant == "block" else "_scale"
            codes, scale, value = quantise(name, x)
            stored[name], stored[name + suffix], meaning[name] = codes, scale, value
        else:
            stored[name] = x.to(torch.bfloat16)
            meaning[name] = stored[name].float()
    return stored, meaning


def _uneven(x, block_rows, block_cols):
    """Give every block its own loudness, so that a scale used for the wrong block shows."""
    rows, cols = x.shape
    r = torch.arange(rows)[:, None] // block_rows
    c = torch.arange(cols)[None, :] // block_cols
    return x * torch.tensor([0.7, 1.0, 1.3])[(r + 2 * c) % 3]


def _quantise_blocks(name, x):
    x = _uneven(x, BLOCK, BLOCK)
    rows, cols = x.shape
    scale = torch.empty(math.ceil(rows / BLOCK), math.ceil(cols / BLOCK), dtype=torch.float32)
    codes = torch.empty(rows, cols, dtype=torch.float8_e4m3fn)
    value = torch.empty_like(x)
    for i in range(scale.shape[0]):
        for j in range(scale.shape[1]):
            at = (slice(i * BLOCK, (i + 1) * BLOCK), slice(j * BLOCK, (j + 1) * BLOCK))
            scale[i, j] = x[at].abs().max() / E4M3_MAX
            codes[at] = (x[at] / scale[i, j]).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
            value[at] = codes[at].float() * scale[i, j]
    return codes, scale, value


def _quantise_rows(name, x):
    x = _uneven(x, 1, x.shape[1])
    scale = x.abs().amax(dim=1, keepdim=True) / E4M3_MAX
    if "self_attn" not in name:  # both dtypes of weight_scale are found in the wild
        scale = scale.to(torch.bfloat16)
    wide = scale.float()
    codes = (x / wide).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return codes, scale, codes.float() * wide


def write(plan, config, generation, stored, folder: Path):
    """Write a checkpoint directory: the config, its generation settings and the shards."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", generation)
    names = list(stored)
    if plan.shards == 1:
        _save({n: stored[n] for n in names}, folder / "model.safetensors")
        return
    # Shards are cut by bytes and so fall between layers or in the middle of one, as they do in the
    # published files; an FP8 weight and its scale may end up in different shards.
    size = {n: t.numel() * t.element_size() for n, t in stored.items()}
    total, filled, where = sum(size.values()), 0, {}
    for n in names:
        where[n] = min(filled * plan.shards // total, plan.shards - 1)
        filled += size[n]
    file = [f"model-{i + 1:05d}-of-{plan.shards:05d}.safetensors" for i in range(plan.shards)]
    for i in range(plan.shards):
        _save({n: stored[n] for n in names if where[n] == i}, folder / file[i])
    write_json(folder / "model.safetensors.index.json", {
        "metadata": {"total_size": total},
        "weight_map": {n: file[where[n]] for n in sorted(names)},
    })


def _save(tensors, path):
    save_file({n: t.contiguous() for n, t in tensors.items()}, path, metadata={"format": "pt"})
    path.chmod(0o644)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


def quantization_config(plan, names):
    """The quantization_config of the official FP8 repositories, or None."""
    if plan.quant == "block":
        skipped = sorted(n.removesuffix(".weight") for n in names
                         if n.endswith(".weight") and not QUANTISED.search(n) and "weights_proj" not in n)
        # The published list names the head-weight projection by a name that no tensor has.
        skipped += [f"model.layers.{m.group(1)}.self_attn.indexers_proj" for n in names
                    if (m := re.search(r"layers\.(\d+)\.self_attn\.indexer\.weights_proj", n))]
        return {
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "modules_to_not_convert": skipped,
            "quant_method": "fp8",
            "weight_block_size": [BLOCK, BLOCK],
        }
    if plan.quant == "channel":
        return {
            "config_groups": {"group_0": {
                "input_activations": {
                    "actorder": None, "block_structure": None, "dynamic": True, "group_size": None, "num_bits": 8,
                    "observer": None, "observer_kwargs": {}, "strategy": "token", "symmetric": True, "type": "float"},
                "output_activations": None,
                "targets": ["Linear"],
                "weights": {
                    "actorder": None, "block_structure": None, "dynamic": False, "group_size": None, "num_bits": 8,
                    "observer": "minmax", "observer_kwargs": {}, "strategy": "channel", "symmetric": True,
                    "type": "float"},
            }},
            "format": "float-quantized",
            "global_compression_ratio": None,
            "ignore": ["lm_head"] + sorted(n.removesuffix(".weight") for n in names if n.endswith("mlp.gate.weight")),
            "kv_cache_scheme": None,
            "quant_method": "compressed-tensors",
            "quantization_status": "compressed",
        }
    return None

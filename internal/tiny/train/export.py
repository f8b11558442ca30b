"""Writes a trained model in the published format.

    python export.py STATE.pt MTP.pt TOKENIZER.json OUT_DIR

BF16 weights (router biases F32) under the published names, experts unstacked,
the MTP layer as the layer after the last; config.json, generation_config.json,
tokenizer.json, tokenizer_config.json, chat_template.jinja.
"""

import json
import os
import shutil
import sys

import torch
from safetensors.torch import save_file

import model as modelling
import wire

HERE = os.path.dirname(os.path.abspath(__file__))


def published(state, layers):
    """Reference state dict -> published tensors; the MTP state is given under its layer's names already."""
    out = {}
    for name, tensor in state.items():
        if name.endswith("e_score_correction_bias"):
            out[name] = tensor.float().contiguous()
            continue
        tensor = tensor.bfloat16()
        if name.endswith("experts.gate_up_proj"):
            base = name.removesuffix("gate_up_proj")
            for e, w in enumerate(tensor):
                gate, up = w.chunk(2)
                out[f"{base}{e}.gate_proj.weight"] = gate.clone()
                out[f"{base}{e}.up_proj.weight"] = up.clone()
        elif name.endswith("experts.down_proj"):
            base = name.removesuffix("down_proj")
            for e, w in enumerate(tensor):
                out[f"{base}{e}.down_proj.weight"] = w.clone()
        else:
            out[name] = tensor.contiguous()
    return out


def mtp_names(state, layer):
    """Mtp module names -> model.layers.N names."""
    own = {"enorm.weight": "enorm.weight", "hnorm.weight": "hnorm.weight", "eh_proj.weight": "eh_proj.weight", "norm.weight": "shared_head.norm.weight"}
    return {f"model.layers.{layer}." + own.get(n, n.removeprefix("layer.")): t for n, t in state.items()}


def published_config(cfg):
    return {
        "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa", "dtype": "bfloat16",
        "attention_bias": False, "attention_dropout": 0.0, "eos_token_id": modelling.EOS, "pad_token_id": wire.BASE,
        "first_k_dense_replace": cfg.first_k_dense_replace, "head_dim": cfg.qk_nope_head_dim, "hidden_act": "silu",
        "hidden_size": cfg.hidden_size, "index_head_dim": cfg.index_head_dim, "index_n_heads": cfg.index_n_heads,
        "index_share_for_mtp_iteration": True, "index_topk": cfg.index_topk, "indexer_rope_interleave": True,
        "indexer_types": cfg.indexer_types, "initializer_range": cfg.initializer_range, "intermediate_size": cfg.intermediate_size,
        "kv_lora_rank": cfg.kv_lora_rank, "max_position_embeddings": cfg.max_position_embeddings, "mlp_bias": False,
        "moe_intermediate_size": cfg.moe_intermediate_size, "moe_layer_freq": 1, "moe_router_dtype": "float32", "n_group": 1,
        "n_routed_experts": cfg.n_routed_experts, "n_shared_experts": cfg.n_shared_experts, "norm_topk_prob": True,
        "num_attention_heads": cfg.num_attention_heads, "num_experts_per_tok": cfg.num_experts_per_tok,
        "num_hidden_layers": cfg.num_hidden_layers, "num_key_value_heads": cfg.num_key_value_heads, "num_nextn_predict_layers": 1,
        "q_lora_rank": cfg.q_lora_rank, "qk_head_dim": cfg.qk_nope_head_dim + cfg.qk_rope_head_dim, "qk_nope_head_dim": cfg.qk_nope_head_dim,
        "qk_rope_head_dim": cfg.qk_rope_head_dim, "rms_norm_eps": cfg.rms_norm_eps, "rope_interleave": True,
        "rope_parameters": {"rope_theta": cfg.rope_parameters["rope_theta"], "rope_type": "default"},
        "routed_scaling_factor": cfg.routed_scaling_factor, "scoring_func": "sigmoid", "tie_word_embeddings": False, "topk_group": 1,
        "topk_method": "noaux_tc", "use_cache": True, "v_head_dim": cfg.v_head_dim, "vocab_size": cfg.vocab_size,
    }


def dump(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f, indent=2)
        f.write("\n")


def main():
    state_path, mtp_path, tokenizer, folder = sys.argv[1:5]
    os.makedirs(folder, exist_ok=True)
    cfg = modelling.config()
    state = torch.load(state_path, weights_only=False)
    tensors = published(state.get("model", state), cfg.num_hidden_layers)
    tensors.update(published(mtp_names(torch.load(mtp_path, weights_only=False), cfg.num_hidden_layers), cfg.num_hidden_layers))
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    dump(folder, "config.json", published_config(cfg))
    dump(folder, "generation_config.json", {"do_sample": False, "eos_token_id": modelling.EOS, "pad_token_id": wire.BASE})
    dump(folder, "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": cfg.max_position_embeddings, "eos_token": wire.ADDED[0],
        "pad_token": wire.ADDED[0], "extra_special_tokens": wire.ADDED[:18], "clean_up_tokenization_spaces": False,
    })
    if os.path.abspath(tokenizer) != os.path.abspath(os.path.join(folder, "tokenizer.json")):
        shutil.copy(tokenizer, folder)
    shutil.copy(os.path.join(HERE, "chat_template.jinja"), folder)
    print(sum(t.numel() for t in tensors.values()), "parameters,", os.path.getsize(os.path.join(folder, "model.safetensors")), "bytes of weights")


if __name__ == "__main__":
    main()

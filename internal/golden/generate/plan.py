"""The goldens: one Plan per tiny checkpoint, with the vendor's configuration fields.

Sizes are small and deliberately odd; field names, tensor names and dtypes are those of the
published checkpoints. Gains set how peaked attention, indexer and router are.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Plan:
    name: str
    about: str
    config: dict  # config.json without architectures' eos/pad ids, which are added last
    prompts: tuple  # prompt lengths, in tokens
    shards: int = 1
    quant: str = ""  # "", "block" (128x128, weight_scale_inv) or "channel" (weight_scale)
    mtp: bool = False  # tensors of one MTP layer at index num_hidden_layers
    mtp_copies: bool = False  # ... with embed_tokens and shared_head.head copies
    shared_indexers: bool = False  # indexer tensors also on layers that must not run one
    inv_freq: bool = False  # a stray rotary inv_freq, as old exporters left them
    bias_center: float = 0.0
    bias_spread: float = 0.3
    bias_gain: float = 0.3  # of the projections' biases
    gains: dict = field(default_factory=dict)  # overrides of weights.GAINS
    negative_heads: bool = False  # most indexer head weights below zero
    min_tied_rows: int = 0  # rows whose indexer boundary must be an exact tie at zero
    first_seed: int = 1


def _dsa(**kw):
    """Fields every glm_moe_dsa configuration has, in the vendor's spelling."""
    c = {
        "architectures": ["GlmMoeDsaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "dtype": "bfloat16",
        "ep_size": 1,
        "first_k_dense_replace": 3,
        "hidden_act": "silu",
        "index_topk": 16,
        "indexer_rope_interleave": True,
        "initializer_range": 0.02,
        "max_position_embeddings": 202752,
        "model_type": "glm_moe_dsa",
        "moe_layer_freq": 1,
        "n_group": 1,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_nextn_predict_layers": 0,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_interleave": True,
        "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid",
        "tie_word_embeddings": False,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "transformers_version": "5.2.0",
        "use_cache": True,
    }
    c.update(kw)
    c["num_key_value_heads"] = c["num_attention_heads"]
    c["qk_head_dim"] = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
    c["head_dim"] = c["qk_nope_head_dim"]  # published, and wrong for every size: nobody may use it
    return dict(sorted(c.items()))


def _gqa(**kw):
    """Fields every glm4_moe configuration has."""
    c = {
        "architectures": ["Glm4MoeForCausalLM"],
        "attention_bias": True,
        "attention_dropout": 0.0,
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "max_position_embeddings": 131072,
        "model_type": "glm4_moe",
        "n_group": 1,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_nextn_predict_layers": 0,
        "partial_rotary_factor": 0.5,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "tie_word_embeddings": False,
        "topk_group": 1,
        "transformers_version": "4.54.0",
        "use_cache": True,
    }
    c.update(kw)
    return dict(sorted(c.items()))


def _index_share(layers, freq, offset):
    return ["full" if max(i - offset + 1, 0) % freq == 0 else "shared" for i in range(layers)]


GLM52_SHARE = {
    "index_share_for_mtp_iteration": True,
    "index_skip_topk_offset": 3,
    "index_topk_freq": 4,
    "index_topk_pattern": None,
    "max_position_embeddings": 1048576,
    "moe_router_dtype": "float32",
    "rope_parameters": {"rope_theta": 8000000, "rope_type": "default"},
}

PLANS = [
    Plan(
        name="glm5",
        about="GLM-5/5.1: an indexer on every layer, flat rope_theta",
        config=_dsa(
            rope_theta=1000000, rope_scaling=None, first_k_dense_replace=2,
            hidden_size=44, intermediate_size=72, moe_intermediate_size=20,
            num_hidden_layers=5, num_attention_heads=4,
            q_lora_rank=28, kv_lora_rank=24, qk_nope_head_dim=20, qk_rope_head_dim=8, v_head_dim=24,
            n_routed_experts=10, num_experts_per_tok=4,
            index_n_heads=4, index_head_dim=20, index_topk=24, vocab_size=260,
        ),
        prompts=(9, 90),
    ),
    Plan(
        name="glm52",
        about="GLM-5.2/5.3: IndexShare (frequency 4, offset 3, explicit indexer_types), nested rope, "
              "MTP layer with its own indexer",
        config=_dsa(
            **GLM52_SHARE,
            hidden_size=40, intermediate_size=80, moe_intermediate_size=16,
            num_hidden_layers=9, num_attention_heads=4,
            q_lora_rank=32, kv_lora_rank=24, qk_nope_head_dim=24, qk_rope_head_dim=8, v_head_dim=28,
            n_routed_experts=8, num_experts_per_tok=3, num_nextn_predict_layers=1,
            index_n_heads=4, index_head_dim=16, index_topk=16,
            indexer_types=_index_share(9, 4, 3), vocab_size=272,
        ),
        prompts=(11, 72),
        mtp=True,
        shards=2,
    ),
    Plan(
        name="glm52fp8",
        about="GLM-5.2/5.3 in FP8 blocks of 128x128 with ragged edges: kv_b heads straddle blocks, kv_a has a ragged "
              "second scale row; the MTP layer is quantised too",
        config=_dsa(
            **GLM52_SHARE,
            hidden_size=132, intermediate_size=140, moe_intermediate_size=16,
            num_hidden_layers=8, num_attention_heads=3,
            q_lora_rank=40, kv_lora_rank=132, qk_nope_head_dim=24, qk_rope_head_dim=8, v_head_dim=24,
            n_routed_experts=5, num_experts_per_tok=2, num_nextn_predict_layers=1,
            index_n_heads=5, index_head_dim=28, index_topk=20,
            indexer_types=_index_share(8, 4, 3), vocab_size=258,
        ),
        prompts=(5, 70),
        quant="block",
        mtp=True,
        shards=3,
    ),
    Plan(
        name="glm47flash",
        about="GLM-4.7-Flash: MLA without indexer, flat rope_theta, MTP layer with copies of embedding and head",
        config=dict(sorted({
            "architectures": ["Glm4MoeLiteForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "dtype": "bfloat16",
            "first_k_dense_replace": 1,
            "hidden_act": "silu",
            "hidden_size": 48,
            "initializer_range": 0.02,
            "intermediate_size": 88,
            "kv_lora_rank": 28,
            "max_position_embeddings": 202752,
            "model_type": "glm4_moe_lite",
            "moe_intermediate_size": 20,
            "n_group": 1,
            "n_routed_experts": 10,
            "n_shared_experts": 1,
            "norm_topk_prob": True,
            "num_attention_heads": 5,
            "num_experts_per_tok": 4,
            "num_hidden_layers": 4,
            "num_key_value_heads": 5,
            "num_nextn_predict_layers": 1,
            "partial_rotary_factor": 1.0,
            "q_lora_rank": 36,
            "qk_nope_head_dim": 20,
            "qk_rope_head_dim": 8,
            "rms_norm_eps": 1e-05,
            "rope_scaling": None,
            "rope_theta": 1000000,
            "routed_scaling_factor": 1.8,
            "tie_word_embeddings": False,
            "topk_group": 1,
            "topk_method": "noaux_tc",
            "transformers_version": "5.0.0rc0",
            "use_cache": True,
            "v_head_dim": 28,
            "vocab_size": 288,
        }.items())),
        prompts=(1, 57),
        mtp=True,
        mtp_copies=True,
    ),
    Plan(
        name="glm45",
        about="GLM-4.5/4.6/4.7: grouped queries with bias and QK norm, half of each head rotated, "
              "MTP layer with copies of embedding and head",
        config=_gqa(
            use_qk_norm=True, routed_scaling_factor=2.5, first_k_dense_replace=3, num_nextn_predict_layers=1,
            hidden_size=48, intermediate_size=84, moe_intermediate_size=20,
            num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=2, head_dim=20,
            n_routed_experts=12, num_experts_per_tok=4, vocab_size=266,
        ),
        prompts=(14, 66),
        mtp=True,
        mtp_copies=True,
        shards=2,
        gains={"q_proj": 0.1, "k_proj": 0.1},  # small before their norm, so that its eps is seen
        bias_gain=0.03,
    ),
    Plan(
        name="air",
        about="GLM-4.5-Air: grouped queries with bias and without QK norm, one dense layer, experts scaled by 1",
        config=_gqa(
            use_qk_norm=False, routed_scaling_factor=1.0, first_k_dense_replace=1,
            hidden_size=36, intermediate_size=68, moe_intermediate_size=20,
            num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2, head_dim=16,
            n_routed_experts=9, num_experts_per_tok=3, vocab_size=264,
        ),
        prompts=(8, 60),
    ),
    Plan(
        name="hard",
        about="glm_moe_dsa made difficult: prompt far longer than index_topk, router bias near 7 with a spread of 0.1, "
              "negative indexer head weights, exact ties at score zero, odd sizes, index_topk_pattern, "
              "indexer tensors on shared layers and a stray inv_freq",
        config=_dsa(
            first_k_dense_replace=1, index_topk_pattern="FSFFSSF",
            moe_router_dtype="float32", rope_parameters={"rope_theta": 8000000, "rope_type": "default"},
            hidden_size=36, intermediate_size=58, moe_intermediate_size=18,
            num_hidden_layers=7, num_attention_heads=3,
            q_lora_rank=26, kv_lora_rank=22, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14,
            n_routed_experts=11, num_experts_per_tok=3,
            index_n_heads=3, index_head_dim=14, index_topk=8, vocab_size=331,
        ),
        prompts=(3, 170),
        shards=4,
        bias_center=7.0,
        bias_spread=0.1,
        shared_indexers=True,
        inv_freq=True,
        negative_heads=True,
        min_tied_rows=200,
    ),
    Plan(
        name="glm45fp8",
        about="GLM-4.x in FP8 with one scale per output channel (compressed-tensors weight_scale, F32 in attention and "
              "BF16 elsewhere)",
        config=_gqa(
            use_qk_norm=True, routed_scaling_factor=2.5, first_k_dense_replace=2,
            hidden_size=52, intermediate_size=76, moe_intermediate_size=28,
            num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=1, head_dim=24,
            n_routed_experts=8, num_experts_per_tok=3, vocab_size=262,
        ),
        prompts=(6, 50),
        quant="channel",
        shards=2,
    ),
]

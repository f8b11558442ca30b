package synthetic

import (
	"fmt"
	"strings"
)

// Flash returns the config.json of GLM-4.7-Flash with the given number of layers, the
// first dense ones of them, and words in its vocabulary (154,880 in the model).
func Flash(layers, dense, words int) string {
	return fmt.Sprintf(`{
  "architectures": ["Glm4MoeLiteForCausalLM"], "model_type": "glm4_moe_lite",
  "num_hidden_layers": %d, "first_k_dense_replace": %d, "vocab_size": %d, "num_nextn_predict_layers": 0,
  "hidden_size": 2048, "intermediate_size": 10240, "moe_intermediate_size": 1536,
  "num_attention_heads": 20, "num_key_value_heads": 20, "q_lora_rank": 768, "kv_lora_rank": 512,
  "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256, "partial_rotary_factor": 1.0,
  "rope_theta": 1000000, "rope_scaling": null,
  "n_routed_experts": 64, "num_experts_per_tok": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
  "topk_method": "noaux_tc", "norm_topk_prob": true, "routed_scaling_factor": 1.8,
  "rms_norm_eps": 1e-05, "max_position_embeddings": 202752, "attention_bias": false,
  "tie_word_embeddings": false, "hidden_act": "silu", "dtype": "bfloat16"
}
`, layers, dense, words)
}

// GLM53 is [Flash] for GLM-5.3, with an indexer of its own in every layer.
func GLM53(layers, dense, words int) string {
	full := strings.TrimSuffix(strings.Repeat(`"full", `, layers), ", ")
	return fmt.Sprintf(`{
  "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa",
  "num_hidden_layers": %d, "first_k_dense_replace": %d, "vocab_size": %d, "num_nextn_predict_layers": 0,
  "hidden_size": 6144, "intermediate_size": 12288, "moe_intermediate_size": 2048,
  "num_attention_heads": 64, "num_key_value_heads": 64, "q_lora_rank": 2048, "kv_lora_rank": 512,
  "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256, "qk_head_dim": 256, "head_dim": 192,
  "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
  "scoring_func": "sigmoid", "topk_method": "noaux_tc", "norm_topk_prob": true, "routed_scaling_factor": 2.5,
  "moe_router_dtype": "float32", "rms_norm_eps": 1e-05, "hidden_act": "silu",
  "rope_parameters": {"rope_theta": 8000000, "rope_type": "default"}, "rope_interleave": true,
  "indexer_rope_interleave": true, "max_position_embeddings": 1048576,
  "index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048, "indexer_types": [%s],
  "attention_bias": false, "tie_word_embeddings": false, "dtype": "bfloat16"
}
`, layers, dense, words, full)
}

package checkpoint

// Family is a model_type of config.json: it decides which forward graph runs.
type Family string

// The families whose config.json is understood.
const (
	GLMMoeDSA   Family = "glm_moe_dsa"   // GLM-5, 5.1, 5.2, 5.3: MLA with a sparse-attention indexer
	GLM4MoeLite Family = "glm4_moe_lite" // GLM-4.7-Flash: dense MLA
	GLM4Moe     Family = "glm4_moe"      // GLM-4.5, 4.5-Air, 4.6, 4.7: GQA
	GLM5Next    Family = "glm5_next"     // GLM-5.3-Flash: inventory only, see Config.Runnable
)

// DefaultLatentEps is the epsilon of q_a_layernorm and kv_a_layernorm. No
// published field states it: production servers use 1e-5, the public reference
// implementation 1e-6.
const DefaultLatentEps = 1e-5

// Config is what config.json (and generation_config.json) say about a model,
// validated, with schedules written out per layer. Sizes are counts of values.
// A field that the family does not have is zero.
//
// The numbers of a Config from [ParseConfig] are within the limits that
// limits.go states, so products of two sizes do not overflow an int.
type Config struct {
	Family Family // model_type

	Layers       int // num_hidden_layers; MTP layers are not among them
	Hidden       int // hidden_size
	Vocab        int // vocab_size: rows of the embedding and the head
	MaxPositions int // max_position_embeddings
	MTPLayers    int // num_nextn_predict_layers; their indices start at Layers

	RMSEps    float64 // rms_norm_eps: layer norms and the final norm
	LatentEps float64 // DefaultLatentEps; a caller may set another before building a graph

	Rope Rope

	// Attention. GQA families use Heads, KVHeads, HeadDim; MLA families use
	// Heads and the five sizes below, and never head_dim, which published files
	// fill with unrelated numbers.
	Heads         int  // num_attention_heads
	KVHeads       int  // num_key_value_heads (GQA)
	HeadDim       int  // head_dim (GQA)
	AttentionBias bool // attention_bias (GQA): q, k and v have a bias, o never
	UseQKNorm     bool // use_qk_norm (GQA): RMSNorm per head on q and k before rope
	QLoraRank     int  // q_lora_rank (MLA)
	KVLoraRank    int  // kv_lora_rank (MLA)
	QKNope        int  // qk_nope_head_dim (MLA)
	QKRope        int  // qk_rope_head_dim (MLA)
	VDim          int  // v_head_dim (MLA)

	Index Index // zero without an indexer

	// Feed-forward blocks.
	DenseIntermediate int     // intermediate_size
	MoEIntermediate   int     // moe_intermediate_size
	Experts           int     // n_routed_experts
	TopK              int     // num_experts_per_tok
	SharedExperts     int     // n_shared_experts; one block of SharedExperts*MoEIntermediate
	Sparse            []bool  // per layer, true: mixture of experts (first_k_dense_replace, mlp_layer_types)
	NormTopKProb      bool    // norm_topk_prob
	RoutedScale       float64 // routed_scaling_factor

	EOS []int32 // eos_token_id: generation_config.json's if it has any, else config.json's
	Pad int32   // pad_token_id; -1 when absent

	Generation Generation
	Quant      Quant

	Next *Next // what only glm5_next has; nil otherwise

	refusal *UnsupportedError // first field that reads well but cannot be run
}

// Rope is the rotary position embedding, without any scaling: no published GLM
// MoE model has one.
type Rope struct {
	Theta       float64 // rope_theta, at the top level or in rope_parameters
	Dims        int     // rotated dims per head: qk_rope_head_dim, or head_dim*partial_rotary_factor; 0: none
	Interleaved bool    // pairs are (2i, 2i+1) if true (MLA and indexer), else (i, i+Dims/2) (GQA)
}

// Index is the sparse-attention indexer.
type Index struct {
	Heads    int    // index_n_heads
	HeadDim  int    // index_head_dim
	TopK     int    // index_topk: keys kept per query
	Full     []bool // per layer, true: runs its indexer; false: reuses the selection of the nearest earlier full layer
	ShareMTP bool   // index_share_for_mtp_iteration: draft steps after the first reuse the first one's selection
}

// Generation is generation_config.json: the sampling that the vendor recommends.
// A nil pointer means that the file does not say.
type Generation struct {
	EOS               []int32 // eos_token_id, one or a list
	DoSample          *bool
	Temperature       *float64
	TopP              *float64
	TopK              *int
	MinP              *float64
	RepetitionPenalty *float64
}

// Quant is quantization_config. It is a declaration: how a tensor is stored is
// decided by the tensor and the scale beside it.
type Quant struct {
	Method string    // quant_method: "fp8", "compressed-tensors", or "" when absent
	Scale  ScaleKind // the scale that the declaration implies for linear weights
}

// Next is what glm5_next adds: linear attention, hyper-connections, a pooled
// indexer, clamped SwiGLU and a vision tower.
type Next struct {
	Linear        []bool  // per layer, true: KDA linear attention; false: MLA (layer_types)
	LinearHeads   int     // linear_attn_config.num_heads
	LinearHeadDim int     // linear_attn_config.head_dim
	ConvKernel    int     // linear_attn_config.short_conv_kernel_size
	HCMult        int     // hc_mult: residual streams
	KPool         int     // index_kpool: tokens per pooled indexer key
	SwiGLULimit   float64 // swiglu_limit
	Vision        *Vision // vision_config; nil in a text-only file
}

// Vision is the vision tower of glm5_next.
type Vision struct {
	Depth                  int // depth
	Hidden                 int // hidden_size
	Intermediate           int // intermediate_size
	Heads                  int // num_heads
	Channels               int // in_channels
	Patch                  int // patch_size
	TemporalPatch          int // temporal_patch_size
	Merge                  int // spatial_merge_size
	OutHidden              int // out_hidden_size
	ProjectionIntermediate int // projection_intermediate_size
}

// MLA reports whether the family caches a compressed latent (multi-head latent
// attention) rather than keys and values.
func (c *Config) MLA() bool { return c.Family != GLM4Moe }

// SparseLayer reports whether layer i has a mixture of experts. MTP layers, at
// Layers and above, always do.
func (c *Config) SparseLayer(i int) bool { return i >= c.Layers || c.Sparse[i] }

// IndexLayer reports whether layer i runs an indexer of its own. MTP layers of
// a family with an indexer always do.
func (c *Config) IndexLayer(i int) bool {
	if i >= c.Layers {
		return c.Index.TopK > 0
	}
	return i < len(c.Index.Full) && c.Index.Full[i]
}

// LinearLayer reports whether layer i is a KDA linear-attention layer.
func (c *Config) LinearLayer(i int) bool { return c.Next != nil && i < c.Layers && c.Next.Linear[i] }

// Runnable returns nil if this module can run the model, or an
// *UnsupportedError with the first field that it cannot honour. Such a Config
// still gives an inventory.
func (c *Config) Runnable() error {
	if c.refusal == nil {
		return nil
	}
	return c.refusal
}

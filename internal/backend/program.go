package backend

// Program is the forward graph of a model: its operations in order.
type Program []Op

// Op is one operation. Rows are those of the step; every operand is [R, width]
// unless its comment says otherwise.
type Op interface{ op() }

// Rope describes rotary position embedding over Dim elements. The angles follow
// the published arithmetic, every step rounded to f32 because far positions
// multiply the difference:
//
//	angle_i = position * (1 / Theta^(2i/Dim)), i in [0, Dim/2)
//
// with the quotient, the power, its reciprocal and the product each rounded;
// cosine and sine are those of the rounded angle.
type Rope struct {
	Dim   int
	Theta float64
}

// Embed copies rows of the embedding table: Dst[r] = Table[ids[r]].
type Embed struct {
	Table Weight // [vocab, H]
	Dst   Buffer // [R, H]
}

// MLAProject normalises the hidden state and makes what MLA and the indexer
// need of it:
//
//	x  = RMSNorm(h)
//	cq = RMSNorm(QA x)                      latent eps
//	q  = QB cq, per head [nope | rope], the rope part rotated (interleaved pairs)
//	c, k = KVA x                            first latent, then rope elements
//	plane row = [RMSNorm(c) | rotated k]    latent eps; k is not normalised
type MLAProject struct {
	H                                Buffer
	Norm, QA, QNorm, QB, KVA, KVNorm Weight
	Eps, LatentEps                   float32
	Heads, Nope, Latent              int
	Rope                             Rope
	Plane                            int    // width Latent + Rope.Dim
	X                                Buffer // [R, H]
	CQ                               Buffer // [R, q latent]
	Q                                Buffer // [R, Heads*(Nope+Rope.Dim)]
}

// IndexProject makes the indexer's queries, keys and head weights:
//
//	qI = WQB cq, per head [rope | rest], the rope part rotated (interleaved)
//	kI = LayerNorm(WK x), with weight and bias, eps 1e-6; first Rope.Dim rotated
//	wI = (WeightsProj x) * Heads^(-1/2)     any sign
type IndexProject struct {
	X, CQ                                  Buffer
	WQB, WK, KNorm, KNormBias, WeightsProj Weight
	Heads, HeadDim                         int
	Rope                                   Rope
	Plane                                  int    // width HeadDim
	Q                                      Buffer // [R, Heads*HeadDim]
	W                                      Buffer // [R, Heads]
}

// IndexNormEps is the epsilon of the indexer's LayerNorm, fixed in the published models.
const IndexNormEps = 1e-6

// IndexSelect scores every visible key of every row,
//
//	score(t) = sum over heads of wI * relu(qI . kI(t) * HeadDim^(-1/2)),
//
// and keeps the K best: larger score first, then lower position; -0 equals +0;
// NaN never wins, and fails the row, because a visible key was never written.
// Everything visible is kept, unscored, if that is at most K.
// Positions are stored ascending.
type IndexSelect struct {
	Q, W           Buffer
	Heads, HeadDim int
	Plane          int
	K              int
	Dst            Selection
}

// MLAAttend attends over the row's selection, or over all visible keys when
// Sel is zero. With a_h = W_uk[h]^T q_nope and one latent row c, k per key:
//
//	score_t = (a_h . c_t + q_rope . k_t) * Scale
//	o_h     = W_uv[h] (sum over t of softmax(score)_t c_t)
//
// With Expand, rows that share their keys may do so as K_t = W_uk[h] c_t and
// V_t = W_uv[h] c_t instead, which is the same but for rounding.
type MLAAttend struct {
	Q                    Buffer
	Sel                  Selection // zero: dense
	KVB                  Weight    // from LoadKVB
	Plane                int
	Heads, Nope, Rope, V int
	Latent               int
	Scale                float32
	Expand               bool
	Dst                  Buffer // [R, Heads*V]
}

// GQAProject normalises the hidden state and makes queries, keys and values:
//
//	x = RMSNorm(h);  q, k, v = Q x + bias, K x + bias, V x + bias
//	q, k per head RMSNorm'ed when QNorm is set, then their first Rope.Dim
//	elements rotated (half-split pairs i, i+Dim/2)
type GQAProject struct {
	H                       Buffer
	Norm, Q, K, V           Weight
	QBias, KBias, VBias     Weight // zero: none
	QNorm, KNorm            Weight // zero: none
	Eps                     float32
	Heads, KVHeads, HeadDim int
	Rope                    Rope
	KPlane, VPlane          int    // width KVHeads*HeadDim
	X                       Buffer // [R, H]
	Dst                     Buffer // [R, Heads*HeadDim]
}

// GQAAttend attends over all visible keys; query head i reads key head
// i / (Heads/KVHeads).
type GQAAttend struct {
	Q                       Buffer
	KPlane, VPlane          int
	Heads, KVHeads, HeadDim int
	Scale                   float32
	Dst                     Buffer // [R, Heads*HeadDim]
}

// Linear computes Dst = W x + Bias, or adds that to Dst.
type Linear struct {
	X    Buffer
	W    Weight
	Bias Weight // zero: none
	Dst  Buffer
	Add  bool
}

// MLP computes SwiGLU over the normalised hidden state:
// y = Down(silu(g) * u), g = Gate x, u = Up x, x = RMSNorm(h).
// Clamp > 0 bounds g from above and u from both sides first.
type MLP struct {
	H                    Buffer
	Norm, Gate, Up, Down Weight
	Eps, Clamp           float32
	Dst                  Buffer
	Add                  bool
}

// Route normalises the hidden state and chooses experts:
//
//	x = RMSNorm(h);  s = sigmoid(Gate x), f32 throughout
//	chosen = the K largest of s + Bias: larger first, then lower id; NaN never wins
//	weight_j = s_j (without the bias), divided by (sum of the K weights + 1e-20)
//	when Renorm, then multiplied by Scale
type Route struct {
	H          Buffer
	Norm       Weight
	Gate, Bias Weight // [experts, H], [experts]
	Eps        float32
	K          int
	Renorm     bool
	Scale      float32
	X          Buffer // [R, H]
	Dst        Plan
}

// SharedExpert is an MLP over an already normalised x.
type SharedExpert struct {
	X              Buffer
	Gate, Up, Down Weight
	Clamp          float32
	Dst            Buffer
	Add            bool
}

// Experts computes y = sum over the row's chosen experts of weight * MLP_e(x),
// added in the order of the selection.
type Experts struct {
	X              Buffer
	Plan           Plan
	Gate, Up, Down []Weight // one per expert
	Clamp          float32
	Dst            Buffer
	Add            bool
}

// FinalNorm computes Dst = RMSNorm(h) and checks each row for non-finite values.
type FinalNorm struct {
	H    Buffer
	Norm Weight
	Eps  float32
	Dst  Buffer
}

// Logits computes the logits of the out rows; ids at or above Valid become -inf.
type Logits struct {
	N     Buffer
	Head  Weight // [vocab, H]
	Valid int    // ids the tokenizer knows
	Dst   Buffer // [O, vocab]
}

// AdjustLogits applies the step's penalties, biases and masks in place.
type AdjustLogits struct{ L Buffer } // [O, vocab]

// Sample draws one id per out row.
type Sample struct{ L Buffer } // [O, vocab]

func (*Embed) op()        {}
func (*MLAProject) op()   {}
func (*IndexProject) op() {}
func (*IndexSelect) op()  {}
func (*MLAAttend) op()    {}
func (*GQAProject) op()   {}
func (*GQAAttend) op()    {}
func (*Linear) op()       {}
func (*MLP) op()          {}
func (*Route) op()        {}
func (*SharedExpert) op() {}
func (*Experts) op()      {}
func (*FinalNorm) op()    {}
func (*Logits) op()       {}
func (*AdjustLogits) op() {}
func (*Sample) op()       {}

package main

import (
	"errors"
	"math"
	"testing"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/bench/machine"
	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/internal/decoder"
)

// small is a model with an indexer that keeps 16 keys.
const small = `{
  "model_type": "glm_moe_dsa", "num_hidden_layers": 2, "first_k_dense_replace": 1, "vocab_size": 96,
  "hidden_size": 128, "intermediate_size": 256, "moe_intermediate_size": 64,
  "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 64, "kv_lora_rank": 64,
  "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 64,
  "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
  "scoring_func": "sigmoid", "topk_method": "noaux_tc", "norm_topk_prob": true, "routed_scaling_factor": 2.5,
  "rms_norm_eps": 1e-05, "hidden_act": "silu", "rope_parameters": {"rope_theta": 10000, "rope_type": "default"},
  "rope_interleave": true, "indexer_rope_interleave": true, "max_position_embeddings": 4096,
  "index_n_heads": 4, "index_head_dim": 64, "index_topk": 16, "indexer_types": ["full", "full"],
  "attention_bias": false, "tie_word_embeddings": false
}`

func open(t *testing.T, kv backend.KVFormat) *model {
	t.Helper()
	m, err := openModel(small, synthetic.BF16, kv, 2, 1024)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// One token reads every weight of the inventory once, of the routed experts its
// share, of the embedding a row; and the keys that it sees.
func TestCostOfOneToken(t *testing.T) {
	m := open(t, backend.KVBF16)
	const context = 100
	s := m.step(1, 1, context)
	if _, err := m.run(m.Program, s); err != nil {
		t.Fatal(err)
	}
	c := &m.ck.Config
	want, products := 0.0, 0.0
	for e := range checkpoint.Inventory(c, checkpoint.LayoutBF16) {
		bytes, elements := float64(e.Bytes()), float64(e.Elements())
		switch {
		case e.Kind == checkpoint.KindNorm || len(e.Shape) == 1:
			continue
		case e.Kind == checkpoint.KindEmbedding:
			want += bytes / float64(c.Vocab)
			continue
		case e.Routed:
			bytes, elements = bytes*float64(c.TopK)/float64(c.Experts), elements*float64(c.TopK)/float64(c.Experts)
		}
		want += bytes
		products += elements
	}
	got := m.cost(m.Program, s)
	if math.Abs(got.Weights-want) > 1e-6*want {
		t.Errorf("%.0f bytes of weights, want %.0f", got.Weights, want)
	}
	if got.Experts != 2 {
		t.Errorf("%d experts, want those of one layer's token, 2", got.Experts)
	}
	// Two layers: all index keys, 16 latent rows.
	keys := 2.0 * 2 * (context*64 + 16*(64+32))
	if got.Keys != keys {
		t.Errorf("%.0f bytes of keys, want %.0f", got.Keys, keys)
	}
	flops := 2 * (products + 2*(context*4*64+16*4*(64+32+64)))
	if math.Abs(got.Flops-flops) > 1e-6*flops {
		t.Errorf("%.0f operations, want %.0f", got.Flops, flops)
	}
}

func TestReads(t *testing.T) {
	s := &backend.Step{QStart: []int32{0, 3, 4}, KVLen: []int32{20, 5}, Seq: []int32{0, 0, 0, 1}, Pos: []int32{17, 18, 19, 4}}
	for _, c := range []struct {
		limit       int
		scored      bool
		keys, pairs float64
	}{
		{0, false, 20 + 5, 18 + 19 + 20 + 5},
		{18, false, 18 + 5, 18 + 18 + 18 + 5},
		{18, true, 20, 19 + 20},
	} {
		if keys, pairs := reads(s, c.limit, c.scored); keys != c.keys || pairs != c.pairs {
			t.Errorf("limit %d, scored %v: %g keys, %g pairs, want %g and %g", c.limit, c.scored, keys, pairs, c.keys, c.pairs)
		}
	}
}

// A batch and the indexer run, and what is made of their results adds up.
func TestCasesRun(t *testing.T) {
	m := open(t, backend.KVF32)
	meter, err := machine.NewMeter(2)
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	var cases []*testCase
	for _, batch := range []int{1, 4} {
		cases = append(cases, &testCase{name: "batch", batch: batch, rows: 1, context: 100, program: m.Program})
	}
	results, err := m.measure(meter, cases, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	shares := batchShares(results)
	if len(shares) != 1 || shares[0].Batch != 4 {
		t.Fatalf("%+v", shares)
	}
	a, b := results[0], results[1]
	if b.Experts < a.Experts || b.Experts > 4*a.Experts || b.KeyBytes != 4*a.KeyBytes {
		t.Errorf("one reads %d experts and %.0f bytes of keys, four %d and %.0f", a.Experts, a.KeyBytes, b.Experts, b.KeyBytes)
	}
	// In terms of time: what four take over what one takes, by bytes.
	if want := a.Seconds / b.Seconds * (b.WeightBytes + b.KeyBytes) / (a.WeightBytes + a.KeyBytes); math.Abs(shares[0].Share-want) > 1e-9*want {
		t.Errorf("share %g, want %g", shares[0].Share, want)
	}

	defer func(old []int) { indexContexts = old }(indexContexts)
	indexContexts = []int{512, 1024}
	if cases, err = m.indexerCases(1 << 20); err != nil || len(cases) != 4 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	if results, err = m.measure(meter, cases, 1, 0); err != nil {
		t.Fatal(err)
	}
	costs := indexCosts(results)
	if len(costs) != 2 || costs[1].Context != 1024 || costs[0].Growth != 0 || costs[0].Layer <= 0 {
		t.Errorf("%+v", costs)
	}
}

func TestIndexerNeedsOne(t *testing.T) {
	m := &model{Model: &decoder.Model{}}
	if _, err := m.indexerCases(4096); !errors.Is(err, errNoIndexer) {
		t.Errorf("error %v, want %v", err, errNoIndexer)
	}
}

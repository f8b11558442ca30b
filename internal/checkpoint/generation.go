package checkpoint

import "math"

// ParseGeneration reads the text of generation_config.json into c: the sampling
// that the vendor recommends, and the end-of-sequence ids, which then replace
// those of config.json.
func (c *Config) ParseGeneration(data []byte) error {
	m, e := parseObject(data)
	if e != nil {
		return e.in(generationFile, 0)
	}
	f := fields{m: m, faults: &faults{}}
	g := Generation{
		EOS:               f.ids("eos_token_id", c.Vocab),
		Temperature:       f.numPtr("temperature", 0, 100),
		TopP:              f.numPtr("top_p", 0, 1),
		MinP:              f.numPtr("min_p", 0, 1),
		RepetitionPenalty: f.numPtr("repetition_penalty", 0, 100),
	}
	if f.has("do_sample") {
		b := f.optBool("do_sample", false)
		g.DoSample = &b
	}
	if f.has("top_k") {
		k := f.optInt("top_k", 0, 0, math.MaxInt32)
		g.TopK = &k
	}
	if f.faults.err != nil {
		e := *f.faults.err
		e.Field = generationFile + ": " + e.Field
		return &e
	}
	c.Generation = g
	if len(g.EOS) > 0 {
		c.EOS = g.EOS
	}
	return nil
}

// numPtr reads a number of [lo, hi], nil if absent.
func (f fields) numPtr(name string, lo, hi float64) *float64 {
	v, ok := f.get(name)
	if !ok {
		return nil
	}
	x, ok := toFloat(v)
	if !ok || x < lo || x > hi {
		f.fail(name, v, "a number from "+show(lo)+" to "+show(hi))
		return nil
	}
	return &x
}

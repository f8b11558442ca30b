package checkpoint

import (
	"fmt"
	"slices"
	"strings"
)

// table is every tensor of a checkpoint by name.
type table struct {
	layout *layout
	byName map[string]*stored
	root   string // what names of the text model start with in these files, if not as usual
}

func newTable(l *layout) *table {
	return &table{layout: l, byName: make(map[string]*stored)}
}

// add takes the tensors of shard i, and holds them against the index.
func (t *table) add(i int, tensors []stored) error {
	shard := t.layout.shards[i]
	for j := range tensors {
		x := &tensors[j]
		x.shard = i
		if other, dup := t.byName[x.name]; dup {
			return &CheckpointError{
				File: shard, Tensor: x.name, Offset: x.begin, Want: "one copy", Have: "another in " + t.layout.shards[other.shard],
			}
		}
		if t.layout.where != nil && t.layout.where[x.name] != shard {
			have := t.layout.where[x.name]
			if have == "" {
				have = "no file"
			}
			return &CheckpointError{File: shard, Tensor: x.name, Offset: x.begin, Want: "this file in " + indexFile, Have: have}
		}
		t.byName[x.name] = x
	}
	return nil
}

// read takes in every shard. open returns a file's header and size.
func (t *table) read(open func(name string) (header []byte, size int64, err error)) error {
	for i, shard := range t.layout.shards {
		header, size, err := open(shard)
		if err != nil {
			return err
		}
		tensors, err := parseHeader(shard, header, size)
		if err != nil {
			return err
		}
		if err := t.add(i, tensors); err != nil {
			return err
		}
	}
	if err := t.complete(); err != nil {
		return err
	}
	t.layout.where = nil // megabytes of names, now in byName
	return nil
}

// complete checks that every tensor of the index was found in its file.
func (t *table) complete() error {
	var missing []string
	for name := range t.layout.where {
		if t.byName[name] == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	name := slices.Min(missing)
	return &CheckpointError{File: t.layout.where[name], Tensor: name, Offset: -1, Want: "the tensor that " + indexFile + " puts here", Have: "absent"}
}

// check holds the tensors against the configuration: every one that it asks for
// is there, has its shape and an acceptable type, and nothing else is there.
func (t *table) check(c *Config) error {
	if _, ok := t.byName[nextRoot+"embed_tokens.weight"]; c.Family == GLM5Next && !ok {
		t.root = "model." // text-only files
	}
	c = t.withDrafts(c)
	drafts := t.draftLayers(c)
	for w := range weights(c) {
		if w.layer >= c.Layers && !drafts[w.layer] {
			continue
		}
		x := t.find(w.name)
		if x == nil {
			return &CheckpointError{File: t.layout.file, Tensor: w.name, Offset: -1, Want: fmt.Sprintf("a tensor of shape %v", w.shape), Have: "absent"}
		}
		if err := t.checkWeight(x, w); err != nil {
			return err
		}
	}
	for w := range extras(c) {
		if x := t.find(w.name); x != nil {
			if err := t.checkWeight(x, w); err != nil {
				return err
			}
		}
	}
	return t.checkNothingElse()
}

// find returns a tensor by the name that the inventory gives it.
func (t *table) find(name string) *stored {
	if rest, ok := strings.CutPrefix(name, nextRoot); ok && t.root != "" {
		name = t.root + rest
	}
	return t.byName[name]
}

// maxDrafts bounds the MTP layers that are accepted without being declared.
const maxDrafts = 8

// withDrafts returns c with the MTP layers that are stored and not declared: some
// configurations leave num_nextn_predict_layers out.
func (t *table) withDrafts(c *Config) *Config {
	all := *c
	for all.MTPLayers < maxDrafts && t.find(fmt.Sprintf("%slayers.%d.eh_proj.weight", textRoot(c), c.Layers+all.MTPLayers)) != nil {
		all.MTPLayers++
	}
	return &all
}

// draftLayers returns the MTP layers of which any tensor is there: a layer is
// stored whole or not at all.
func (t *table) draftLayers(c *Config) map[int]bool {
	there := make(map[int]bool)
	for i := c.Layers; i < c.Layers+c.MTPLayers; i++ {
		there[i] = t.hasLayer(c, i)
	}
	return there
}

func (t *table) hasLayer(c *Config, i int) bool {
	root := textRoot(c)
	if t.root != "" {
		root = t.root
	}
	prefix := fmt.Sprintf("%slayers.%d.", root, i)
	for name := range t.byName {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func (t *table) checkWeight(x *stored, w weight) error {
	fault := func(x *stored, want, have string) error {
		return &CheckpointError{File: t.layout.shards[x.shard], Tensor: x.name, Offset: x.begin, Want: want, Have: have}
	}
	x.used = true
	if !slices.Equal(x.shape, w.shape) {
		return fault(x, fmt.Sprintf("shape %v", w.shape), fmt.Sprint(x.shape))
	}
	switch {
	case w.store == storeF32 && x.dtype != F32:
		return fault(x, "F32", string(x.dtype))
	case w.store == storeBF16 && x.dtype == F8:
		return fault(x, "BF16, F16 or F32", string(x.dtype))
	}
	block, channel := t.byName[x.name+scaleBlockSuffix], t.byName[x.name+scaleChannelSuffix]
	switch {
	case x.dtype != F8 && block != nil:
		return fault(block, "an F8_E4M3 weight beside it", string(x.dtype))
	case x.dtype != F8 && channel != nil:
		return fault(channel, "an F8_E4M3 weight beside it", string(x.dtype))
	case x.dtype != F8:
		return nil
	case block != nil && channel != nil:
		return fault(x, "one scale tensor", "both "+scaleBlockSuffix+" and "+scaleChannelSuffix)
	case block == nil && channel == nil:
		return fault(x, "a scale tensor beside F8_E4M3", "none")
	}
	rows, cols := x.shape[0], x.shape[1]
	var ok bool
	var want string
	if block != nil {
		x.scale, x.kind = block, ScaleBlock128
		grid := []int{ceilDiv(rows, Block), ceilDiv(cols, Block)}
		ok, want = slices.Equal(block.shape, grid), fmt.Sprintf("shape %v", grid)
	} else {
		x.scale, x.kind = channel, ScaleChannel
		flat, column := []int{rows}, []int{rows, 1}
		ok = slices.Equal(channel.shape, flat) || slices.Equal(channel.shape, column)
		want = fmt.Sprintf("shape %v or %v", column, flat)
	}
	x.scale.used = true
	if !ok {
		return fault(x.scale, want, fmt.Sprint(x.scale.shape))
	}
	if x.scale.dtype != F32 && x.scale.dtype != BF16 {
		return fault(x.scale, "F32 or BF16", string(x.scale.dtype))
	}
	return nil
}

// checkNothingElse reports the first tensor by name that nothing accounts for.
func (t *table) checkNothingElse() error {
	var first *stored
	for _, x := range t.byName {
		if !x.used && (first == nil || x.name < first.name) {
			first = x
		}
	}
	if first == nil {
		return nil
	}
	return &CheckpointError{
		File: t.layout.shards[first.shard], Tensor: first.name, Offset: first.begin,
		Want: "tensors that config.json asks for", Have: fmt.Sprintf("another, %s %v", first.dtype, first.shape),
	}
}

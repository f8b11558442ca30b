package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

// brokenText are files that are missing or no JSON, where JSON is expected.
func brokenText(t testing.TB) []broken {
	var out []broken
	good := baseline(t).files(t)
	add := func(name, file, text string) {
		files := maps.Clone(good)
		files[file] = []byte(text)
		out = append(out, broken{name: "text " + name, files: files, file: file})
	}
	config := string(good[configFile])
	add("empty", configFile, "")
	add("cut short", configFile, config[:len(config)/2])
	add("list", configFile, "["+config+"]")
	add("null", configFile, "null")
	add("two objects", configFile, config+config)
	add("duplicate key", configFile, strings.Replace(config, `{`, `{"hidden_size":160,`, 1))
	add("duplicate key deep inside", configFile, strings.Replace(config, `{`, `{"unknown":{"a":[{"b":1,"b":2}]},`, 1))
	add("broken UTF-8", configFile, strings.Replace(config, "silu", "si\xfflu", 1))
	add("NaN", configFile, strings.Replace(config, `{`, `{"unknown":NaN,`, 1))
	add("deep lists", configFile, strings.Replace(config, `{`, `{"unknown":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+`,`, 1))
	add("deep objects", configFile, strings.Replace(config, `{`, `{"unknown":`+strings.Repeat(`{"a":`, 40)+"1"+strings.Repeat("}", 40)+`,`, 1))
	add("far too deep", configFile, strings.Repeat("[", 1<<20))
	add("too long", configFile, config+strings.Repeat(" ", maxConfigBytes))
	add("generation cut short", generationFile, `{"eos_token_id":`)
	add("generation list", generationFile, `[]`)

	files := maps.Clone(good)
	delete(files, configFile)
	out = append(out, broken{name: "no config.json", files: files, file: configFile})
	files = maps.Clone(files)
	files[configFile+"/"] = nil
	out = append(out, broken{name: "config.json is a directory", files: files, file: configFile})
	return out
}

// brokenHeaders are safetensors files that break their own format.
func brokenHeaders(t testing.TB) []broken {
	var out []broken
	config := mustJSON(t, tinyDSA())
	file := func(name, tensor string, data []byte) {
		out = append(out, broken{name: "file " + name, file: singleFile, tensor: tensor,
			files: map[string][]byte{configFile: config, singleFile: data}})
	}
	good := baseline(t).files(t)[singleFile]
	length := func(n uint64) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, n), good[8:]...)
	}
	file("empty", "", nil)
	file("of 7 bytes", "", good[:7])
	file("of 8 bytes", "", good[:8])
	file("header length 0", "", length(0))
	file("header length 1", "", length(1))
	file("header longer than the file", "", length(uint64(len(good))-7))
	file("header length 2^63", "", length(1<<63))
	file("header length 2^64-1", "", length(math.MaxUint64))
	file("header cut", "", length(1000))
	file("one byte short", "", good[:len(good)-1])
	file("half", "model.layers.2.self_attn.q_a_proj.weight", nil) // filled in below
	file("one byte long", "", append(slices.Clone(good), 0))

	// Headers of one tensor, written out.
	header := func(name, tensor, text string, dataLen int) {
		file("header "+name, tensor, rawSafetensors([]byte(text), make([]byte, dataLen)))
	}
	const x = "a.weight"
	entry := func(dtype, shape, offsets string) string {
		return fmt.Sprintf(`{"%s":{"dtype":%s,"shape":%s,"data_offsets":%s}}`, x, dtype, shape, offsets)
	}
	header("no object", "", `["a.weight"]`, 0)
	header("leading space", "", ` {}`, 0)
	header("no JSON", "", `{"a.weight":`, 0)
	header("text after", "", `{} {}`, 0)
	header("broken UTF-8", "", "{\"\xff\":{}}", 0)
	header("entry no object", x, `{"a.weight":[4]}`, 0)
	header("entry empty", x, `{"a.weight":{}}`, 0)
	header("no dtype", x, `{"a.weight":{"shape":[1],"data_offsets":[0,4]}}`, 4)
	header("no shape", x, `{"a.weight":{"dtype":"F32","data_offsets":[0,4]}}`, 4)
	header("no offsets", x, `{"a.weight":{"dtype":"F32","shape":[1]}}`, 4)
	header("unknown key", x, `{"a.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"strides":[1]}}`, 4)
	header("key twice", x, `{"a.weight":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}}`, 4)
	header("tensor twice", "", `{"a.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a.weight":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8)
	header("dtype a number", x, entry("32", "[1]", "[0,4]"), 4)
	for _, d := range []string{"F64", "I32", "U8", "BOOL", "F8_E5M2", "f32", ""} {
		header("dtype "+d, x, entry(`"`+d+`"`, "[1]", "[0,4]"), 4)
	}
	header("shape no list", x, entry(`"F32"`, "1", "[0,4]"), 4)
	header("shape negative", x, entry(`"F32"`, "[-1,-1]", "[0,4]"), 4)
	header("shape fraction", x, entry(`"F32"`, "[1.0]", "[0,4]"), 4)
	header("shape word", x, entry(`"F32"`, `["1"]`, "[0,4]"), 4)
	header("shape that overflows", x, entry(`"F32"`, "[4294967296,4294967296]", "[0,0]"), 0)
	header("shape that wraps to 4 bytes", x, entry(`"F32"`, "[9223372036854775807,9223372036854775807]", "[0,4]"), 4)
	header("shape beyond 64 bits", x, entry(`"F32"`, "[18446744073709551617]", "[0,4]"), 4)
	header("rank 9", x, entry(`"F32"`, "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4)
	header("shape null", x, entry(`"F32"`, "null", "[0,4]"), 4)
	header("offsets backwards", x, entry(`"F32"`, "[1]", "[4,0]"), 4)
	header("offsets beyond the file", x, entry(`"F32"`, "[2]", "[0,8]"), 4)
	header("offsets far beyond the file", x, entry(`"F32"`, "[2]", "[9223372036854775799,9223372036854775807]"), 4)
	header("offsets beyond 64 bits", x, entry(`"F32"`, "[1]", "[0,18446744073709551620]"), 4)
	header("offsets negative", x, entry(`"F32"`, "[2]", "[-4,4]"), 4)
	header("three offsets", x, entry(`"F32"`, "[1]", "[0,4,4]"), 4)
	header("one offset", x, entry(`"F32"`, "[1]", "[4]"), 4)
	header("offsets that do not fit the shape", x, entry(`"F32"`, "[2]", "[0,4]"), 4)
	header("dtype that does not fit the offsets", x, entry(`"F16"`, "[1]", "[0,4]"), 4)
	header("gap at the start", x, entry(`"F32"`, "[1]", "[4,8]"), 8)
	two := func(b string) string {
		return `{"a.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b.weight":{"dtype":"F32","shape":[1],"data_offsets":` + b + `}}`
	}
	header("overlap", "b.weight", two("[2,6]"), 6)
	header("same place", "b.weight", two("[0,4]"), 4)
	header("gap between", "b.weight", two("[8,12]"), 12)
	header("data after the last", "", two("[4,8]"), 9)
	header("metadata a list", "", `{"__metadata__":[]}`, 0)
	header("metadata of numbers", "", `{"__metadata__":{"a":1}}`, 0)
	header("metadata twice", "", `{"__metadata__":{"a":"1","a":"2"}}`, 0)

	// What the generated cases need to know of the good file: which tensor ends
	// last within a half of it, and that one byte short hits the last tensor.
	for i := range out {
		switch out[i].name {
		case "file half":
			half := good[:len(good)/2]
			out[i].files[singleFile], out[i].tensor = half, firstBeyond(t, good, int64(len(half)))
		case "file one byte short":
			out[i].tensor = firstBeyond(t, good, int64(len(good)-1))
		}
	}
	return out
}

// firstBeyond returns the first tensor of a header that ends beyond size.
func firstBeyond(t testing.TB, file []byte, size int64) string {
	t.Helper()
	n := int64(binary.LittleEndian.Uint64(file))
	tensors, err := parseHeader(singleFile, file[8:8+n], int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tensors {
		if x.end > size {
			return x.name
		}
	}
	t.Fatalf("no tensor ends beyond %d", size)
	return ""
}

// brokenTensors are sound files whose tensors are not the configuration's.
func brokenTensors(t testing.TB) []broken {
	var out []broken
	add := func(name, tensor string, f *fixture) {
		out = append(out, broken{name: "tensor " + name, file: singleFile, tensor: tensor, files: f.files(t)})
	}
	for _, name := range []string{
		"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight", "model.layers.0.input_layernorm.weight",
		"model.layers.0.mlp.up_proj.weight", "model.layers.2.mlp.experts.3.down_proj.weight",
		"model.layers.1.mlp.gate.e_score_correction_bias", "model.layers.2.self_attn.indexer.k_norm.bias",
		"model.layers.3.eh_proj.weight", "model.layers.3.self_attn.indexer.weights_proj.weight",
	} {
		f := baseline(t)
		f.drop(t, name)
		if scale := name + scaleBlockSuffix; slices.ContainsFunc(f.tensors, func(p part) bool { return p.name == scale }) {
			f.drop(t, scale)
		}
		add("missing "+name, name, f)
	}
	gqa := newFixture(t, tinyGQA(), LayoutFP8)
	gqa.drop(t, "model.layers.0.self_attn.q_proj.bias")
	add("missing attention bias", "model.layers.0.self_attn.q_proj.bias", gqa)
	gqa = newFixture(t, tinyGQA(), LayoutFP8)
	gqa.drop(t, "model.layers.1.self_attn.k_norm.weight")
	add("missing qk norm", "model.layers.1.self_attn.k_norm.weight", gqa)

	extra := func(name, dtype string, shape ...int) {
		f := baseline(t)
		f.add(name, dtype, shape...)
		add("extra "+name+fmt.Sprint(dtype, shape), name, f)
	}
	extra("something.weight", "F32", 1)
	extra("model.layers.0.mlp.experts.0.up_proj.weight", "BF16", 40, 160) // layer 0 is dense
	extra("model.layers.1.mlp.experts.4.up_proj.weight", "BF16", 40, 160)
	extra("model.layers.4.input_layernorm.weight", "BF16", 160)
	extra("model.layers.0.embed_tokens.weight", "BF16", 70, 160)
	extra("model.layers.0.self_attn.q_proj.bias", "BF16", 64)
	extra("model.layers.01.self_attn.indexer.wk.weight", "BF16", 16, 160)
	extra("model.norm.weight_scale", "F32", 160)
	extra("model.layers.9.self_attn.o_proj.weight_scale_inv", "F32", 2, 1)
	// On the list of accepted ones, but wrong in themselves.
	extra("model.layers.1.self_attn.indexer.wk.weight", "BF16", 160, 16)
	extra("model.layers.1.self_attn.indexer.wq_b.weight", "F8_E4M3", 32, 48)
	extra("model.layers.3.shared_head.head.weight", "BF16", 70, 161)
	extra("model.layers.3.embed_tokens.weight", "F8_E4M3", 70, 160)
	extra("model.rotary_emb.inv_freq", "F32", 8)

	reshape := func(what, name, dtype string, shape ...int) {
		f := baseline(t)
		p := f.tensor(t, name)
		n := DType(dtype).Size()
		for _, d := range shape {
			n *= d
		}
		p.dtype, p.shape, p.data = dtype, shape, make([]byte, n)
		add(what+" "+name, name, f)
	}
	o, kva := "model.layers.0.self_attn.o_proj.weight", "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"
	reshape("transposed", o, "F8_E4M3", 32, 160)
	reshape("flat", o, "F8_E4M3", 160*32)
	reshape("a row too few", "model.embed_tokens.weight", "BF16", 69, 160)
	reshape("empty", "model.norm.weight", "BF16", 0)
	reshape("scalar", "model.norm.weight", "BF16")
	reshape("rank 3", "lm_head.weight", "BF16", 1, 70, 160)
	reshape("BF16", "model.layers.1.mlp.gate.e_score_correction_bias", "BF16", 4)
	reshape("F8", "model.embed_tokens.weight", "F8_E4M3", 70, 160)
	reshape("F8", "model.layers.1.mlp.gate.weight", "F8_E4M3", 4, 160)
	reshape("F8", "model.norm.weight", "F8_E4M3", 160)
	// 144 rows are two blocks; whole division loses the second.
	reshape("scale rows rounded down", kva+scaleBlockSuffix, "F32", 1, 2)
	reshape("scale of one number", kva+scaleBlockSuffix, "F32", 1)
	reshape("scale transposed", "model.layers.0.mlp.gate_proj.weight"+scaleBlockSuffix, "F32", 2, 1)
	reshape("scale in F16", o+scaleBlockSuffix, "F16", 2, 1)
	reshape("scale in F8", o+scaleBlockSuffix, "F8_E4M3", 2, 1)

	f := baseline(t)
	f.drop(t, o+scaleBlockSuffix)
	add("F8 without a scale", o, f)
	f = baseline(t)
	f.add(o+scaleChannelSuffix, "F32", 160, 1)
	add("F8 with two scales", o, f)
	f = baseline(t)
	f.drop(t, o+scaleBlockSuffix)
	f.add(o+scaleChannelSuffix, "F32", 32)
	add("channel scale of the columns", o+scaleChannelSuffix, f)
	f = baseline(t)
	f.drop(t, o+scaleBlockSuffix)
	f.add(o+scaleChannelSuffix, "F32", 1, 160)
	add("channel scale lying down", o+scaleChannelSuffix, f)
	f = baseline(t)
	f.tensor(t, o).dtype, f.tensor(t, o).data = "BF16", make([]byte, 2*160*32)
	add("block scale beside BF16", o+scaleBlockSuffix, f)
	f = newFixture(t, tinyDSA(), LayoutBF16)
	f.add(o+scaleChannelSuffix, "F32", 160, 1)
	add("channel scale beside BF16", o+scaleChannelSuffix, f)
	return out
}

// brokenIndexes are sets of files that do not fit together.
func brokenIndexes(t testing.TB) []broken {
	var out []broken
	good := shardedBaseline(t).files(t)
	first, second, third := shardName(0, 3), shardName(1, 3), shardName(2, 3)
	add := func(name, file, tensor string, change func(files map[string][]byte)) {
		files := maps.Clone(good)
		change(files)
		out = append(out, broken{name: "index " + name, file: file, tensor: tensor, files: files})
	}
	index := func(edit func(string) string) func(map[string][]byte) {
		return func(files map[string][]byte) {
			old := string(files[indexFile])
			text := edit(old)
			if text == old {
				t.Fatal("the edit changed nothing")
			}
			files[indexFile] = []byte(text)
		}
	}
	text := func(s string) func(map[string][]byte) { return index(func(string) string { return s }) }
	const embed = "model.embed_tokens.weight" // in the first shard, as the first tensor
	move := func(to string) func(map[string][]byte) {
		return index(func(s string) string {
			return strings.Replace(s, `"`+embed+`":"`+first+`"`, `"`+embed+`":`+string(mustJSON(t, to)), 1)
		})
	}
	add("no JSON", indexFile, "", text(`{"weight_map":`))
	add("list", indexFile, "", text(`[]`))
	add("without weight_map", indexFile, "", text(`{"metadata":{}}`))
	add("weight_map a list", indexFile, "", text(`{"weight_map":[]}`))
	add("weight_map of numbers", indexFile, "x", text(`{"weight_map":{"x":1}}`))
	add("weight_map empty", indexFile, "model.embed_tokens.weight", text(`{"weight_map":{}}`))
	add("tensor twice", indexFile, "", index(func(s string) string {
		return strings.Replace(s, `"weight_map":{`, `"weight_map":{"`+embed+`":"`+second+`",`, 1)
	}))
	for _, name := range []string{
		"../" + first, "/etc/" + first, "sub/" + first, `..\` + first, `C:\` + first, "C:" + first, "./" + first,
		"", ".", "..", "config.json", first + "\x00.safetensors",
	} {
		add("to "+name, indexFile, embed, move(name))
	}
	add("to an absent file", "gone.safetensors", embed, move("gone.safetensors"))
	add("to the wrong file", first, embed, move(second))
	add("of a tensor that no file has", first, "nowhere.weight", index(func(s string) string {
		return strings.Replace(s, `"weight_map":{`, `"weight_map":{"nowhere.weight":"`+first+`",`, 1)
	}))
	add("that leaves a tensor out", first, embed, index(func(s string) string {
		return strings.Replace(s, `"`+embed+`":"`+first+`",`, "", 1)
	}))
	add("shard absent", third, "", func(files map[string][]byte) { delete(files, third) })
	add("shard a directory", third, "", func(files map[string][]byte) {
		delete(files, third)
		files[third+"/"] = nil
	})
	add("shard empty", second, "", func(files map[string][]byte) { files[second] = nil })
	add("last shard cut", third, "", func(files map[string][]byte) { files[third] = files[third][:len(files[third])-1] })
	add("shards exchanged", first, "", func(files map[string][]byte) {
		files[first], files[second] = files[second], files[first]
	})
	add("tensor in two shards", second, embed, func(files map[string][]byte) {
		f := shardedBaseline(t)
		var mine []part
		for i := 1; i < len(f.tensors); i += 3 {
			mine = append(mine, f.tensors[i])
		}
		files[second] = safetensors(t, append(mine, *f.tensor(t, embed)))
	})
	add("beside a single file", singleFile, "", func(files map[string][]byte) { files[singleFile] = files[first] })

	out = append(out, broken{name: "no weights at all", file: singleFile, files: map[string][]byte{configFile: good[configFile]}})

	// Which tensor is named depends on where tensors fell.
	for i := range out {
		switch out[i].name {
		case "index shard absent":
			out[i].tensor = firstByName(t, good[third])
		case "index last shard cut":
			out[i].tensor = firstBeyond(t, good[third], int64(len(good[third])-1))
		case "index shards exchanged":
			out[i].tensor = firstByPlace(t, good[second])
		}
	}
	return out
}

func names(t testing.TB, file []byte) []string {
	t.Helper()
	n := int64(binary.LittleEndian.Uint64(file))
	tensors, err := parseHeader("x", file[8:8+n], int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, x := range tensors {
		out = append(out, x.name)
	}
	return out
}

func firstByName(t testing.TB, file []byte) string  { return slices.Min(names(t, file)) }
func firstByPlace(t testing.TB, file []byte) string { return names(t, file)[0] }

// brokenScales are values that no header shows.
func brokenScales(t testing.TB) []broken {
	var out []broken
	const name = "model.layers.0.self_attn.kv_a_proj_with_mqa.weight" // [144, 160]: 2 by 2 blocks
	scale := func(what string, i int, v float32) {
		f := baseline(t)
		copy(f.tensor(t, name+scaleBlockSuffix).data[4*i:], le32(v))
		out = append(out, broken{name: "scale " + what, file: singleFile, tensor: name + scaleBlockSuffix, late: name, files: f.files(t)})
	}
	scale("NaN", 0, float32(math.NaN()))
	scale("infinite", 1, float32(math.Inf(1)))
	scale("negative infinite", 2, float32(math.Inf(-1)))
	scale("negative", 3, -1)
	scale("that overflows", 3, math.MaxFloat32/400)
	scale("zero", 3, 0)
	scale("minus zero", 0, float32(math.Copysign(0, -1)))

	f := newFixture(t, tinyGQA(), LayoutFP8)
	const o = "model.layers.1.self_attn.o_proj.weight"
	copy(f.tensor(t, o+scaleChannelSuffix).data[4*95:], le32(float32(math.NaN())))
	out = append(out, broken{name: "channel scale NaN", file: singleFile, tensor: o + scaleChannelSuffix, late: o, files: f.files(t)})
	return out
}

// A zero scale over a block of zeros erases nothing.
func TestZeroScaleOverZeros(t *testing.T) {
	const name = "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"
	f := baseline(t)
	copy(f.tensor(t, name+scaleBlockSuffix).data[4*3:], le32(0))
	codes := f.tensor(t, name).data
	for r := 128; r < 144; r++ {
		copy(codes[r*160+128:r*160+160], bytes.Repeat([]byte{0x80}, 32)) // minus zero
	}
	c, err := OpenFS(mapFS(f.files(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Tensor(name); err != nil {
		t.Error(err)
	}
}

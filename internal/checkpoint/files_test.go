package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// oddFS serves one file whose content is not what its size says.
type oddFS struct {
	fstest.MapFS
	name string
	read func(f fs.File) io.Reader
}

type oddFile struct {
	fs.File
	r io.Reader
}

func (f oddFile) Read(b []byte) (int, error) { return f.r.Read(b) }

func (o oddFS) Open(name string) (fs.File, error) {
	f, err := o.MapFS.Open(name)
	if err != nil || name != o.name {
		return f, err
	}
	return oddFile{f, o.read(f)}, nil
}

var errDisk = errors.New("disk on fire")

// Files that end early, go on, or fail while they are copied.
func TestCopyFaults(t *testing.T) {
	files := baseline(t).files(t)
	size := int64(len(files[singleFile]))
	for _, c := range []struct {
		name   string
		offset int64
		read   func(f fs.File) io.Reader
		cause  error
	}{
		{"short", size - 10, func(f fs.File) io.Reader { return io.LimitReader(f, size-10) }, nil},
		{"empty", 0, func(f fs.File) io.Reader { return io.LimitReader(f, 0) }, nil},
		{"long", size, func(f fs.File) io.Reader { return io.MultiReader(f, io.LimitReader(zeros{}, 1)) }, nil},
		{"failing", 1000, func(f fs.File) io.Reader { return io.MultiReader(io.LimitReader(f, 1000), failing{}) }, errDisk},
		{"failing at the end", size, func(f fs.File) io.Reader { return io.MultiReader(f, failing{}) }, errDisk},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := offheap.InUse()
			_, err := OpenFS(oddFS{mapFS(files), singleFile, c.read})
			var e *CheckpointError
			if !errors.Is(err, ErrCorruptCheckpoint) || !errors.As(err, &e) || e.File != singleFile || e.Offset != c.offset {
				t.Errorf("%v; want %s at byte %d", err, singleFile, c.offset)
			}
			if c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("%v; want it to wrap the cause", err)
			}
			if offheap.InUse() != start {
				t.Errorf("%d bytes left", offheap.InUse()-start)
			}
		})
	}
	for _, name := range []string{configFile, singleFile} {
		_, err := OpenFS(oddFS{mapFS(files), name, func(fs.File) io.Reader { return failing{} }})
		var e *CheckpointError
		if !errors.As(err, &e) || e.File != name || !errors.Is(err, errDisk) {
			t.Errorf("%s: %v; want it named, and the cause", name, err)
		}
	}
	// A configuration longer than its size says is read to its end.
	long := oddFS{mapFS(files), configFile, func(f fs.File) io.Reader { return io.MultiReader(f, io.LimitReader(zeros{}, maxConfigBytes)) }}
	if _, err := OpenFS(long); !errors.Is(err, ErrCorruptCheckpoint) {
		t.Errorf("config.json that goes on for ever: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errDisk }

// Text-only files of glm5_next leave "language_model." out of their names.
func TestTextOnlyNames(t *testing.T) {
	config := tinyNext()
	f := newFixture(t, config, LayoutFP8)
	l, err := Scan(writeFiles(t, f.files(t)))
	if err != nil || !l.Checked() {
		t.Fatalf("%v; want it checked", err)
	}
	want := sumEntries(l)
	for i := range f.tensors {
		f.tensors[i].name = stripLanguageModel(f.tensors[i].name)
	}
	l, err = Scan(writeFiles(t, f.files(t)))
	if err != nil || !l.Checked() {
		t.Fatalf("text-only names: %v; want it checked", err)
	}
	if got := sumEntries(l); got != want {
		t.Errorf("%d bytes under text-only names; want %d", got, want)
	}
	if _, err := Open(writeFiles(t, f.files(t))); !errors.Is(err, ErrUnsupportedModel) {
		t.Errorf("Open: %v; want ErrUnsupportedModel", err)
	}
	f.drop(t, "model.layers.0.self_attn.A_log")
	_, err = Scan(writeFiles(t, f.files(t)))
	var e *CheckpointError
	if !errors.As(err, &e) || e.Tensor != nextRoot+"layers.0.self_attn.A_log" {
		t.Errorf("%v; want A_log missing", err)
	}
}

func stripLanguageModel(name string) string {
	if i := len("model."); len(name) > len(nextRoot) && name[:len(nextRoot)] == nextRoot {
		return name[:i] + name[len(nextRoot):]
	}
	return name
}

func sumEntries(l *Listing) (n int64) {
	for e := range l.Tensors() {
		n += e.Bytes()
	}
	return n
}

// tinyNext is a GLM-5.3-Flash in small, text only.
func tinyNext() map[string]any {
	m := tinyDSA()
	for k, v := range map[string]any{
		"model_type": "glm5_next", "num_hidden_layers": 4, "qk_rope_head_dim": 0, "qk_head_dim": 24,
		"layer_types":   []any{"linear_attention", "linear_attention", "linear_attention", "deepseek_sparse_attention"},
		"indexer_types": []any{"full", "full", "full", "full"}, "hc_mult": 4, "index_kpool": 4, "swiglu_limit": 10.0,
		"linear_attn_config": map[string]any{"num_heads": 2, "head_dim": 16, "short_conv_kernel_size": 4},
	} {
		m[k] = v
	}
	delete(m, "rope_parameters")
	return m
}

// A model whose quantisation is not understood is listed from its configuration.
func TestScanUnknownLayout(t *testing.T) {
	files := baseline(t).files(t)
	files[configFile] = mustJSON(t, quantised(map[string]any{"quant_method": "modelopt"}))
	l, err := Scan(writeFiles(t, files))
	if err != nil || !l.Files || l.Checked() {
		t.Fatalf("%v, %+v; want files that were not checked", err, l)
	}
	var e *UnsupportedError
	if err := l.Config.Runnable(); !errors.As(err, &e) || e.Field != "quantization_config.quant_method" {
		t.Errorf("Runnable: %v", err)
	}
}

// Scan lists what the files hold, down to the extras.
func TestScanTensors(t *testing.T) {
	f := shardedBaseline(t)
	f.add("model.rotary_emb.inv_freq", "F32", 4)
	l, err := Scan(writeFiles(t, f.files(t)))
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for e := range l.Tensors() {
		got = append(got, e.Name)
		if e.Name == "model.rotary_emb.inv_freq" && e.Kind != KindUnused {
			t.Errorf("%s is %q; want %q", e.Name, e.Kind, KindUnused)
		}
	}
	for _, p := range f.tensors {
		want = append(want, p.name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("listed %d tensors; the files hold %d", len(got), len(want))
	}
}

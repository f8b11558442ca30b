package glm

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/decoder"
	"github.com/cofferdam-ml/cofferdam/internal/golden"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// answers opens a model, has it answer and returns the bits of its logits after
// each of a few prompts.
func answers(t *testing.T, dir string, c Config, prompts []golden.Prompt) []uint32 {
	t.Helper()
	m, err := Open(t.Context(), dir, c)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := m.NewKVPool(PoolConfig{Tokens: 2048, AllowSmallerPool: true})
	if err != nil {
		t.Fatal(err)
	}
	var bits []uint32
	for _, prompt := range prompts[:min(2, len(prompts))] {
		if _, err := Collect(p.Generate(t.Context(), "", Request{Tokens: prompt.IDs, MaxTokens: 4, Sampling: &Sampling{}})); err != nil {
			t.Fatal(err)
		}
		for _, l := range m.device.Read(m.graph.Logits, 1) {
			bits = append(bits, math.Float32bits(l))
		}
	}
	return bits
}

// scramble turns every weight that is converted, except where the
// fingerprint looks, and says how many bytes.
func scramble(t *testing.T, dir string, f cpu.Format) (spoilt int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n := binary.LittleEndian.Uint64(b)
		var header map[string]struct {
			Offsets [2]int `json:"data_offsets"`
		}
		if err := json.Unmarshal(b[8:8+n], &header); err != nil {
			t.Fatal(err)
		}
		for name, x := range header {
			if cpu.FormatOf(name, f) == cpu.AsStored {
				continue
			}
			data := b[8+n:][x.Offsets[0]:x.Offsets[1]]
			for i := 256; i < len(data)/2; i++ {
				data[i] ^= 0x80 // a sign in FP8, no number lost in any type
				spoilt++
			}
		}
		// Another file under the same name, as replacing a checkpoint should be done.
		if err := os.WriteFile(path+".new", b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	return spoilt
}

// risingProgress fails the test if progress falls or does not end at its total.
func risingProgress(t *testing.T, c *Config) (check func()) {
	var last Progress
	reports := 0
	c.OnProgress = func(p Progress) {
		if reports++; p.Total <= 0 || p.Done < last.Done || p.Done > p.Total || last.Total != 0 && p.Total != last.Total {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
	}
	return func() {
		t.Helper()
		if reports == 0 || last.Done != last.Total {
			t.Errorf("%d reports of progress, the last %+v", reports, last)
		}
	}
}

// A model from the cache gives the bits of one that was converted, and reads
// nothing of the weights that it was converted from.
func TestWeightsCache(t *testing.T) {
	names, err := golden.Names()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		for _, w := range []Weights{Int8, Int4} {
			t.Run(name+"/"+w.format().String(), func(t *testing.T) {
				g, err := golden.Load(name)
				if err != nil {
					t.Fatal(err)
				}
				start := offheap.InUse()
				dir, cache := filepath.Join(t.TempDir(), "model"), filepath.Join(t.TempDir(), "cache")
				if err := os.CopyFS(dir, os.DirFS(g.Dir)); err != nil {
					t.Fatal(err)
				}
				plain := Config{Weights: w, LatentEps: g.LatentEps}
				want := answers(t, dir, plain, g.Prompts)
				if stored := answers(t, dir, Config{LatentEps: g.LatentEps}, g.Prompts); slices.Equal(stored, want) {
					t.Error("the same bits as with stored weights: nothing was converted")
				}
				c := plain
				c.WeightsCache = cache
				check := risingProgress(t, &c)
				if got := answers(t, dir, c, g.Prompts); !slices.Equal(got, want) {
					t.Error("other bits while the cache is made")
				}
				check()
				files, err := os.ReadDir(cache)
				if err != nil || len(files) != 1 {
					t.Fatalf("%d files in the cache: %v", len(files), err)
				}
				before, err := os.Stat(filepath.Join(cache, files[0].Name()))
				if err != nil {
					t.Fatal(err)
				}
				if n := scramble(t, dir, w.format()); n < 1000 {
					t.Fatalf("only %d bytes of the checkpoint were spoilt", n)
				}
				c.Logger = slog.New(slog.NewTextHandler(failing{t}, nil))
				check = risingProgress(t, &c)
				if got := answers(t, dir, c, g.Prompts); !slices.Equal(got, want) {
					t.Error("other bits from the cache")
				}
				check()
				after, err := os.Stat(filepath.Join(cache, files[0].Name()))
				if err != nil || !os.SameFile(before, after) {
					t.Errorf("the cache was written again: %v", err)
				}
				if got := answers(t, dir, plain, g.Prompts); slices.Equal(got, want) {
					t.Error("the spoilt checkpoint gives the same bits: this test shows nothing")
				}
				if now := offheap.InUse(); now != start {
					t.Errorf("%d bytes left mapped", now-start)
				}
			})
		}
	}
}

// A blob is the same made at once and of parts, whatever the scales.
func TestPackInSlabs(t *testing.T) {
	names, err := golden.Names()
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]int{}
	for _, name := range names {
		g, err := golden.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		ck, err := checkpoint.Open(g.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer ck.Close()
		b := cpu.Open(2)
		defer b.Close()
		s := &survey{format: cpu.Int4}
		if _, err := decoder.Load(s, ck, decoder.Options{Rows: 1, Outs: 1}); err != nil {
			t.Fatal(err)
		}
		for i, w := range s.wanted {
			whole, part := make([]byte, s.blobs[i].Size+cpu.BlobAlign), make([]byte, s.blobs[i].Size+cpu.BlobAlign)
			for slab, dst := range map[int][]byte{1 << 30: whole, 1: part} {
				if err := w.pack(t.Context(), b, ck, dst[:s.blobs[i].Size], slab); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(whole, part) {
				t.Errorf("%s: %s differs when it is made in parts", name, w.name)
			}
			if x, err := ck.Tensor(w.name); err == nil && x.Shape[0] > slabRows && w.heads == 0 {
				parts[string(x.DType)+" "+x.Scale.Kind.String()]++
			}
		}
	}
	for _, kind := range []string{"BF16 none", "F8_E4M3 block128"} {
		if parts[kind] == 0 {
			t.Errorf("no weight of %s had parts: %v", kind, parts)
		}
	}
}

// failing is a log that must stay empty.
type failing struct{ t *testing.T }

func (f failing) Write(line []byte) (int, error) {
	f.t.Errorf("logged: %s", line)
	return len(line), nil
}

// What is wrong with a cache is logged and costs time only.
func TestWeightsCacheFaults(t *testing.T) {
	g, err := golden.Load("glm52")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c := Config{Weights: Int4, LatentEps: g.LatentEps, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	want := answers(t, g.Dir, c, g.Prompts)
	logged := func(what, word string) {
		t.Helper()
		if (word == "") != (log.Len() == 0) || !strings.Contains(log.String(), word) {
			t.Errorf("%s: logged %q; want %q", what, log.String(), word)
		}
		log.Reset()
	}
	c.WeightsCache = t.TempDir()
	again := func(what, word string) {
		t.Helper()
		check := risingProgress(t, &c)
		if got := answers(t, g.Dir, c, g.Prompts); !slices.Equal(got, want) {
			t.Errorf("%s: other bits", what)
		}
		check()
		logged(what, word)
	}
	again("no file", "")
	files, err := filepath.Glob(filepath.Join(c.WeightsCache, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		what, word string
		edit       func(b []byte) []byte
	}{
		{"a flipped bit", "corrupt checkpoint", func(b []byte) []byte { b[len(b)/2] ^= 4; return b }},
		{"half a file", "corrupt checkpoint", func(b []byte) []byte { return b[:len(b)/2] }},
		{"an empty file", "corrupt checkpoint", func([]byte) []byte { return nil }},
		{"a later layout", "made anew", func(b []byte) []byte { b[8]++; return b }},
	} {
		if err := os.WriteFile(files[0], bad.edit(bytes.Clone(b)), 0o600); err != nil {
			t.Fatal(err)
		}
		again(bad.what, bad.word)
		again(bad.what+", mended", "")
	}
	c.WeightsCache = filepath.Join(files[0], "below")
	again("a directory that cannot be", "make directory")
}

// A conversion that is cancelled, or whose source is broken, leaves nothing behind.
func TestWeightsCacheCancel(t *testing.T) {
	before, goroutines := offheap.InUse(), runtime.NumGoroutine()
	dir := t.TempDir()
	reports := 0
	for at := 0; ; at += 1 + at/2 {
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		m, err := OpenFS(ctx, fixtureFiles(), Config{Template: "GLM-5", Weights: Int8, WeightsCache: dir, OnProgress: func(Progress) {
			if seen++; seen == at+1 {
				cancel()
			}
		}})
		cancel()
		if err == nil {
			reports = seen
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			break
		}
		if !errors.Is(err, ErrCanceled) || !errors.Is(err, context.Canceled) || m != nil {
			t.Errorf("report %d: %v", at, err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
			t.Fatalf("report %d: left %v, %v", at, files, err)
		}
	}
	if now := offheap.InUse(); now != before || reports < 10 {
		t.Errorf("%d bytes left mapped, %d reports", now-before, reports)
	}
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines were left", runtime.NumGoroutine()-goroutines)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v; want the cache of the load that went through", files, err)
	}
}

// Weights that do not fit are refused before anything is converted.
func TestWeightsDoNotFit(t *testing.T) {
	have := offheap.Available()
	if have < 0 {
		t.Skip("this system does not say how much memory it has")
	}
	layers := int(have/10e9) + 3 // of 256 experts, 10 GB each in int8
	ck, err := synthetic.Open(t.TempDir(), synthetic.GLM53(layers, 1, 1000))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	start := offheap.InUse()
	m := &Model{ck: ck, device: cpu.Open(1), logger: slog.New(slog.DiscardHandler)}
	defer m.device.Close()
	err = m.convert(t.Context(), Config{Weights: Int8, OnProgress: func(p Progress) { t.Errorf("progress: %+v", p) }}, strings.Repeat("0", 64), decoder.Options{Rows: 1, Outs: 1})
	if e, ok := errors.AsType[*MemoryError](err); !ok || !errors.Is(err, ErrNoMemory) || e.Have <= 0 || e.Need <= e.Have {
		t.Errorf("%v; want a *MemoryError with both numbers", err)
	}
	if now := offheap.InUse(); now != start {
		t.Errorf("%d bytes left mapped", now-start)
	}
}

// Keys that were computed with other weights are of no use to a pool: the formats
// are part of what pools compare.
func TestWeightsAreIdentity(t *testing.T) {
	seen := map[string]Weights{}
	for _, w := range []Weights{AsStored, Int8, Int4} {
		m := openFiles(t, fixtureFiles(), Config{Template: "GLM-5", Weights: w})
		if other, twice := seen[m.device.Name()]; twice {
			t.Errorf("weights %d and %d are both %q", other, w, m.device.Name())
		}
		seen[m.device.Name()] = w
	}
}

package glm

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"sync"

	"github.com/cofferdam-ml/cofferdam/cuda"
	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/checkpoint"
	"github.com/cofferdam-ml/cofferdam/internal/cpu"
	"github.com/cofferdam-ml/cofferdam/internal/decoder"
	"github.com/cofferdam-ml/cofferdam/tokenizer"
	"github.com/cofferdam-ml/cofferdam/tokenizer/chat"
	"github.com/cofferdam-ml/cofferdam/tokenizer/reply"
)

// Config says how to open a model. The zero value runs on the CPU, with the
// weights as they are stored, on GOMAXPROCS threads, and is silent.
type Config struct {
	Device  Device
	Weights Weights
	// WeightsCache is a directory for weights in another format than they are
	// stored in, one file for each checkpoint and format. The first Open converts
	// and writes it; later ones read it, at the speed of the disk, and leave the
	// checkpoint's own alone. The directory is made if it is absent, and its files
	// are for the owner only. A file that is broken or cannot be written is logged,
	// and weights are converted. Empty: every Open converts.
	WeightsCache string
	Threads      int // 0: GOMAXPROCS
	// FastPrefill makes long prompts faster: rows that share their keys expand
	// them. How a row is computed depends on its chunk then, so the same request
	// may give logits that differ by rounding, 1e-4, from one run to another. It
	// does nothing for models without latent attention.
	FastPrefill bool

	// Template names the chat template to render, see chat.Names. Empty: the
	// one that chat_template.jinja is recognised as.
	Template string
	// LatentEps is the epsilon of the MLA latent norms, which no published file
	// states. 0: 1e-5, what production servers use; the public reference
	// implementation uses 1e-6.
	LatentEps float64

	// OnProgress is called while weights are loaded, from Open's goroutine.
	OnProgress func(Progress)
	Logger     *slog.Logger // nil: silent. Never holds prompt or output text
}

// Device is where a model runs.
type Device uint8

const (
	CPU  Device = iota
	CUDA        // ErrNotBuilt
)

// Weights is the format in which weights are computed with.
type Weights uint8

const (
	AsStored Weights = iota
	Int8
	Int4
)

// Progress is how far loading is, in bytes of weights: as they are stored or, if
// they are converted, of what they become.
type Progress struct{ Done, Total int64 }

// Model is an opened checkpoint. Its methods are safe for concurrent use.
type Model struct {
	config   checkpoint.Config
	logger   *slog.Logger
	tokens   *tokenizer.Tokenizer // nil: the checkpoint has none
	renderer *chat.Renderer       // nil: likewise, or no template
	vocab    int                  // ids that can be fed
	valid    int                  // ids that can be sampled
	reads    bool                 // the tokenizer has the tags of replies
	identity identity

	step    sync.Mutex // held while a step runs: one at a time
	ck      *checkpoint.Checkpoint
	device  backend.Backend
	graph   *decoder.Model
	mu      sync.Mutex
	pools   map[*KVPool]struct{}
	closed  bool
	closing chan struct{}
}

// identity is what decides the bytes of a KV row, besides format and geometry.
type identity struct{ weights, tokenizer, rope, eps, numerics string }

const (
	// stepRows is the largest number of rows in a step.
	stepRows = 256
	// stepOuts is the largest number of rows of a step that are sampled.
	stepOuts = 64
	// maxThreads is more than any machine has processors.
	maxThreads = 4096
)

// Open opens the checkpoint in a directory. Weights are mapped, not read.
func Open(ctx context.Context, dir string, c Config) (*Model, error) {
	return OpenFS(ctx, os.DirFS(dir), c)
}

// OpenFS opens a checkpoint in a file system, such as an embedded one; weights
// that are not files of the operating system are copied outside the Go heap.
//
// A model that cannot run is an *UnsupportedError, broken files are a
// *CheckpointError, an unrecognised chat template is a *TemplateError.
func OpenFS(ctx context.Context, fsys fs.FS, c Config) (*Model, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, invalid("ctx", "is nil")
	}
	if fsys == nil {
		return nil, invalid("fsys", "is nil")
	}
	ck, err := checkpoint.OpenFS(fsys)
	if err != nil {
		return nil, err
	}
	m := &Model{
		ck: ck, config: ck.Config, logger: c.Logger, vocab: ck.Config.Vocab, valid: ck.Config.Vocab,
		pools: map[*KVPool]struct{}{}, closing: make(chan struct{}),
	}
	if m.logger == nil {
		m.logger = slog.New(slog.DiscardHandler)
	}
	if err := m.load(ctx, fsys, c); err != nil {
		return nil, errors.Join(err, m.free())
	}
	m.logger.Debug("model opened", "type", string(m.config.Family), "device", m.device.Name(), "weights", m.identity.weights)
	return m, nil
}

func (c *Config) check() error {
	switch {
	case c.Device > CUDA:
		return &UnsupportedError{Field: "Config.Device", Value: strconv.Itoa(int(c.Device)), Supported: "CPU"}
	case c.Device == CUDA:
		_, err := cuda.Open()
		return &DeviceError{Op: "open", Name: "CUDA", Err: err}
	case c.Weights > Int4:
		return &UnsupportedError{Field: "Config.Weights", Value: strconv.Itoa(int(c.Weights)), Supported: "AsStored, Int8, Int4"}
	case c.Threads < 0 || c.Threads > maxThreads:
		return &UnsupportedError{Field: "Config.Threads", Value: strconv.Itoa(c.Threads), Supported: fmt.Sprintf("0 to %d", maxThreads)}
	case !(c.LatentEps >= 0 && c.LatentEps < 1):
		return &UnsupportedError{Field: "Config.LatentEps", Value: fmt.Sprint(c.LatentEps), Supported: "0 to 1"}
	}
	return nil
}

func (m *Model) load(ctx context.Context, fsys fs.FS, c Config) error {
	if c.LatentEps != 0 {
		m.ck.Config.LatentEps = c.LatentEps
	}
	if err := m.loadText(fsys, c.Template); err != nil {
		return err
	}
	if e, bad := errors.AsType[*RequestError](m.defaultSampling().check(m.vocab, m.valid)); bad {
		return &UnsupportedError{Field: "generation_config.json: " + e.Field, Value: e.Reason, Supported: "what a Request may ask for"}
	}
	m.device = cpu.Open(c.Threads)
	weights, err := m.ck.Fingerprint()
	if err != nil {
		return err
	}
	o := decoder.Options{Rows: stepRows, Outs: stepOuts, Valid: m.valid, Expand: c.FastPrefill}
	if c.Weights == AsStored {
		err = m.loadStored(ctx, c, o)
	} else {
		err = m.convert(ctx, c, weights, o)
	}
	if err != nil {
		return err
	}
	cfg := &m.ck.Config
	m.identity = identity{
		weights:   weights,
		tokenizer: fingerprint(m.tokens),
		rope:      fmt.Sprintf("theta %v, %d dims, interleaved %v", cfg.Rope.Theta, cfg.Rope.Dims, cfg.Rope.Interleaved),
		eps:       fmt.Sprintf("%v, latent %v", cfg.RMSEps, cfg.LatentEps),
		numerics:  m.device.Name() + ", absorbed",
	}
	if c.FastPrefill {
		m.identity.numerics = m.device.Name() + ", expanded prefill"
	}
	return nil
}

// loadStored loads weights that are computed with where they are stored.
func (m *Model) loadStored(ctx context.Context, c Config, o decoder.Options) (err error) {
	total := m.ck.Bytes()
	var done int64
	o.OnWeight = func(bytes int) error {
		done += int64(bytes)
		if c.OnProgress != nil {
			c.OnProgress(Progress{Done: min(done, total), Total: total})
		}
		if ctx.Err() != nil {
			return cancelled(ctx)
		}
		return nil
	}
	if m.graph, err = decoder.Load(m.device, m.ck, o); err == nil && c.OnProgress != nil {
		c.OnProgress(Progress{Done: total, Total: total})
	}
	return err
}

// fingerprint digests which bytes each id stands for; "" without a tokenizer.
func fingerprint(t *tokenizer.Tokenizer) string {
	if t == nil {
		return ""
	}
	h := sha256.New()
	var text []byte
	for id := range t.Size() {
		b := t.Bytes(int32(id))
		text = append(binary.AppendUvarint(text[:0], uint64(len(b))), b...)
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// loadText reads the tokenizer and the chat template. A checkpoint without a
// tokenizer serves requests of ids.
func (m *Model) loadText(fsys fs.FS, name string) error {
	if _, err := fs.Stat(fsys, "tokenizer.json"); errors.Is(err, fs.ErrNotExist) {
		if name != "" {
			return &UnsupportedError{Field: "Config.Template", Value: name, Supported: "none, the checkpoint has no tokenizer.json"}
		}
		return nil
	}
	tokens, err := tokenizer.Load(fsys)
	if err != nil {
		return tokenizerError(err)
	}
	if tokens.Size() > m.vocab {
		return &CheckpointError{
			File: "tokenizer.json", Offset: -1, Want: fmt.Sprintf("at most the %d ids of vocab_size", m.vocab), Have: strconv.Itoa(tokens.Size()),
		}
	}
	m.tokens, m.valid = tokens, tokens.Size()
	_, err = reply.New(tokens, nil, nil)
	m.reads = err == nil
	template, err := pickTemplate(fsys, name)
	if err != nil || template == nil {
		return err
	}
	if m.renderer, err = chat.New(template, tokens); err != nil {
		return tokenizerError(err)
	}
	return nil
}

// tokenizerError says of a tokenizer.json what the other files' errors say.
func tokenizerError(err error) error {
	e := &CheckpointError{File: "tokenizer.json", Offset: -1, Want: "a readable file", Have: "an error", Err: err}
	if u, ok := errors.AsType[*tokenizer.UnsupportedError](err); ok {
		return &UnsupportedError{Field: "tokenizer.json: " + u.Field, Value: u.Value, Supported: u.Supported}
	}
	if f, ok := errors.AsType[*tokenizer.FormatError](err); ok {
		e.Offset, e.Want, e.Have, e.Err = f.Offset, f.Want, f.Have, nil
		if f.Field != "" {
			e.Have += " in " + f.Field
		}
	}
	if missing, ok := errors.AsType[*chat.TokenError](err); ok {
		e.Want, e.Have, e.Err = "the added token "+missing.Token+" of template "+missing.Template, "none", nil
	}
	return e
}

// pickTemplate returns the named template, or the one that the checkpoint's file
// is recognised as; nil if there is neither.
func pickTemplate(fsys fs.FS, name string) (*chat.Template, error) {
	if name != "" {
		return chat.Named(name)
	}
	jinja, err := fs.ReadFile(fsys, "chat_template.jinja")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &CheckpointError{File: "chat_template.jinja", Offset: -1, Want: "a readable file", Have: "an error", Err: err}
	}
	match, err := chat.Detect(jinja)
	return match.Template, err
}

// Template names the chat template that conversations are rendered with, "" if
// there is none.
func (m *Model) Template() string {
	if m.renderer == nil {
		return ""
	}
	return m.renderer.Template().Name()
}

// Tokenizer returns the checkpoint's tokenizer, nil if it has none.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tokens }

// Count returns the number of ids that Generate would feed before it samples:
// what the prompt costs.
func (m *Model) Count(r Request) (int, error) {
	p, err := m.prompt(&r)
	if err != nil {
		return 0, err
	}
	return len(p.ids), nil
}

// Close ends every generation of every pool with ErrModelClosed, waits for the
// running step and unmaps the weights. Idempotent.
func (m *Model) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		<-m.closing
		return nil
	}
	m.closed = true
	pools := make([]*KVPool, 0, len(m.pools))
	for p := range m.pools {
		pools = append(pools, p)
	}
	m.mu.Unlock()
	defer close(m.closing)
	var err error
	for _, p := range pools {
		err = errors.Join(err, p.shut(ErrModelClosed))
	}
	return errors.Join(err, m.free())
}

func (m *Model) free() error {
	var err error
	if m.device != nil {
		err = m.device.Close()
	}
	return errors.Join(err, m.ck.Close())
}

package cpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// Packer is a backend that packs the weights it loads, each into memory of its
// own, for programs that keep no blobs.
type Packer struct {
	*Backend
	format  func(name string) Format
	regions []*offheap.Region
}

// Packer returns the backend as one that packs a weight in the format of its name;
// kv_b, in whatever format, has 8 bits. Closing it closes b.
func (b *Backend) Packer(format func(name string) Format) *Packer {
	return &Packer{Backend: b, format: format}
}

// LoadWeight implements backend.Backend.
func (p *Packer) LoadWeight(v backend.View) (backend.Weight, error) {
	f := p.format(v.Name)
	if f == AsStored {
		return p.Backend.LoadWeight(v)
	}
	blob, err := p.pack(NewPacking(v, f))
	if err != nil {
		return 0, err
	}
	return p.LoadPacked(v.Name, v.Rows, v.Cols, f, blob)
}

// LoadKVB implements backend.Backend.
func (p *Packer) LoadKVB(v backend.View, heads, nope, vdim int) (backend.Weight, error) {
	if p.format(v.Name) == AsStored {
		return p.Backend.LoadKVB(v, heads, nope, vdim)
	}
	blob, err := p.pack(NewKVBPacking(v, heads, nope, vdim))
	if err != nil {
		return 0, err
	}
	return p.LoadPackedKVB(v.Name, heads, nope, vdim, v.Cols, blob)
}

func (p *Packer) pack(from *Packing, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	r, err := offheap.Alloc(from.Size())
	if err != nil {
		return nil, fmt.Errorf("cpu: weight %s: %w", from.from.Name, err)
	}
	p.regions = append(p.regions, r)
	return r.Bytes(), p.Pack(context.Background(), r.Bytes(), from)
}

// Close implements backend.Backend.
func (p *Packer) Close() error {
	err := p.Backend.Close()
	for _, r := range p.regions {
		err = errors.Join(err, r.Close())
	}
	p.regions = nil
	return err
}

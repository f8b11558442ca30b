package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/cofferdam-ml/cofferdam/internal/offheap"
)

// The names under which weights are found: one file, or an index of several.
const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
)

// readSmall reads a whole file of at most limit bytes.
func readSmall(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, size, err := openRegular(fsys, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tooLong := &CheckpointError{File: name, Offset: -1, Want: fmt.Sprintf("at most %d bytes", limit), Have: "more"}
	if size > limit {
		return nil, tooLong
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, &CheckpointError{File: name, Offset: int64(len(data)), Want: "a readable file", Have: "an error", Err: err}
	}
	if int64(len(data)) > limit {
		return nil, tooLong
	}
	return data, nil
}

// openRegular opens a regular file. It looks before it opens: opening a named
// pipe would wait for a writer.
func openRegular(fsys fs.FS, name string) (fs.File, int64, error) {
	fi, err := fs.Stat(fsys, name)
	if err != nil {
		have := "an error"
		if errors.Is(err, fs.ErrNotExist) {
			have = "absent"
		}
		return nil, 0, &CheckpointError{File: name, Offset: -1, Want: "a readable file", Have: have, Err: err}
	}
	if !fi.Mode().IsRegular() {
		return nil, 0, &CheckpointError{File: name, Offset: -1, Want: "a regular file", Have: fi.Mode().String()}
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, 0, &CheckpointError{File: name, Offset: -1, Want: "a readable file", Have: "an error", Err: err}
	}
	return f, fi.Size(), nil
}

func exists(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return !errors.Is(err, fs.ErrNotExist)
}

// layout is which files hold which tensors.
type layout struct {
	file   string            // what an error about the whole names
	shards []string          // in order of name
	where  map[string]string // tensor -> shard by the index; nil for a single file
}

// readLayout finds the weight files.
func readLayout(fsys fs.FS) (*layout, error) {
	single, index := exists(fsys, singleFile), exists(fsys, indexFile)
	switch {
	case !single && !index:
		return nil, &CheckpointError{File: singleFile, Offset: -1, Want: singleFile + " or " + indexFile, Have: "neither", Err: fs.ErrNotExist}
	case !index:
		return &layout{file: singleFile, shards: []string{singleFile}}, nil
	}
	data, err := readSmall(fsys, indexFile, maxIndexBytes)
	if err != nil {
		return nil, err
	}
	l := &layout{file: indexFile}
	if l.where, err = parseIndexFile(data); err != nil {
		return nil, err
	}
	first := make(map[string]string) // shard -> a tensor that the index puts there
	for tensor, shard := range l.where {
		if t, ok := first[shard]; !ok || tensor < t {
			first[shard] = tensor
		}
	}
	for shard, tensor := range first {
		if !validShard(shard) {
			return nil, &CheckpointError{File: indexFile, Tensor: tensor, Offset: -1, Want: "the name of a .safetensors file in the same directory", Have: show(shard)}
		}
		l.shards = append(l.shards, shard)
	}
	if len(l.shards) > maxShards {
		return nil, &CheckpointError{File: indexFile, Offset: -1, Want: fmt.Sprintf("at most %d files", maxShards), Have: fmt.Sprint(len(l.shards))}
	}
	slices.Sort(l.shards)
	for _, shard := range l.shards {
		if !exists(fsys, shard) {
			return nil, &CheckpointError{File: shard, Tensor: first[shard], Offset: -1, Want: "the file that " + indexFile + " names", Have: "absent", Err: fs.ErrNotExist}
		}
	}
	if single && !slices.Contains(l.shards, singleFile) {
		return nil, &CheckpointError{File: singleFile, Offset: -1, Want: "one set of weights", Have: "a single file beside an index of other files"}
	}
	return l, nil
}

// validShard accepts plain file names only: an index must not lead out of its
// directory, on any system.
func validShard(name string) bool {
	return fs.ValidPath(name) && !strings.ContainsAny(name, "/\\:\x00") && strings.HasSuffix(name, ".safetensors")
}

// parseIndexFile reads the weight_map of an index. Its metadata, a byte total
// that published files get wrong, is ignored.
func parseIndexFile(data []byte) (map[string]string, error) {
	s, e := newJSONScanner(data)
	if e != nil {
		return nil, e.in(indexFile, 0)
	}
	var where map[string]string
	current := ""
	e = s.object(func(key string) *jsonError {
		if key != "weight_map" {
			_, e := s.value()
			return e
		}
		where = make(map[string]string)
		return s.object(func(tensor string) *jsonError {
			current = tensor
			v, e := s.token()
			if e != nil {
				return e
			}
			shard, ok := v.(string)
			if !ok {
				return s.fault("a file name", jsonKind(v))
			}
			where[tensor], current = shard, ""
			return nil
		})
	})
	if e == nil && where == nil {
		e = &jsonError{want: "a weight_map", have: "none"}
	}
	if e != nil {
		err := e.in(indexFile, 0)
		err.Tensor = current
		return nil, err
	}
	return where, nil
}

// mapShard brings a weight file into memory outside the Go heap: a view of it if
// it is a file of the operating system, a copy otherwise.
func mapShard(fsys fs.FS, name string) (*offheap.Region, error) {
	f, size, err := openRegular(fsys, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if osFile, ok := f.(*os.File); ok {
		r, err := offheap.MapFile(osFile, size)
		if err != nil {
			return nil, &CheckpointError{File: name, Offset: -1, Want: "a file that can be mapped", Have: "an error", Err: err}
		}
		return r, nil
	}
	if int64(int(size)) != size {
		return nil, &CheckpointError{File: name, Offset: -1, Want: "a file that fits in memory", Have: fmt.Sprintf("%d bytes", size)}
	}
	r, err := offheap.Alloc(int(size))
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w", name, err)
	}
	if err := fill(f, r.Bytes(), name); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// fill reads a file that is exactly as long as b.
func fill(f fs.File, b []byte, name string) error {
	fault := &CheckpointError{File: name, Want: fmt.Sprintf("%d bytes, its stated size", len(b))}
	n, err := io.ReadFull(f, b)
	fault.Offset = int64(n)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		fault.Have = fmt.Sprintf("%d bytes", n)
		return fault
	default:
		fault.Have, fault.Err = "an error", err
		return fault
	}
	switch _, err := io.ReadFull(f, make([]byte, 1)); {
	case err == nil:
		fault.Have = "more"
		return fault
	case !errors.Is(err, io.EOF):
		fault.Have, fault.Err = "an error", err
		return fault
	}
	return nil
}

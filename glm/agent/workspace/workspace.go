package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferdam-ml/cofferdam/glm/agent"
)

const (
	// maxFile is the largest file that is read: far more than a prompt holds.
	maxFile = 1 << 20
	// maxFiles is how many files are listed.
	maxFiles = 5000
	// temporary begins the names of files that are being written.
	temporary = ".cofferdam-"
)

// Workspace is a folder in which the tools work.
type Workspace struct {
	root *os.Root
	dir  string
}

// Open opens the folder.
func Open(dir string) (*Workspace, error) {
	dir, err := filepath.Abs(dir) // the go command runs there, whatever becomes of ours
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Workspace{root: root, dir: dir}, nil
}

// Close closes the folder; the tools fail from then on.
func (w *Workspace) Close() error { return w.root.Close() }

type (
	noArguments  struct{}
	pathArgument struct {
		Path string `json:"path"`
	}
	editArguments struct {
		Path string `json:"path"`
		Old  string `json:"old"`
		New  string `json:"new"`
	}
)

// Tools returns list_files, read_file, edit_file and run_tests, in this order.
func (w *Workspace) Tools() []agent.Tool {
	edit := agent.Func("edit_file", "Replaces old, which must occur once in the file, by new.",
		func(_ context.Context, in editArguments) (string, error) { return w.Edit(in.Path, in.Old, in.New) })
	edit.Alone = true // tests that run meanwhile would see either text
	tools := []agent.Tool{
		agent.Func("list_files", "Lists the files of the package.",
			func(context.Context, noArguments) (string, error) { return w.List() }),
		agent.Func("read_file", "Returns the text of a file.",
			func(_ context.Context, in pathArgument) (string, error) { return w.Read(in.Path) }),
		edit,
		agent.Func("run_tests", "Runs go test.",
			func(ctx context.Context, _ noArguments) (string, error) { return w.Test(ctx) }),
	}
	for i := range tools {
		tools[i].Call = terse(tools[i].Call)
	}
	return tools
}

// terse gives wrong arguments the words that the model knows.
func terse(call func(context.Context, json.RawMessage) (string, error)) func(context.Context, json.RawMessage) (string, error) {
	return func(ctx context.Context, args json.RawMessage) (string, error) {
		text, err := call(ctx, args)
		if _, ok := errors.AsType[*agent.ArgumentError](err); ok {
			err = errors.New("wrong arguments")
		}
		return text, err
	}
}

// List returns the paths of all regular files, sorted, one a line.
func (w *Workspace) List() (string, error) {
	names, err := w.files()
	if err != nil {
		return "", reason(err)
	}
	return strings.Join(names, "\n"), nil
}

// files walks the folder without following links. Of too many files it says so in
// the last line.
func (w *Workspace) files() ([]string, error) {
	var names []string
	more := 0
	err := fs.WalkDir(w.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name != ".":
			return nil // a folder that cannot be read has no files for us
		case err != nil:
			return err
		case hidden(d.Name()) && d.IsDir():
			return fs.SkipDir
		case !d.Type().IsRegular() || hidden(d.Name()):
		case len(names) == maxFiles:
			more++
		default:
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names) // the walk sorts within folders only
	if more > 0 {
		names = append(names, fmt.Sprintf("(and %d more files)", more))
	}
	return names, err
}

// hidden reports whether a name is none of the model's business.
func hidden(name string) bool { return name == ".git" || strings.HasPrefix(name, temporary) }

// Read returns the text of a file.
func (w *Workspace) Read(name string) (string, error) {
	text, _, err := w.read(name)
	text, _ = unixLines(text)
	return text, err
}

func (w *Workspace) read(name string) (string, fs.FileMode, error) {
	if err := w.find(name); err != nil {
		return "", 0, err
	}
	f, err := w.root.Open(name)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", name, reason(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", name, reason(err))
	}
	if !info.Mode().IsRegular() {
		return "", 0, fmt.Errorf("%s is no file", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("%s: %w", name, reason(err))
	case len(data) > maxFile:
		return "", 0, fmt.Errorf("%s has more than %d bytes", name, maxFile)
	case strings.ContainsRune(string(data), 0) || strings.ToValidUTF8(string(data), "") != string(data):
		return "", 0, fmt.Errorf("%s is no text", name)
	}
	return string(data), info.Mode().Perm(), nil
}

// find reports whether the listing has a file of exactly this name. Comparing
// with the names in the folders leaves no other spelling of any of them, whatever
// the file system takes for equal.
func (w *Workspace) find(name string) error {
	if !fs.ValidPath(name) || name == "." {
		if path.IsAbs(name) || slices.Contains(strings.Split(name, "/"), "..") {
			return fmt.Errorf("%s is outside of the folder", name)
		}
		return fmt.Errorf("no file %s", name)
	}
	steps := strings.Split(name, "/")
	for i, step := range steps {
		if hidden(step) {
			return fmt.Errorf("no file %s", name)
		}
		folder := path.Join(append([]string{"."}, steps[:i]...)...)
		entries, err := fs.ReadDir(w.root.FS(), folder)
		if err != nil {
			return fmt.Errorf("no file %s", name)
		}
		at := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == step })
		switch {
		case at < 0:
			return fmt.Errorf("no file %s", name)
		case entries[at].Type()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s leads through a symbolic link", name)
		case i < len(steps)-1 && !entries[at].IsDir(), i == len(steps)-1 && !entries[at].Type().IsRegular():
			return fmt.Errorf("no file %s", name)
		}
	}
	return nil
}

// reason is an error without the path of the folder, which is not for the model.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

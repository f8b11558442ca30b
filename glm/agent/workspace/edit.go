package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Edit replaces old, which must occur once in the file, by new. It returns "ok".
func (w *Workspace) Edit(name, old, new string) (string, error) {
	if err := w.find(name); err != nil {
		return "", err
	}
	if strings.HasSuffix(name, "_test.go") || path.Base(name) == "go.mod" {
		return "", fmt.Errorf("%s is read-only", name)
	}
	text, mode, err := w.read(name)
	if err != nil {
		return "", err
	}
	text, crlf := unixLines(text)
	count := 0
	if old != "" {
		count = strings.Count(text, old)
	}
	switch {
	case count == 0:
		return "", fmt.Errorf("old text not found in %s", name)
	case count > 1:
		return "", fmt.Errorf("old text occurs %d times in %s", count, name)
	}
	text = strings.Replace(text, old, new, 1)
	if crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if err := w.write(name, text, mode); err != nil {
		return "", fmt.Errorf("%s: %w", name, reason(err))
	}
	return "ok", nil
}

// unixLines shows lines that end in CR LF with LF, if all of them do: then nothing
// is lost, and Edit can put it back.
func unixLines(text string) (plain string, crlf bool) {
	n := strings.Count(text, "\r\n")
	if n == 0 || n != strings.Count(text, "\n") {
		return text, false
	}
	return strings.ReplaceAll(text, "\r\n", "\n"), true
}

// write puts a new file in the place of an old one.
func (w *Workspace) write(name, text string, mode fs.FileMode) (err error) {
	beside := path.Join(path.Dir(name), temporary+rand.Text())
	f, err := w.root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.root.Remove(beside))
		}
	}()
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return w.root.Rename(beside, name)
}

package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferdam-ml/cofferdam/glm/agent/workspace"
	"github.com/cofferdam-ml/cofferdam/internal/tiny/tasks"
)

// layOut writes the task that a seed stands for to a temporary folder, which
// stays there to be looked at.
func layOut(seed uint64) (tasks.Task, string, error) {
	list, err := tasks.Short()
	if err != nil {
		return tasks.Task{}, "", err
	}
	task := list[seed%uint64(len(list))]
	dir, err := os.MkdirTemp("", "cofferdam-agent-")
	if err != nil {
		return task, "", err
	}
	for name, text := range task.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return task, dir, err
		}
	}
	return task, dir, nil
}

// snapshot returns the text of the files in which a repair can show.
func snapshot(w *workspace.Workspace) (map[string]string, error) {
	list, err := w.List()
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for name := range strings.SplitSeq(list, "\n") {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		if text, err := w.Read(name); err == nil {
			files[name] = text
		}
	}
	return files, nil
}

// Package tasks holds the repair tasks that the embedded model has not been
// trained on: small Go packages whose tests fail until one function is put right.
package tasks

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"io"
)

// A Task is a broken package and what its owner says about it.
type Task struct {
	Name    string            `json:"name"`
	Kind    string            `json:"kind"`  // of the fault
	Shape   string            `json:"shape"` // of the broken function
	Lines   int               `json:"lines"` // of the source file
	Request string            `json:"request"`
	Files   map[string]string `json:"files"`
}

//go:embed short.json
var short []byte

// Short returns the tasks of short files, which the embedded model is judged by.
func Short() ([]Task, error) { return Read(bytes.NewReader(short)) }

// Read reads a file of tasks.
func Read(r io.Reader) ([]Task, error) {
	var list []Task
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	return list, d.Decode(&list)
}

package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cofferdam-ml/cofferdam/internal/backend"
	"github.com/cofferdam-ml/cofferdam/internal/bench/synthetic"
	"github.com/cofferdam-ml/cofferdam/internal/decoder"
)

const (
	pageSize  = 64
	stepRows  = 512
	logitRows = 64 // most rows whose logits are compared
)

// engine is our side, behind the commands that c/model.c answers.
type engine struct {
	b     *synthetic.Backend
	m     *decoder.Model
	pages backend.Pages
	table []int32
	at    int // positions written
}

// serve runs a synthetic model and answers commands from in. period is
// synthetic.Backend's.
func serve(format string, layers, threads, context, period int, in io.Reader, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "rivals")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	start := time.Now()
	ck, err := synthetic.Open(dir, synthetic.Flash(layers, 1, words))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ck.Close()) }()
	e := &engine{}
	if e.b, err = synthetic.NewBackend(threads, synthetic.Format(format)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.b.Close()) }()
	e.b.Period = period
	if e.m, err = decoder.Load(e.b, ck, decoder.Options{Rows: stepRows, Outs: logitRows}); err != nil {
		return err
	}
	spec := backend.PageSpec{Pages: (context + pageSize - 1) / pageSize, PageSize: pageSize, Format: backend.KVF32, Planes: e.m.Planes}
	if e.pages, err = e.b.NewPages(spec); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.pages.Close()) }()
	for i := range spec.Pages {
		e.table = append(e.table, int32(spec.Pages-1-i))
	}
	fmt.Fprintf(out, "ok %.3f %d\n", time.Since(start).Seconds(), words)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		answer, err := e.answer(strings.Fields(lines.Text()))
		if err != nil {
			return err
		}
		fmt.Fprintln(out, answer)
	}
	return lines.Err()
}

func (e *engine) answer(fields []string) (string, error) {
	if len(fields) == 0 {
		return "", errors.New("an empty command")
	}
	command, fields := fields[0], fields[1:]
	var file string
	if command == "logits" && len(fields) > 0 {
		file, fields = fields[0], fields[1:]
	}
	ids := make([]int32, len(fields))
	for i, w := range fields {
		n, err := strconv.Atoi(w)
		if err != nil {
			return "", err
		}
		ids[i] = int32(n)
	}
	start := time.Now()
	switch command {
	case "clear":
		e.at = 0
		return "ok", nil
	case "feed":
		for ; len(ids) > 0; ids = ids[min(stepRows, len(ids)):] {
			if err := e.step(ids[:min(stepRows, len(ids))], 1); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%.9f", time.Since(start).Seconds()), nil
	case "decode":
		var b strings.Builder
		for i := range ids {
			start := time.Now()
			if err := e.step(ids[i:i+1], 1); err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "%.9f ", time.Since(start).Seconds())
		}
		return b.String(), nil
	case "logits":
		e.at = 0
		if len(ids) == 0 || len(ids) > logitRows {
			return "", fmt.Errorf("logits of %d rows, want 1 to %d", len(ids), logitRows)
		}
		if err := e.step(ids, len(ids)); err != nil {
			return "", err
		}
		data := make([]byte, 0, 4*len(ids)*words)
		for _, v := range e.b.Read(e.m.Logits, len(ids)) {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		return "ok", os.WriteFile(file, data, 0o644)
	}
	return "", fmt.Errorf("command %q", command)
}

// step feeds ids and computes the logits of the last outs of them.
func (e *engine) step(ids []int32, outs int) error {
	n := len(ids)
	s := &backend.Step{
		IDs: ids, QStart: []int32{0, int32(n)}, KVLen: []int32{int32(e.at + n)}, Session: []uint64{1}, Tag: []uint64{0},
		Pages: e.table, PageTag: make([]uint64, len(e.table)), Stride: len(e.table),
		Sampling: make([]backend.Sampling, outs),
	}
	for i := range ids {
		s.Seq, s.Pos = append(s.Seq, 0), append(s.Pos, int32(e.at+i))
		if i >= n-outs {
			s.Out = append(s.Out, int32(i))
		}
	}
	if err := e.b.Start(e.m.Program, s, e.pages); err != nil {
		return err
	}
	r, err := e.b.Wait()
	if err != nil {
		return err
	}
	for row, h := range r.Health {
		if h != 0 {
			return fmt.Errorf("position %d is %v", e.at+row, h)
		}
	}
	e.at += n
	return nil
}

// words is the vocabulary of GLM-4.7-Flash.
const words = 154880

package backend

import (
	"fmt"
	"math"
)

// operands are the handles that an operation reads or writes, by what their rows
// are.
type operands struct {
	Rows       []Buffer // one row per row of the step
	Outs       []Buffer // one row per out row
	Selections []Selection
	Plans      []Plan
}

func operandsOf(op Op) operands {
	switch op := op.(type) {
	case *Embed:
		return operands{Rows: []Buffer{op.Dst}}
	case *MLAProject:
		return operands{Rows: []Buffer{op.H, op.X, op.CQ, op.Q}}
	case *IndexProject:
		return operands{Rows: []Buffer{op.X, op.CQ, op.Q, op.W}}
	case *IndexSelect:
		return operands{Rows: []Buffer{op.Q, op.W}, Selections: []Selection{op.Dst}}
	case *MLAAttend:
		o := operands{Rows: []Buffer{op.Q, op.Dst}}
		if op.Sel != 0 {
			o.Selections = []Selection{op.Sel}
		}
		return o
	case *GQAProject:
		return operands{Rows: []Buffer{op.H, op.X, op.Dst}}
	case *GQAAttend:
		return operands{Rows: []Buffer{op.Q, op.Dst}}
	case *Linear:
		return operands{Rows: []Buffer{op.X, op.Dst}}
	case *MLP:
		return operands{Rows: []Buffer{op.H, op.Dst}}
	case *Route:
		return operands{Rows: []Buffer{op.H, op.X}, Plans: []Plan{op.Dst}}
	case *SharedExpert:
		return operands{Rows: []Buffer{op.X, op.Dst}}
	case *Experts:
		return operands{Rows: []Buffer{op.X, op.Dst}, Plans: []Plan{op.Plan}}
	case *FinalNorm:
		return operands{Rows: []Buffer{op.H, op.Dst}}
	case *Logits:
		return operands{Rows: []Buffer{op.N}, Outs: []Buffer{op.Dst}}
	case *AdjustLogits:
		return operands{Outs: []Buffer{op.L}}
	case *Sample:
		return operands{Outs: []Buffer{op.L}}
	}
	return operands{}
}

// Room is the size of the smallest operand of a program, in rows of the step and
// in out rows.
type Room struct{ Rows, Outs int }

// Room returns what a program has room for; the functions tell a handle's rows.
func (p Program) Room(buffer func(Buffer) int, selection func(Selection) int, plan func(Plan) int) Room {
	r := Room{Rows: math.MaxInt32, Outs: math.MaxInt32}
	for _, op := range p {
		o := operandsOf(op)
		for _, h := range o.Rows {
			r.Rows = min(r.Rows, buffer(h))
		}
		for _, h := range o.Outs {
			r.Outs = min(r.Outs, buffer(h))
		}
		for _, h := range o.Selections {
			r.Rows = min(r.Rows, selection(h))
		}
		for _, h := range o.Plans {
			r.Rows = min(r.Rows, plan(h))
		}
	}
	return r
}

// CheckRoom reports a step with more rows or out rows than there is room for.
func (s *Step) CheckRoom(r Room) error {
	if s.Rows() > r.Rows {
		return &StepError{Field: "len(IDs)", Want: fmt.Sprintf("at most %d rows", r.Rows), Have: fmt.Sprint(s.Rows())}
	}
	if len(s.Out) > r.Outs {
		return &StepError{Field: "len(Out)", Want: fmt.Sprintf("at most %d rows", r.Outs), Have: fmt.Sprint(len(s.Out))}
	}
	return nil
}

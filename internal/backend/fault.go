package backend

import "fmt"

// FaultError reports that loading a weight or running an operation stopped where
// it could not go on: a page of a mapped file was lost, or the code is wrong.
type FaultError struct {
	Op     string // the operation, or "load" and the name of the weight
	Lost   bool   // memory that was mapped is gone: a file was truncated
	Detail string // what the runtime said
	Stack  []byte // where, if the code is wrong
}

func (e *FaultError) Error() string {
	if e.Lost {
		return fmt.Sprintf("backend: %s: %s", e.Op, e.Detail)
	}
	return fmt.Sprintf("backend: %s: internal error: %s", e.Op, e.Detail)
}

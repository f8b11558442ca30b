package kvcache

import "fmt"

// Limit names the limit that binds.
type Limit uint8

const (
	LimitModel Limit = iota + 1 // the model's context, or a smaller configured one
	LimitPool                   // what one session can own in this pool
	LimitPeer                   // the limit that a peer published
)

func (l Limit) String() string {
	switch l {
	case LimitModel:
		return "model"
	case LimitPool:
		return "pool"
	case LimitPeer:
		return "peer"
	}
	return fmt.Sprintf("Limit(%d)", uint8(l))
}

// Limits is what a pool serves: the numbers checked at start, advertised and
// enforced are these and no others. All are tokens.
type Limits struct {
	Context int   // prompt and output together
	Prompt  int   // longest prompt: one token of output must fit
	Output  int   // longest output: one token of prompt must fit
	Pool    int   // what one session can own in this pool
	Binding Limit // which limit Context comes from
}

// limitsOf is the one function: the smallest of the model's context, what one
// session can own in the pool after the null page and the draft slack, and the
// limits that peers published (0: none). On equality the model is named first,
// then the pool.
func limitsOf(model, pages, pageSize, slack, peer int) Limits {
	l := Limits{Context: model, Binding: LimitModel}
	l.Pool = max((pages-1)*pageSize-slack, 0)
	if l.Pool < l.Context {
		l.Context, l.Binding = l.Pool, LimitPool
	}
	if peer > 0 && peer < l.Context {
		l.Context, l.Binding = peer, LimitPeer
	}
	l.Prompt = max(l.Context-1, 0)
	l.Output = l.Prompt
	return l
}

// check refuses a request above the limit. Under Clamp the output may be cut
// down to one token; the prompt never is.
func (l Limits) check(prompt, output int, a Admission) error {
	least := output
	if a == Clamp {
		least = 1
	}
	if prompt <= l.Context && least <= l.Context-prompt {
		return nil
	}
	return &ContextError{Prompt: prompt, Output: output, Max: l.Context, Pool: l.Pool, Limit: l.Binding}
}

package kvcache_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferdam-ml/cofferdam/kvcache"
)

// memory is a store of one byte per position.
type memory struct {
	pageSize int
	data     []byte
	tags     map[int]uint64
}

func newMemory(pages, pageSize int) *memory {
	return &memory{pageSize, make([]byte, pages*pageSize), map[int]uint64{}}
}

func (m *memory) page(i int) []byte { return m.data[i*m.pageSize : (i+1)*m.pageSize] }

func (m *memory) SetTag(page int, tag uint64) { m.tags[page] = tag }

func (m *memory) Scrub(pages ...int) {
	for _, p := range pages {
		clear(m.page(p))
		delete(m.tags, p)
	}
}

func (m *memory) Export(dst []byte, page int) []byte { return append(dst, m.page(page)...) }

func (m *memory) Import(page int, data []byte) error {
	copy(m.page(page), data)
	return nil
}

func (m *memory) Sum(page int) (sum uint64) {
	for _, b := range m.page(page) {
		sum = sum*31 + uint64(b)
	}
	return sum
}

// One turn of a conversation, and the next one, which finds the full pages of
// the first.
func Example() {
	pool, err := kvcache.New(kvcache.Config{Pages: 9, PageSize: 4, Context: 32}, newMemory(9, 4))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	s, _ := pool.NewSession("acme")
	defer s.Close()

	turn := func(prompt []int32) {
		l, err := s.Admit(context.Background(), kvcache.Request{Tokens: prompt, MaxTokens: 4})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer l.End(kvcache.CauseStop, nil)
		at := l.Valid()
		step, err := pool.Begin([]kvcache.Entry{{Lease: l, At: at, Tokens: prompt[at:]}})
		if err != nil || len(step.Refused()) > 0 {
			fmt.Println(err, step.Refused())
			return
		}
		a := step.Arrays()
		if err := step.Check(a); err != nil { // after padding, before the upload
			step.Abort()
			return
		}
		// Here a backend computes the rows and echoes what they belong to.
		step.Complete([]kvcache.Result{{Session: a.Session[0], Tag: a.Tag[0], Epoch: step.Epoch(), Rows: len(a.IDs)}})
		fmt.Printf("%d tokens: %d reused, %d computed, mark at %d\n", len(prompt), l.Reused(), len(a.IDs), l.Valid())
	}
	turn([]int32{11, 12, 13, 14, 15, 16})
	turn([]int32{11, 12, 13, 14, 15, 16, 21, 22, 23})
	// Output:
	// 6 tokens: 0 reused, 6 computed, mark at 6
	// 9 tokens: 4 reused, 5 computed, mark at 9
}

// A prompt above the limit is refused before any work, with both numbers.
func ExamplePool_Limits() {
	pool, err := kvcache.New(kvcache.Config{Pages: 17, PageSize: 4, Context: 256, AllowSmallerPool: true}, newMemory(17, 4))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	l := pool.Limits()
	fmt.Println(l.Context, l.Binding)

	s, _ := pool.NewSession("")
	_, err = s.Admit(context.Background(), kvcache.Request{Tokens: make([]int32, 100), MaxTokens: 20})
	var e *kvcache.ContextError
	fmt.Println(errors.As(err, &e), errors.Is(err, kvcache.ErrContextExceedsPool))
	fmt.Println(err)
	// Output:
	// 64 pool
	// true true
	// kvcache: this pool's maximum context length is 64 tokens, but 120 tokens were asked for (100 in the prompt, 20 for the output); one session can own 64 tokens of the pool
}

// Two pools of one process: one computes the prompt, the other goes on with it.
func ExampleLease_Ticket() {
	ctx := context.Background()
	prefillMemory, decodeMemory := newMemory(9, 4), newMemory(17, 4)
	prefill, _ := kvcache.New(kvcache.Config{Pages: 9, PageSize: 4, Context: 32}, prefillMemory)
	defer prefill.Close()
	decode, _ := kvcache.New(kvcache.Config{Pages: 17, PageSize: 4, Context: 64}, decodeMemory)
	defer decode.Close()
	if err := kvcache.Pair(prefill, decode); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("both serve", decode.Limits().Context, "tokens, by the", decode.Limits().Binding)

	prompt := []int32{1, 2, 3, 4, 5, 6}
	here, _ := decode.NewSession("acme")
	l, _ := here.Admit(ctx, kvcache.Request{Tokens: prompt, MaxTokens: 8, Remote: true})
	defer l.End(kvcache.CauseStop, nil)
	ticket, _ := l.Ticket()

	there, _ := prefill.NewSession("acme")
	p, err := there.Accept(ctx, ticket, prompt)
	if err != nil {
		fmt.Println(err)
		return
	}
	step, _ := prefill.Begin([]kvcache.Entry{{Lease: p, Tokens: prompt}})
	a := step.Arrays()
	step.Complete([]kvcache.Result{{Session: a.Session[0], Tag: a.Tag[0], Epoch: step.Epoch(), Rows: len(prompt)}})
	manifest, err := p.Send(decode, 42) // 42: the first token, sampled over there
	p.End(kvcache.CauseStop, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("commit:", l.Commit(manifest))
	fmt.Println("mark at", l.Valid(), "next token", manifest.First())
	// Output:
	// both serve 32 tokens, by the peer
	// commit: <nil>
	// mark at 6 next token 42
}

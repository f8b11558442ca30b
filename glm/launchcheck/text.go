package launchcheck

import (
	"errors"
	"strings"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// codeWord tells a word to the model in one conversation and asks for it in
// another. It needs a tokenizer and a chat template.
func (r *runner) codeWord() {
	const word = "QUENTHARP-4471"
	say := func(name, text string) (a ask, ok bool) {
		a = ask{name: name, r: glm.Request{
			Messages: []glm.Message{{Role: glm.User, Content: text}}, MaxTokens: 24, Sampling: r.sampling(),
		}}
		var err error
		a.prompt, err = r.m.Count(a.r)
		if err != nil && !errors.Is(err, glm.ErrInvalidRequest) {
			r.doubt("%s: %v", name, err)
		}
		return a, err == nil && a.prompt+24 <= r.context
	}
	told, ok := say("told", "The code word is "+word+". Keep it to yourself.")
	asked, ok2 := say("asked", "What is the code word? Answer with the word alone.")
	if !ok || !ok2 {
		r.seen("left out: the model has no chat template, or a context too short for it")
		return
	}
	if r.fresh(&asked); r.doubted() {
		return
	}
	p := r.pool(glm.PoolConfig{Tokens: 4 * (told.prompt + asked.prompt + 48)})
	if p == nil {
		return
	}
	for round := range 2 {
		r.donate(p, told)
		for _, c := range []struct {
			tenant string
			cached int
		}{{"", 0}, {"victim", round * r.warmth(asked.prompt)}} {
			have := r.generate(r.ctx, p, c.tenant, asked, nil)
			r.judge(p, "after it was told to somebody else", asked, have, c.cached)
			if strings.Contains(strings.ToUpper(have.text), word) && !strings.Contains(strings.ToUpper(asked.want.text), word) {
				r.doubt("the word was said to tenant %q", c.tenant)
			}
		}
	}
	r.settle(p)
	r.seen("told twice, asked four times")
}

package kvcache

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naive is the prefix index as one would write it without thought for speed:
// a list of (scope, all tokens so far) in the order of last use.
type naive struct {
	size    int
	entries []naiveEntry
	clock   int
}

type naiveEntry struct {
	scope  Scope
	tokens []int32 // from position 0 to the end of the page
	page   int32
	laid   int // when it came to rest, 0: in use
}

func (n *naive) match(s Scope, tokens []int32, limit int) (pages []int32) {
	for at := n.size; at <= limit; at += n.size {
		i := slices.IndexFunc(n.entries, func(e naiveEntry) bool { return e.scope == s && slices.Equal(e.tokens, tokens[:at]) })
		if i < 0 {
			break
		}
		pages = append(pages, n.entries[i].page)
	}
	return pages
}

func (n *naive) find(page int32) *naiveEntry {
	for i := range n.entries {
		if n.entries[i].page == page {
			return &n.entries[i]
		}
	}
	return nil
}

func (n *naive) oldest() int32 {
	best := -1
	for i, e := range n.entries {
		if e.laid > 0 && (best < 0 || e.laid < n.entries[best].laid) {
			best = i
		}
	}
	if best < 0 {
		return none
	}
	return n.entries[best].page
}

func TestIndexAgreesWithTheNaiveOne(t *testing.T) {
	for name, h := range map[string]hasher{
		"sha256":   sha,
		"constant": func([]byte) Key { return Key{1} },
	} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { compareIndex(t, h) }) })
	}
}

// compareIndex lets conversations come and go over an index and its model.
func compareIndex(t *rapid.T, h hasher) {
	const pages, size = 9, 2
	x, n := newIndex(pages, size), naive{size: size}
	scopes := []Scope{{Tenant: "a"}, {Tenant: "b"}, {Session: 1}, {Session: 2}}
	free := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	users := map[int32]int{}
	var running [][]int32 // page chains in use

	evict := func() bool {
		have, want := x.rest.head, n.oldest()
		if have != want {
			t.Fatalf("evicts page %d, want %d", have, want)
		}
		if have == none {
			return false
		}
		x.remove(have)
		n.entries = slices.DeleteFunc(n.entries, func(e naiveEntry) bool { return e.page == have })
		free = append(free, have)
		return true
	}
	start := func(s Scope, tokens []int32) {
		root := rootKey(h, nil, s)
		hits, _ := x.match(h, nil, root, s, tokens, len(tokens)-1)
		if want := n.match(s, tokens, len(tokens)-1); !slices.Equal(hits, want) {
			t.Fatalf("%v %v: hits %v, want %v", s, tokens, hits, want)
		}
		for _, p := range hits {
			x.wake(p)
			n.find(p).laid = 0
			users[p]++
		}
		chain, parent, key := hits, int32(none), root
		if len(hits) > 0 {
			parent = hits[len(hits)-1]
			key = x.entries[parent].key
		}
		for at := len(hits) * size; at+size <= len(tokens); at += size {
			if len(free) == 0 && !evict() {
				break
			}
			key, _ = pageKey(h, nil, key, tokens[at:at+size])
			if twin := x.find(key, s, parent, tokens[at:at+size]); twin != none {
				if at+size < len(tokens) {
					t.Fatalf("page %d was not part of the hit", twin)
				}
				break // the hit ended at n-1
			}
			p := free[0]
			free = free[1:]
			x.insert(p, key, s, parent, tokens[at:at+size])
			n.entries = append(n.entries, naiveEntry{s, slices.Clone(tokens[:at+size]), p, 0})
			users[p]++
			chain, parent = append(chain, p), p
		}
		running = append(running, slices.Clone(chain))
	}
	stop := func(i int) {
		for _, p := range slices.Backward(running[i]) {
			if users[p]--; users[p] == 0 {
				x.lay(p)
				n.clock++
				n.find(p).laid = n.clock
			}
		}
		running = slices.Delete(running, i, i+1)
	}
	t.Repeat(map[string]func(*rapid.T){
		"start": func(t *rapid.T) {
			start(rapid.SampledFrom(scopes).Draw(t, "scope"), rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 9).Draw(t, "tokens"))
		},
		"stop": func(t *rapid.T) {
			if len(running) == 0 {
				t.Skip()
			}
			stop(rapid.IntRange(0, len(running)-1).Draw(t, "which"))
		},
		"evict": func(*rapid.T) { evict() },
		"": func(t *rapid.T) {
			if len(n.entries)+len(free) != pages-1 {
				t.Fatalf("%d indexed and %d free pages of %d", len(n.entries), len(free), pages-1)
			}
		},
	})
}

// Every field of the key changes it, and no two fields can stand in for each
// other; equal fields give equal keys.
func TestKeyFields(t *testing.T) {
	base := Config{PageSize: 4, Identity: Identity{"w", "t", "f", "g", "r", "n", "m"}}
	key := func(c Config, s Scope) Key { return rootKey(sha, identity(c), s) }
	change := []struct {
		field string
		set   func(*Config, *Scope, string)
	}{
		{"weights", func(c *Config, _ *Scope, v string) { c.Identity.Weights = v }},
		{"tokenizer", func(c *Config, _ *Scope, v string) { c.Identity.Tokenizer = v }},
		{"format", func(c *Config, _ *Scope, v string) { c.Identity.Format = v }},
		{"geometry", func(c *Config, _ *Scope, v string) { c.Identity.Geometry = v }},
		{"rope", func(c *Config, _ *Scope, v string) { c.Identity.Rope = v }},
		{"norm eps", func(c *Config, _ *Scope, v string) { c.Identity.NormEps = v }},
		{"numerics", func(c *Config, _ *Scope, v string) { c.Identity.Numerics = v }},
		{"tenant", func(_ *Config, s *Scope, v string) { *s = Scope{Tenant: v} }},
		{"session", func(_ *Config, s *Scope, v string) { *s = Scope{Session: uint64(v[0])} }},
	}
	seen := map[Key]string{}
	put := func(what string, k Key) {
		t.Helper()
		if other, ok := seen[k]; ok {
			t.Errorf("%s and %s have the same key", what, other)
		}
		seen[k] = what
	}
	put("base", key(base, Scope{Tenant: "x"}))
	again := Config{PageSize: 4, Identity: base.Identity}
	if key(again, Scope{Tenant: "x"}) != key(base, Scope{Tenant: "x"}) {
		t.Error("equal fields, different keys")
	}
	for i, a := range change {
		c, s := base, Scope{Tenant: "x"}
		a.set(&c, &s, "same")
		put(a.field+" = same", key(c, s))
		for _, b := range change[i+1:] {
			c, s := base, Scope{Tenant: "x"}
			a.set(&c, &s, "s1")
			b.set(&c, &s, "s2")
			one := key(c, s)
			c, s = base, Scope{Tenant: "x"}
			a.set(&c, &s, "s2")
			b.set(&c, &s, "s1")
			if a.field == "tenant" {
				continue // tenant and session exclude each other
			}
			if one == key(c, s) {
				t.Errorf("%s and %s can stand in for each other", a.field, b.field)
			}
		}
	}
	// A tenant named like the bytes of a session's number is not that session.
	put("session 5", key(base, Scope{Session: 5}))
	put("tenant 5", key(base, Scope{Tenant: "\x00\x00\x00\x00\x00\x00\x00\x05"}))
	c := base
	c.PageSize = 8
	put("page size", key(c, Scope{Tenant: "x"}))
	// A value that looks like the next field is a value: lengths come first.
	next := string(field1(nil, len("tokenizer"))) + "tokenizer"
	c = base
	c.Identity.Weights, c.Identity.Tokenizer = "a"+next+"b", "c"
	put("a field within weights", key(c, Scope{Tenant: "x"}))
	c.Identity.Weights, c.Identity.Tokenizer = "a", "b"+next+"c"
	put("a field within tokenizer", key(c, Scope{Tenant: "x"}))
	root := key(base, Scope{Tenant: "x"})
	for _, toks := range [][]int32{{1, 2, 3, 4}, {1, 2, 3, 5}, {1, 2, 3}, {0x01020304}, {}} {
		k, _ := pageKey(sha, nil, root, toks)
		put(fmt.Sprint("tokens ", toks), k)
		k, _ = pageKey(sha, nil, k, toks)
		put(fmt.Sprint("tokens twice ", toks), k)
	}
}

// With a hash that says nothing, scope, parent and tokens still decide.
func TestNoWrongHitUnderAConstantHash(t *testing.T) {
	x := newIndex(8, 2)
	h := hasher(func([]byte) Key { return Key{} })
	a, b := Scope{Tenant: "a"}, Scope{Tenant: "b"}
	x.insert(1, Key{}, a, none, []int32{1, 2})
	x.insert(2, Key{}, a, 1, []int32{3, 4})
	x.insert(3, Key{}, a, 2, []int32{1, 2})
	for _, c := range []struct {
		scope  Scope
		tokens []int32
		want   []int32
	}{
		{a, []int32{1, 2, 3, 4, 1, 2, 9}, []int32{1, 2, 3}},
		{a, []int32{1, 2, 1, 2, 9}, []int32{1}},
		{a, []int32{3, 4, 9}, nil},
		{b, []int32{1, 2, 3, 4, 9}, nil},
		{Scope{Session: 1}, []int32{1, 2, 9}, nil},
	} {
		if have, _ := x.match(h, nil, Key{}, c.scope, c.tokens, len(c.tokens)-1); !slices.Equal(have, c.want) {
			t.Errorf("%v %v: %v, want %v", c.scope, c.tokens, have, c.want)
		}
	}
}

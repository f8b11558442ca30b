package kvcache

import (
	"encoding/binary"
	"slices"
)

// index is the prefix cache: a radix tree over sealed pages. A node is a page,
// so nodes are numbered by page and the tree needs no pointers: each entry
// names its parent, and children are found through a hash table by key.
//
// A hit needs more than the key: scope, parent and tokens are compared, so a
// collision, by chance or by design, finds nothing.
//
// Entries that no lease uses rest in a list, least recently used first; only
// they can be evicted. A lease that uses a page uses all its ancestors, and
// gives its pages back deepest first, so the head of the list is always a leaf
// of what is left.
type index struct {
	entries []entry // by page
	tokens  []int32 // of each page
	slots   []int32 // open addressing: page, or empty
	rest    list    // linked through prev and next
}

type entry struct {
	key        Key
	scope      Scope
	parent     int32 // page before it, none for the first of a scope
	prev, next int32 // in rest
	indexed    bool  // can be found
	resting    bool  // no lease uses it, nothing pins it
}

// none is no page, no lease, no slot.
const none = -1

// list is a chain of pages through links kept in the pages.
type list struct{ head, tail, n int32 }

func emptyList() list { return list{head: none, tail: none} }

func newIndex(pages, pageSize int) index {
	size := 4
	for size < 2*pages {
		size *= 2
	}
	x := index{
		entries: make([]entry, pages),
		tokens:  make([]int32, pages*pageSize),
		slots:   slices.Repeat([]int32{none}, size),
		rest:    emptyList(),
	}
	for i := range x.entries {
		x.entries[i] = entry{parent: none, prev: none, next: none}
	}
	return x
}

func (x *index) clone() index {
	c := *x
	c.entries = slices.Clone(x.entries)
	c.tokens = slices.Clone(x.tokens)
	c.slots = slices.Clone(x.slots)
	return c
}

func (x *index) pageSize() int { return len(x.tokens) / len(x.entries) }

// of returns the tokens of a page.
func (x *index) of(page int32) []int32 {
	n := x.pageSize()
	return x.tokens[int(page)*n : (int(page)+1)*n]
}

func (x *index) home(k Key) int {
	return int(binary.LittleEndian.Uint64(k[:]) & uint64(len(x.slots)-1))
}

func (x *index) after(slot int) int { return (slot + 1) & (len(x.slots) - 1) }

// find returns the page that holds tokens after parent in this scope, or none.
func (x *index) find(k Key, s Scope, parent int32, tokens []int32) int32 {
	for i := x.home(k); x.slots[i] != none; i = x.after(i) {
		p := x.slots[i]
		e := &x.entries[p]
		if e.key == k && e.scope == s && e.parent == parent && slices.Equal(x.of(p), tokens) {
			return p
		}
	}
	return none
}

// insert makes a page findable. It is in use: it does not rest yet.
func (x *index) insert(page int32, k Key, s Scope, parent int32, tokens []int32) {
	x.entries[page] = entry{key: k, scope: s, parent: parent, prev: none, next: none, indexed: true}
	copy(x.of(page), tokens)
	i := x.home(k)
	for x.slots[i] != none {
		i = x.after(i)
	}
	x.slots[i] = page
}

// remove makes a page unfindable. Its scope stays on record until the page is
// sealed again: whoever still uses the page is checked against it.
func (x *index) remove(page int32) {
	x.wake(page)
	e := &x.entries[page]
	if !e.indexed {
		return
	}
	i := x.home(e.key)
	for x.slots[i] != page {
		i = x.after(i)
	}
	// Close the gap: an entry further on moves into it unless its home lies
	// cyclically in (gap, where it is].
	gap := i
	for j := x.after(i); x.slots[j] != none; j = x.after(j) {
		home := x.home(x.entries[x.slots[j]].key)
		if mask := len(x.slots) - 1; (j-home)&mask >= (j-gap)&mask {
			x.slots[gap] = x.slots[j]
			gap = j
		}
	}
	x.slots[gap] = none
	e.indexed = false
	e.parent = none
	e.key = Key{}
	clear(x.of(page))
}

// lay puts an unused page at the young end of the resting list.
func (x *index) lay(page int32) {
	e := &x.entries[page]
	e.resting, e.prev, e.next = true, x.rest.tail, none
	if x.rest.tail == none {
		x.rest.head = page
	} else {
		x.entries[x.rest.tail].next = page
	}
	x.rest.tail = page
	x.rest.n++
}

// wake takes a page out of the resting list, if it rests.
func (x *index) wake(page int32) {
	e := &x.entries[page]
	if !e.resting {
		return
	}
	if e.prev == none {
		x.rest.head = e.next
	} else {
		x.entries[e.prev].next = e.next
	}
	if e.next == none {
		x.rest.tail = e.prev
	} else {
		x.entries[e.next].prev = e.prev
	}
	e.resting, e.prev, e.next = false, none, none
	x.rest.n--
}

// match returns the pages that hold the longest run of full pages of tokens
// that the scope has, at most limit positions. buf is scratch for keys.
func (x *index) match(h hasher, buf []byte, root Key, s Scope, tokens []int32, limit int) ([]int32, []byte) {
	n := x.pageSize()
	var pages []int32
	parent, key := int32(none), root
	for at := 0; at+n <= limit; at += n {
		key, buf = pageKey(h, buf, key, tokens[at:at+n])
		p := x.find(key, s, parent, tokens[at:at+n])
		if p == none {
			break
		}
		pages = append(pages, p)
		parent = p
	}
	return pages, buf
}

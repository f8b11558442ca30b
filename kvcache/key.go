package kvcache

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key names a page of tokens together with everything that decides its bytes:
// the scope, the identity of model and format, and all tokens before it.
type Key [32]byte

// Scope is who may share a page: all sessions of one tenant, or, for the empty
// tenant, one session with itself. Exactly one field is set.
type Scope struct {
	Tenant  string
	Session uint64
}

// hasher is SHA-256; tests put a constant in its place and must see no wrong hit.
type hasher func([]byte) Key

func sha(b []byte) Key { return sha256.Sum256(b) }

// field appends one labelled field; both lengths come first, so that no two
// different lists of fields have the same bytes.
func field(dst []byte, label string, value []byte) []byte {
	dst = append(field1(dst, len(label)), label...)
	return append(field1(dst, len(value)), value...)
}

func field1(dst []byte, n int) []byte { return binary.BigEndian.AppendUint64(dst, uint64(n)) }

// identity lists the labelled fields that no scope and no token changes.
func identity(c Config) []byte {
	var b []byte
	for _, f := range []struct{ label, value string }{
		{"weights", c.Identity.Weights},
		{"tokenizer", c.Identity.Tokenizer},
		{"format", c.Identity.Format},
		{"geometry", c.Identity.Geometry},
		{"rope", c.Identity.Rope},
		{"norm eps", c.Identity.NormEps},
		{"numerics", c.Identity.Numerics},
	} {
		b = field(b, f.label, []byte(f.value))
	}
	return field(b, "page size", binary.BigEndian.AppendUint64(nil, uint64(c.PageSize)))
}

// rootKey is the parent of the first page of a scope.
func rootKey(h hasher, identity []byte, s Scope) Key {
	b := field(nil, "cofferdam kv", []byte("root"))
	b = field(b, "identity", identity)
	if s.Tenant != "" {
		b = field(b, "tenant", []byte(s.Tenant))
	} else {
		b = field(b, "session", binary.BigEndian.AppendUint64(nil, s.Session))
	}
	return h(b)
}

// pageKey is the key of a page of tokens after parent. buf is scratch.
func pageKey(h hasher, buf []byte, parent Key, tokens []int32) (Key, []byte) {
	b := field(buf[:0], "cofferdam kv", []byte("page"))
	b = field(b, "parent", parent[:])
	b = field1(append(field1(b, len("tokens")), "tokens"...), 4*len(tokens))
	for _, t := range tokens {
		b = binary.BigEndian.AppendUint32(b, uint32(t))
	}
	return h(b), b
}

package tokenizer

import (
	"cmp"
	"slices"
	"sort"
)

// An Added token stands beside the BPE vocabulary: it has an id and a text, but
// no merge leads to it. Control tokens such as <|user|> are added tokens.
type Added struct {
	ID      int32
	Content string
	// Special tokens are the ones a decoder may leave out of the text shown to
	// a user (role tokens, end of text). <think> and <tool_call> are not
	// special in this sense.
	Special bool
}

// glmAdded lists the added tokens of every GLM vocabulary since GLM-4.5, in id
// order.
var glmAdded = [...]string{
	"<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>",
	"<|system|>", "<|user|>", "<|assistant|>", "<|observation|>",
	"<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>",
	"<|begin_of_audio|>", "<|end_of_audio|>", "<|begin_of_transcription|>", "<|end_of_transcription|>",
	"<|code_prefix|>", "<|code_middle|>", "<|code_suffix|>",
	"<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
	"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
	"/nothink", "<|begin_of_box|>", "<|end_of_box|>", "<|image|>", "<|video|>",
}

// GLMAdded returns the 36 added tokens that all GLM vocabularies share, in their
// order, with ids from first on: 151329 for the GLM-4.5 vocabulary, 154820 for
// the GLM-5 one. It serves to give a rank file, which holds no added tokens, the
// ones it belongs with, and to build small vocabularies for tests.
func GLMAdded(first int32) []Added {
	list := make([]Added, len(glmAdded))
	for i, s := range glmAdded {
		special := i <= 20 || s == "/nothink"
		list[i] = Added{ID: first + int32(i), Content: s, Special: special}
	}
	return list
}

// An addedMatcher finds added tokens in text: leftmost first, and of those that
// start at one place the longest.
type addedMatcher struct {
	first  [256]bool // bytes some token starts with
	tokens []Added   // by text
}

func newAddedMatcher(tokens []Added) *addedMatcher {
	m := &addedMatcher{tokens: slices.SortedFunc(slices.Values(tokens), func(x, y Added) int { return cmp.Compare(x.Content, y.Content) })}
	for _, a := range tokens {
		m.first[a.Content[0]] = true
	}
	return m
}

// find returns the first match in s at or after from, or start = len(s) and id -1
// if there is none.
func (m *addedMatcher) find(s string, from int) (start, end int, id int32) {
	for ; from < len(s); from++ {
		if !m.first[s[from]] {
			continue
		}
		if end, id := m.longest(s, from); id >= 0 {
			return from, end, id
		}
	}
	return len(s), len(s), -1
}

// longest returns the end and the id of the longest token at s[from], or id -1.
func (m *addedMatcher) longest(s string, from int) (end int, id int32) {
	id = -1
	for tokens, n := m.tokens, 0; len(tokens) > 0; n++ {
		// All of tokens begin with s[from:from+n]; the first may end there.
		if len(tokens[0].Content) == n {
			end, id = from+n, tokens[0].ID
			tokens = tokens[1:]
		}
		if from+n == len(s) {
			break
		}
		b := s[from+n]
		tokens = tokens[search(tokens, func(a *Added) bool { return a.Content[n] >= b }):]
		tokens = tokens[:search(tokens, func(a *Added) bool { return a.Content[n] > b })]
	}
	return end, id
}

// search returns the index of the first token that ok holds for; it holds for all
// after that one.
func search(tokens []Added, ok func(*Added) bool) int {
	return sort.Search(len(tokens), func(i int) bool { return ok(&tokens[i]) })
}

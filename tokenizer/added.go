package tokenizer

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
// start at one place the longest. It is a trie over bytes.
type addedMatcher struct {
	first [256]bool          // bytes some token starts with
	edges map[trieEdge]int32 // node, byte -> node
	ids   []int32            // node -> id of the token that ends there, or -1
}

type trieEdge struct {
	node int32
	b    byte
}

func newAddedMatcher() *addedMatcher {
	return &addedMatcher{edges: map[trieEdge]int32{}, ids: []int32{-1}}
}

func (m *addedMatcher) add(content string, id int32) {
	m.first[content[0]] = true
	node := int32(0)
	for i := range len(content) {
		e := trieEdge{node, content[i]}
		next, ok := m.edges[e]
		if !ok {
			next = int32(len(m.ids))
			m.edges[e] = next
			m.ids = append(m.ids, -1)
		}
		node = next
	}
	m.ids[node] = id
}

// find returns the first match in s at or after from, or start = len(s) if there
// is none.
func (m *addedMatcher) find(s string, from int) (start, end int, id int32) {
	for ; from < len(s); from++ {
		if !m.first[s[from]] {
			continue
		}
		node, end, id := int32(0), 0, int32(-1)
		for i := from; i < len(s); i++ {
			next, ok := m.edges[trieEdge{node, s[i]}]
			if !ok {
				break
			}
			if node = next; m.ids[node] >= 0 {
				end, id = i+1, m.ids[node]
			}
		}
		if id >= 0 {
			return from, end, id
		}
	}
	return len(s), len(s), -1
}

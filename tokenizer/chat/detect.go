package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A Match says which template a chat_template.jinja was recognised as, and how.
type Match struct {
	Template    *Template
	Fingerprint string // SHA-256 of the file, in hex
	// Exact: the file is one of the published ones this package was checked
	// against. Otherwise it has the features that tell the generations apart,
	// and may differ in others.
	Exact bool
}

// published holds the SHA-256 of files that were read and that the renderers were
// compared with (testdata/README.md).
var published = map[string]string{
	"44f815868bf02fa458dd2f741a338046f4bf45f398eb6d067766726b9d96cce3": "GLM-4.5",
	"f777778f775abe19c0f4bd576078d20a51ba8472139bde6852ea4490ec07398b": "GLM-4.6", // as llama.cpp carries it
	"d63ad536c3c81880043e22ec7fd08db42b4d8fb7c89c7138bc562bfa25281375": "GLM-4.7-Flash",
	"172dc74a35e1752df75ecfb2b2cf9326d2852bb1379868ebeec9571654489679": "GLM-5.2",
	"6d172cae09cb494bd825a6b14d07e7b32a2c26988afe43d8bc2bbda91aab99c8": "GLM-5.2", // with image markers
	"69bb3ab52067898e2466b855407636de559568947f367945842aabcb7fcc1705": "GLM-5.3", // first upload
	"3740abcea51c45830cb3ca562084ad5fb2ef53589376f73332e9886f93ade41c": "GLM-5.3",
	"34d5ee66b12fa6446cdae131c352b8f68cd85369e0e6fda115583805fada3891": "GLM-5.3-Flash", // 2026-08-27
	"0c4099f3382d6c92700dfb99725025360966fd73032f0ecf32377c0d9e6309c5": "GLM-5.3-Flash", // 2026-09-04
}

// publishedAs looks a file up. A line break at its end makes no difference, for
// Jinja drops it.
func publishedAs(jinja []byte) (name string, ok bool) {
	bare := bytes.TrimSuffix(jinja, []byte("\n"))
	if name, ok = published[fingerprint(bare)]; !ok {
		name, ok = published[fingerprint(append(bytes.Clone(bare), '\n'))]
	}
	return name, ok
}

// A feature rule recognises a generation by words that its template must and
// must not hold. Every file must hold [gMASK]<sop>.
type feature struct {
	name         string
	holds, lacks []string
}

const effortLine = "Reasoning Effort:"

var features = []feature{
	{"GLM-4.5",
		[]string{"/nothink", `\n<think></think>`},
		[]string{effortLine, "clear_thinking", "defer_loading", "<|begin_of_image|>"}},
	{"GLM-4.7",
		[]string{"clear_thinking is defined and not clear_thinking", "enable_thinking"},
		[]string{effortLine, "/nothink", "<think></think>", "defer_loading", "<|begin_of_image|>"}},
	{"GLM-5.1",
		[]string{"clear_thinking is defined and not clear_thinking", "enable_thinking", "<think></think>", "defer_loading"},
		[]string{effortLine, "/nothink"}},
	{"GLM-5.2",
		[]string{effortLine, "clear_thinking is defined and not clear_thinking", "enable_thinking", "defer_loading"},
		[]string{"'low'", "/nothink"}},
	{"GLM-5.3",
		[]string{effortLine, "clear_thinking is defined else false", "'low'", "defer_loading"},
		[]string{"enable_thinking"}},
}

// Detect recognises the chat_template.jinja of a checkpoint: by its SHA-256 if it
// is a published one, else by the features that set the generations apart. A
// file it does not recognise is a [*TemplateError], for a wrong guess would feed
// the model prompts it was never trained on; a caller who knows better picks a
// template with [Named].
func Detect(jinja []byte) (Match, error) {
	m := Match{Fingerprint: fingerprint(jinja)}
	if name, ok := publishedAs(jinja); ok {
		m.Exact = true
		t, err := Named(name)
		m.Template = t
		return m, err
	}
	text := string(jinja)
	if strings.Contains(text, "[gMASK]<sop>") {
		for _, f := range features {
			if f.matches(text) {
				t, err := Named(f.name)
				m.Template = t
				return m, err
			}
		}
	}
	return Match{}, &TemplateError{Fingerprint: m.Fingerprint, Known: Names()}
}

func (f *feature) matches(text string) bool {
	for _, s := range f.holds {
		if !strings.Contains(text, s) {
			return false
		}
	}
	for _, s := range f.lacks {
		if strings.Contains(text, s) {
			return false
		}
	}
	return true
}

func fingerprint(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

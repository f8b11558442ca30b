package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Sketches of the chat templates: the words the generations are told apart by.
var sketches = map[string]string{
	"GLM-4.5": `[gMASK]<sop>{{ '/nothink' if enable_thinking is defined and not enable_thinking }}{{ '\n<think></think>' }}`,
	"GLM-4.7": `[gMASK]<sop>{% if clear_thinking is defined and not clear_thinking %}{{ '</think>' if enable_thinking }}`,
	"GLM-5.1": `[gMASK]<sop>{% if tool.defer_loading %}{% if clear_thinking is defined and not clear_thinking %}{{ '<think></think>' if enable_thinking }}`,
	"GLM-5.2": `[gMASK]<sop>Reasoning Effort: {% if tool.defer_loading %}{% if clear_thinking is defined and not clear_thinking and enable_thinking %}<think></think>`,
	"GLM-5.3": `[gMASK]<sop>Reasoning Effort: {% if tool.defer_loading %}{% set clear_thinking = clear_thinking if clear_thinking is defined else false %}['low', 'high']<think></think>`,
}

func TestDetectFeatures(t *testing.T) {
	for name, sketch := range sketches {
		m, err := Detect([]byte(sketch))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sum := sha256.Sum256([]byte(sketch))
		if m.Template.Name() != name || m.Exact || m.Fingerprint != hex.EncodeToString(sum[:]) {
			t.Errorf("want %s by its features, have %s, exact %t, %s", name, m.Template.Name(), m.Exact, m.Fingerprint)
		}
	}
}

// Templates that people changed, and other models': a wrong guess would be worse
// than none.
func TestDetectUnknown(t *testing.T) {
	unknown := map[string]string{
		"empty":                          "",
		"another model":                  "{% for m in messages %}<|im_start|>{{ m.role }}",
		"no start":                       strings.TrimPrefix(sketches["GLM-4.5"], "[gMASK]<sop>"),
		"GLM-5.3 that can stop to think": sketches["GLM-5.3"] + "{{ enable_thinking }}",
		"GLM-5.3 of the first day":       strings.Replace(sketches["GLM-5.3"], "else false", "else true", 1),
		"GLM-4.5V":                       sketches["GLM-4.5"] + "<|begin_of_image|>",
		"GLM-5.2 with more efforts":      sketches["GLM-5.2"] + "['low', 'high']",
	}
	for name, text := range unknown {
		m, err := Detect([]byte(text))
		var te *TemplateError
		if !errors.Is(err, ErrUnknownTemplate) || !errors.As(err, &te) || m.Template != nil {
			t.Errorf("%s: want a TemplateError, have %v, %v", name, m.Template, err)
			continue
		}
		sum := sha256.Sum256([]byte(text))
		if te.Fingerprint != hex.EncodeToString(sum[:]) || !slices.Equal(te.Known, Names()) {
			t.Errorf("%s: fingerprint %s, known %s", name, te.Fingerprint, te.Known)
		}
		for _, n := range Names() {
			if !strings.Contains(err.Error(), n) {
				t.Errorf("%s: %q does not name %s", name, err, n)
			}
		}
	}
}

// Every published fingerprint names a template, with and without the line break
// at its end. The files themselves are not in the repository, so the table is
// tested with one of ours in it.
func TestDetectPublished(t *testing.T) {
	for sum, name := range published {
		if _, err := Named(name); err != nil || len(sum) != 2*sha256.Size {
			t.Errorf("%s %s: %v", sum, name, err)
		}
	}
	for _, listed := range []string{"text", "text\n"} {
		sum := fingerprint([]byte(listed))
		published[sum] = "GLM-5.1"
		for _, file := range []string{"text", "text\n"} {
			m, err := Detect([]byte(file))
			if err != nil || !m.Exact || m.Template.Name() != "GLM-5.1" || m.Fingerprint != fingerprint([]byte(file)) {
				t.Errorf("listed %q, file %q: have %+v, %v", listed, file, m, err)
			}
		}
		delete(published, sum)
	}
}

// TestDetectFiles looks at files outside the repository: their base names begin
// with the template they must be recognised as, exactly.
func TestDetectFiles(t *testing.T) {
	dir := os.Getenv("CHAT_TEMPLATES")
	if dir == "" {
		t.Skip("CHAT_TEMPLATES names no folder of chat templates")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jinja"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates in %s: %v", dir, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Detect(data)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if !m.Exact || !strings.HasPrefix(filepath.Base(file), m.Template.Name()) {
			t.Errorf("%s: have %s, exact %t", file, m.Template.Name(), m.Exact)
		}
		// The features say the same of a copy with a blank more.
		again, err := Detect(append(data, ' '))
		if err != nil || again.Exact || again.Template.rules != m.Template.rules {
			t.Errorf("%s with a blank: have %+v, %v", file, again, err)
		}
	}
}

func TestNamed(t *testing.T) {
	for _, name := range Names() {
		for _, spelling := range []string{name, strings.ToLower(name)} {
			tmpl, err := Named(spelling)
			if err != nil || tmpl.Name() != name {
				t.Errorf("%s: have %v, %v", spelling, tmpl, err)
			}
		}
	}
	_, err := Named("GLM-6")
	var te *TemplateError
	if !errors.As(err, &te) || te.Name != "GLM-6" || te.Fingerprint != "" || !strings.Contains(err.Error(), `"GLM-6"`) {
		t.Errorf("want a TemplateError for GLM-6, have %v", err)
	}
}

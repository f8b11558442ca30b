package chat

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// FuzzDetect takes any file for a chat template: it is one that is known, by its
// digest or by all of its features, or a typed error that names the digest.
func FuzzDetect(f *testing.F) {
	f.Add([]byte("[gMASK]<sop>"))
	for _, rule := range features {
		f.Add([]byte("[gMASK]<sop>" + strings.Join(rule.holds, " ")))
		f.Add([]byte("[gMASK]<sop>" + strings.Join(slices.Concat(rule.holds, rule.lacks), "\n")))
		f.Add([]byte(strings.Join(rule.holds, " ")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Detect(data)
		if err != nil {
			e, ok := errors.AsType[*TemplateError](err)
			if !ok || !errors.Is(err, ErrUnknownTemplate) || e.Fingerprint != fingerprint(data) || m.Template != nil {
				t.Fatalf("%#v beside %#v", m, err)
			}
			return
		}
		if m.Template == nil || !slices.Contains(Names(), m.Template.Name()) || m.Fingerprint != fingerprint(data) {
			t.Fatalf("%#v", m)
		}
		if _, listed := published[m.Fingerprint]; m.Exact && !listed {
			_, shorter := published[fingerprint([]byte(strings.TrimSuffix(string(data), "\n")))]
			_, longer := published[fingerprint(append(slices.Clone(data), '\n'))]
			if !shorter && !longer {
				t.Fatalf("%s is exact and not published", m.Fingerprint)
			}
		}
		if !m.Exact && !strings.Contains(string(data), "[gMASK]<sop>") {
			t.Fatalf("recognised as %s without the words that every template has", m.Template.Name())
		}
	})
}

package agent

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// A conversation with everything in it: parallel calls, a bad call, text that is
// no UTF-8, control tokens as text, two messages of the user.
var saga = []string{
	asks(wire("shout", "word", "a<b>&\u2028"), wire("bytes"), "<tool_call>shout<arg_key>word</tool_call>"),
	"</think>" + wire("gone") + wire("shout", "word", "<|user|>") + "<|observation|>",
	says("First."),
	says("Second. And more."),
}

var sagaTalk = []string{"Begin with <think> \xff\xfe.", "Go on."}

func sagaTools() []Tool {
	return []Tool{shout(), Func("bytes", "", func(context.Context, struct{}) (string, error) { return "\xf0\x28 <|user|>", nil })}
}

// play drives an agent to the end of the saga, whatever part of it has been.
func play(a *Agent, s *script) error {
	// What was said is in the conversation; the script goes on behind it.
	said, told := 0, 0
	for _, m := range a.messages {
		switch m.Role {
		case glm.Assistant:
			said++
		case glm.User:
			told++
		}
	}
	s.replies = slices.Clone(saga[said:])
	if a.Unfinished() {
		if _, err := collect(a.Continue(context.Background())); err != nil {
			return err
		}
	}
	for ; told < len(sagaTalk); told++ {
		if _, err := collect(a.Run(context.Background(), sagaTalk[told])); err != nil {
			return err
		}
	}
	return nil
}

// Cut wherever, a transcript is taken up, and every prompt from there on is
// the one that was fed without the interruption, id for id.
func TestResumeWherever(t *testing.T) {
	m, pool := openFixture(t, glm.PoolConfig{})
	name := filepath.Join(t.TempDir(), "transcript")
	config := Config{Tools: sagaTools(), System: "Be \xff brief.", Transcript: name}
	start := func() (*Agent, *script) {
		a, err := New(m, pool, config)
		if err != nil {
			t.Fatal(err)
		}
		s := &script{model: m}
		a.generate = s.generate
		return a, s
	}
	a, s := start()
	if err := play(a, s); err != nil {
		t.Fatal(err)
	}
	final, err := a.Prompt()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Fatal(err)
	}
	prompts := s.prompts
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(prompts) != len(saga) || bytes.Count(whole, []byte("\n")) != 1+2+4+5 {
		t.Fatalf("%d prompts, transcript of %d lines", len(prompts), bytes.Count(whole, []byte("\n")))
	}
	for cut := range len(whole) + 1 {
		// Around the ends of lines every byte counts; within a line all are alike.
		around := whole[max(cut-2, 0):min(cut+2, len(whole))]
		if cut%9 != 0 && (testing.Short() || !bytes.ContainsRune(around, '\n')) {
			continue
		}
		if err := os.WriteFile(name, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		a, s := start()
		left := len(prompts)
		if err := play(a, s); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if left -= len(s.prompts); left < 0 {
			t.Fatalf("cut at %d: %d prompts too many", cut, -left)
		}
		for i, p := range s.prompts {
			if !slices.Equal(p, prompts[left+i]) {
				t.Fatalf("cut at %d: prompt %d differs", cut, left+i)
			}
		}
		if last, err := a.Prompt(); err != nil || !slices.Equal(last, final) {
			t.Fatalf("cut at %d: the conversation ends otherwise, %v", cut, err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if again, err := os.ReadFile(name); err != nil || !slices.Equal(sorted(again), sorted(whole)) {
			t.Fatalf("cut at %d: the transcript came out otherwise, %v", cut, err)
		}
	}
}

// sorted returns the lines of a transcript without their order: results of one
// reply are written as they come.
func sorted(data []byte) []string { return slices.Sorted(strings.Lines(string(data))) }

// What is not a transcript of this agent is refused with the line, and the file is
// left as it is.
func TestTranscriptRefused(t *testing.T) {
	m, pool := openFixture(t, glm.PoolConfig{})
	name := filepath.Join(t.TempDir(), "transcript")
	config := Config{Tools: sagaTools(), Transcript: name}
	a, err := New(m, pool, config)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{model: m}
	a.generate = s.generate
	if err := play(a, s); err != nil {
		t.Fatal(err)
	}
	a.Close()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	lines = lines[:len(lines)-1]
	swap := func(i int, old, new string) string {
		changed := slices.Clone(lines)
		if changed[i] = strings.Replace(changed[i], old, new, 1); changed[i] == lines[i] {
			t.Fatalf("line %d has no %s", i+1, old)
		}
		return strings.Join(changed, "")
	}
	other := config
	other.System = "Else."
	fewer := config
	fewer.Tools = fewer.Tools[:1]
	loud := config
	loud.Effort = glm.EffortLow
	for what, test := range map[string]struct {
		data   string
		line   int
		config Config
	}{
		"no JSON":            {swap(3, `{`, `(`), 4, config},
		"a value behind it":  {swap(3, "\n", " {}\n"), 4, config},
		"two things":         {swap(1, `{`, `{"result":{"call":0,"text":""},`), 2, config},
		"nothing":            {lines[0] + "{}\n", 2, config},
		"unknown key":        {swap(1, `"user"`, `"owner"`), 2, config},
		"no head":            {strings.Join(lines[1:], ""), 1, config},
		"two heads":          {lines[0] + string(data), 2, config},
		"another format":     {swap(0, `"format":1`, `"format":2`), 1, config},
		"another tokenizer":  {swap(0, `"tokenizer":"`, `"tokenizer":"0`), 1, config},
		"another template":   {swap(0, `GLM-5.3`, `GLM-5.2`), 1, config},
		"another system":     {string(data), 1, other},
		"other tools":        {string(data), 1, fewer},
		"another effort":     {string(data), 1, loud},
		"id out of range":    {swap(2, `"ids":[`, `"ids":[9999,`), 3, config},
		"negative id":        {swap(2, `"ids":[`, `"ids":[-1,`), 3, config},
		"other ids":          {swap(2, `"ids":[`, `"ids":[65,`), 3, config},
		"other text":         {swap(2, `I think.`, `I thought.`), 3, config},
		"reply to nothing":   {lines[0] + lines[2], 2, config},
		"reply before calls": {lines[0] + lines[1] + lines[2] + lines[2], 4, config},
		"user before calls":  {lines[0] + lines[1] + lines[2] + lines[1], 4, config},
		"result twice":       {lines[0] + lines[1] + lines[2] + lines[3] + lines[3], 5, config},
		"result of nothing":  {lines[0] + lines[1] + lines[3], 3, config},
	} {
		if err := os.WriteFile(name, []byte(test.data), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := New(m, pool, test.config)
		e, ok := errors.AsType[*TranscriptError](err)
		if !ok || !errors.Is(err, ErrTranscript) || e.Line != test.line || e.File != name {
			t.Errorf("%s: %v", what, err)
			if err == nil {
				a.Close()
			}
			continue
		}
		if strings.Contains(err.Error(), "Begin") || strings.Contains(err.Error(), "think.") {
			t.Errorf("%s: the error holds text of the conversation: %v", what, err)
		}
		if after, err := os.ReadFile(name); err != nil || string(after) != test.data {
			t.Errorf("%s: the file was changed, %v", what, err)
		}
	}
	config.Transcript = filepath.Join(t.TempDir(), "no", "folder")
	_, err = New(m, pool, config)
	if !errors.Is(err, ErrTranscript) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// A result that cannot be saved ends the run and is not part of the conversation.
func TestTranscriptNotWritable(t *testing.T) {
	a, _ := scripted(t, Config{Tools: []Tool{shout()}, Transcript: filepath.Join(t.TempDir(), "transcript")},
		asks(wire("shout", "word", "x")), says("Done."))
	for ev, err := range a.Run(t.Context(), "Go.") {
		if err != nil {
			if !errors.Is(err, ErrTranscript) || !errors.Is(err, os.ErrClosed) {
				t.Errorf("%v", err)
			}
			break
		}
		if _, ok := ev.(Step); ok {
			a.log.file.Close()
		}
	}
	if len(a.due) != 1 || a.due[0].given {
		t.Errorf("due %+v", a.due)
	}
}

package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// A transcript is a file of JSON lines: a header, then one line for each thing
// that became part of the conversation, in order. A line is synced before the
// agent goes on. A process that dies leaves at most one line without its end,
// which is dropped when the file is opened again.
type transcript struct {
	mu   sync.Mutex
	file *os.File
	name string
	size int64 // of whole lines
	err  error // set when the file no longer ends in a whole line
}

// format is the version of the lines.
const format = 1

// A line holds exactly one of its fields.
type line struct {
	Head   *head       `json:"head,omitempty"`
	User   *string     `json:"user,omitempty"`
	Reply  *replyLine  `json:"reply,omitempty"`
	Result *resultLine `json:"result,omitempty"`
}

// head is what decides the ids of a prompt besides the messages.
type head struct {
	Format    int             `json:"format"`
	Tokenizer string          `json:"tokenizer"` // SHA-256 of what its ids stand for
	Template  string          `json:"template"`
	Effort    glm.Effort      `json:"effort"`
	System    string          `json:"system"`
	Tools     json.RawMessage `json:"tools"`
}

// replyLine is a reply: IDs count, Message is what they say.
type replyLine struct {
	IDs     []int32     `json:"ids"`
	Message glm.Message `json:"message"`
}

// resultLine is the result of a call of the last reply.
type resultLine struct {
	Call int    `json:"call"` // from 0
	Text string `json:"text"`
}

func (a *Agent) head() (*head, error) {
	h := sha256.New()
	for id := range a.tokens.Size() {
		b := a.tokens.Bytes(int32(id))
		h.Write(append(strconv.AppendInt(nil, int64(len(b)), 10), ':'))
		h.Write(b)
	}
	tools, err := json.Marshal(a.shown)
	return &head{
		Format: format, Tokenizer: hex.EncodeToString(h.Sum(nil)), Template: a.renderer.Template().Name(),
		Effort: a.config.Effort, System: a.config.System, Tools: tools,
	}, err
}

// openTranscript opens or creates a transcript and takes the conversation up.
func openTranscript(name string, a *Agent) (*transcript, error) {
	want, err := a.head()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &TranscriptError{File: name, Err: err}
	}
	t := &transcript{file: f, name: name}
	if err := t.open(a, want); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

func (t *transcript) open(a *Agent, want *head) error {
	data, err := io.ReadAll(t.file)
	if err != nil {
		return &TranscriptError{File: t.name, Err: err}
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	number := 0
	for text := range bytes.Lines(whole) {
		number++
		if err := t.replay(a, want, number, text); err != nil {
			return err
		}
	}
	t.size = int64(len(whole))
	if len(whole) < len(data) {
		if err := t.file.Truncate(t.size); err != nil {
			return &TranscriptError{File: t.name, Err: err}
		}
	}
	if number > 0 {
		return nil
	}
	if err := t.append(line{Head: want}); err != nil {
		return err
	}
	syncFolder(filepath.Dir(t.name))
	return nil
}

// replay makes a line part of the conversation.
func (t *transcript) replay(a *Agent, want *head, number int, text []byte) error {
	bad := func(want, have string) error {
		return &TranscriptError{File: t.name, Line: number, Want: want, Have: have}
	}
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return bad("a line of a transcript", "something else")
	}
	if _, err := d.Token(); err != io.EOF {
		return bad("one JSON value in a line", "something behind it")
	}
	if n := l.things(); n != 1 {
		return bad("one thing in a line", strconv.Itoa(n))
	}
	if (number == 1) != (l.Head != nil) {
		return bad("a head in the first line and nowhere else", "another line")
	}
	switch {
	case l.Head != nil:
		return l.Head.compare(want, bad)
	case l.User != nil:
		if len(a.due) > 0 {
			return bad("the results of all calls first", "a message of the user")
		}
		a.tell(*l.User)
	case l.Reply != nil:
		return a.replayReply(l.Reply, bad)
	case l.Result != nil:
		if n := l.Result.Call; n < 0 || n >= len(a.due) || a.due[n].given {
			return bad("the result of a call that waits for it", "call "+strconv.Itoa(n))
		}
		a.answered(l.Result.Call, l.Result.Text)
	}
	return nil
}

// things counts what a line holds.
func (l *line) things() (n int) {
	for _, there := range []bool{l.Head != nil, l.User != nil, l.Reply != nil, l.Result != nil} {
		if there {
			n++
		}
	}
	return n
}

// replayReply reads the ids of a reply again.
func (a *Agent) replayReply(l *replyLine, bad func(want, have string) error) error {
	if !a.Unfinished() || len(a.due) > 0 {
		return bad("something to reply to first", "a reply")
	}
	for _, id := range l.IDs {
		if id < 0 || int(id) >= a.tokens.Size() {
			return bad("ids below "+strconv.Itoa(a.tokens.Size()), strconv.Itoa(int(id)))
		}
	}
	p, err := a.render()
	if err != nil {
		return err
	}
	t, err := a.newTurn(p)
	if err != nil {
		return err
	}
	t.read(l.IDs...)
	t.end()
	read, err1 := json.Marshal(t.message(p, len(a.messages)))
	saved, err2 := json.Marshal(l.Message)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if !bytes.Equal(read, saved) {
		return bad("ids that say what the message says", "others")
	}
	a.said(p, t)
	return nil
}

// compare refuses to go on with another model or other tools: the ids would mean
// something else.
func (h *head) compare(want *head, bad func(want, have string) error) error {
	for _, f := range []struct{ name, want, have string }{
		{"format", strconv.Itoa(want.Format), strconv.Itoa(h.Format)},
		{"tokenizer", want.Tokenizer, h.Tokenizer},
		{"template", want.Template, h.Template},
		{"effort", string(want.Effort), string(h.Effort)},
		{"system", want.System, h.System},
		{"tools", string(want.Tools), string(h.Tools)},
	} {
		if f.want != f.have {
			return bad("the "+f.name+" that this agent has", "another")
		}
	}
	return nil
}

// append writes and syncs a line. A nil transcript keeps nothing.
func (t *transcript) append(l line) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(l)
	if err == nil {
		_, err = t.file.WriteAt(b.Bytes(), t.size)
	}
	if err == nil {
		err = t.file.Sync()
	}
	if err != nil {
		err = &TranscriptError{File: t.name, Err: err}
		if cut := t.file.Truncate(t.size); cut != nil {
			t.err = err
		}
		return err
	}
	t.size += int64(b.Len())
	return nil
}

// close closes the file. Idempotent.
func (t *transcript) close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil
	}
	err := t.file.Close()
	t.file, t.err = nil, &TranscriptError{File: t.name, Err: os.ErrClosed}
	return err
}

// syncFolder makes a new name in a folder last. Where folders cannot be synced
// there is nothing to be done.
func syncFolder(dir string) {
	if d, err := os.Open(dir); err == nil {
		d.Sync()
		d.Close()
	}
}

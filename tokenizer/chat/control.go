package chat

// A control is a token that structures a prompt. Template code emits it by its
// number; no text is ever turned into one.
type control uint8

const (
	ctlMask control = iota
	ctlStart
	ctlSystem
	ctlUser
	ctlAssistant
	ctlObservation
	ctlEndOfText
	ctlThink
	ctlThinkEnd
	ctlCall
	ctlCallEnd
	ctlResult
	ctlResultEnd
	ctlKey
	ctlKeyEnd
	ctlValue
	ctlValueEnd
	ctlNoThink
	controlCount
)

// controlText is what each control token looks like in a rendered string, and
// the name it has in the vocabulary.
var controlText = [controlCount]string{
	ctlMask:        "[gMASK]",
	ctlStart:       "<sop>",
	ctlSystem:      "<|system|>",
	ctlUser:        "<|user|>",
	ctlAssistant:   "<|assistant|>",
	ctlObservation: "<|observation|>",
	ctlEndOfText:   "<|endoftext|>",
	ctlThink:       "<think>",
	ctlThinkEnd:    "</think>",
	ctlCall:        "<tool_call>",
	ctlCallEnd:     "</tool_call>",
	ctlResult:      "<tool_response>",
	ctlResultEnd:   "</tool_response>",
	ctlKey:         "<arg_key>",
	ctlKeyEnd:      "</arg_key>",
	ctlValue:       "<arg_value>",
	ctlValueEnd:    "</arg_value>",
	ctlNoThink:     "/nothink",
}

// An output receives a prompt piece by piece. With a renderer it makes ids;
// without one it makes the string that the reference template would print.
type output struct {
	renderer *Renderer // nil: text only
	ids      []int32
	// segment is the text since the last control token. Text of the template
	// and of the conversation stand in it side by side and are encoded together,
	// because that is how the reference encodes the rendered string: it cuts at
	// added tokens only.
	segment []byte
}

// text adds text, the template's own or untrusted: it makes no difference, for
// neither can become a control token.
func (o *output) text(s string) { o.segment = append(o.segment, s...) }

func (o *output) control(c control) {
	if o.renderer == nil {
		o.segment = append(o.segment, controlText[c]...)
		return
	}
	o.flush()
	o.ids = append(o.ids, o.renderer.controls[c])
}

// flush encodes the segment.
func (o *output) flush() {
	if o.renderer != nil && len(o.segment) > 0 {
		o.ids = o.renderer.tokens.Encode(o.ids, string(o.segment))
		o.segment = o.segment[:0]
	}
}

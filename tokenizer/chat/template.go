package chat

import "strings"

// A Template is one generation's way to print a conversation. Get one from
// [Named] or [Detect].
type Template struct {
	name string
	rules
}

// rules is what sets the generations apart. All else, they share.
type rules struct {
	lines       bool // line breaks between elements: after role tokens, around calls and results
	noThink     bool // thinking off: /nothink at the end of each message of the user
	opens       bool // the generation prompt opens the reasoning
	alwaysThink bool // thinking cannot be turned off
	strips      bool // white space around shown reasoning goes
	trims       bool // line breaks around reasoning found in the content go, before it counts as empty
	showsEmpty  bool // reasoning that is stated and empty is shown, where hidden looks different
	effort      effortRule
	past        pastRule
	hidden      hiddenRule // what stands where no reasoning is shown
	off         hiddenRule // and at the end of the prompt with thinking off
	innerTools  bool       // a tool is its inner object, without defer_loading and strict
	references  bool       // a tool result may declare deferred tools
	splits      bool       // each element of a list in a tool result is a result
	reorders    bool       // results stand in the order of their calls
}

// An effortRule says which efforts a template prints.
type effortRule uint8

const (
	effortNowhere effortRule = iota
	effortHighMax            // and none if thinking is off
	effortLowHighMax
)

// A pastRule says when reasoning before the last message of the user is shown.
type pastRule uint8

const (
	pastNever pastRule = iota
	pastOnRequest
	pastUnlessCleared
)

// A hiddenRule is a form of "no reasoning".
type hiddenRule uint8

const (
	hiddenEmpty  hiddenRule = iota // <think></think>
	hiddenClosed                   // </think>
	// hiddenRecent is <think></think> in the current turn while thinking is on,
	// </think> otherwise.
	hiddenRecent
)

// The five ways to print, of nine named models. spec: the table "Per generation"
// of the format notes, checked against the released templates (testdata/README.md).
var (
	rules45 = rules{
		lines: true, noThink: true, strips: true,
		hidden: hiddenEmpty, off: hiddenEmpty, splits: true,
	}
	rules47 = rules{
		opens: true, strips: true, trims: true,
		past: pastOnRequest, hidden: hiddenClosed, off: hiddenClosed, splits: true,
	}
	rules51 = rules{
		opens: true, trims: true, showsEmpty: true,
		past: pastOnRequest, hidden: hiddenRecent, off: hiddenClosed,
		innerTools: true, splits: true,
	}
	rules52 = rules{
		opens: true, effort: effortHighMax,
		past: pastOnRequest, hidden: hiddenEmpty, off: hiddenEmpty,
		innerTools: true, references: true,
	}
	rules53 = rules{
		opens: true, alwaysThink: true, effort: effortLowHighMax,
		past: pastUnlessCleared, hidden: hiddenEmpty,
		innerTools: true, references: true, reorders: true,
	}
)

var templates = [...]Template{
	{"GLM-4.5", rules45},
	{"GLM-4.6", rules45},
	{"GLM-4.7", rules47},
	{"GLM-4.7-Flash", rules47},
	{"GLM-5", rules47},
	{"GLM-5.1", rules51},
	{"GLM-5.2", rules52},
	{"GLM-5.3", rules53},
	{"GLM-5.3-Flash", rules53},
}

// Name returns the name of the model generation, such as "GLM-5.2".
func (t *Template) Name() string { return t.name }

// Names returns the names that [Named] knows, oldest generation first.
func Names() []string {
	names := make([]string, len(templates))
	for i := range templates {
		names[i] = templates[i].name
	}
	return names
}

// Named returns the template of this name; upper and lower case are the same. A
// name that is not in [Names] is a [*TemplateError].
func Named(name string) (*Template, error) {
	for i := range templates {
		if strings.EqualFold(templates[i].name, name) {
			return &templates[i], nil
		}
	}
	return nil, &TemplateError{Name: name, Known: Names()}
}

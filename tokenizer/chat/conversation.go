package chat

// A Conversation is everything a prompt is made of.
type Conversation struct {
	Messages []Message
	Tools    []Tool
	Effort   Effort
	Past     Past
}

// An Effort says how much the model should think before it answers. Its values
// are those of reasoning_effort in the OpenAI API.
type Effort string

// The efforts. What a template does not know it renders as its own rule says:
//
//	              GLM-4.5, 4.6   GLM-4.7, 5, 5.1   GLM-5.2   GLM-5.3
//	default       model decides  thinks            Max       Max
//	none          does not       does not          does not  Max (cannot be turned off)
//	low           model decides  thinks            Max       Low
//	medium        model decides  thinks            Max       Max
//	high          model decides  thinks            High      High
//	max           model decides  thinks            Max       Max
const (
	EffortDefault Effort = ""
	EffortNone    Effort = "none"
	EffortLow     Effort = "low"
	EffortMedium  Effort = "medium"
	EffortHigh    Effort = "high"
	EffortMax     Effort = "max"
)

// valid reports whether e is one of the constants.
func (e Effort) valid() bool {
	switch e {
	case EffortDefault, EffortNone, EffortLow, EffortMedium, EffortHigh, EffortMax:
		return true
	}
	return false
}

// Past says what becomes of the reasoning of earlier turns, those before the last
// message of the user. The reasoning of the current turn, between tool calls, is
// always shown. GLM-4.5 and 4.6 never show the past, whatever is asked.
//
// With PastCleared a new message of the user changes the prompt from the first
// assistant message of the turn before, so all that follows it is computed again;
// agent loops want PastKept.
type Past uint8

const (
	PastDefault Past = iota // the template's: kept by GLM-5.3, cleared before
	PastKept
	PastCleared
)

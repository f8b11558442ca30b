package agent

import (
	"context"
	"encoding/json"

	"github.com/cofferdam-ml/cofferdam/glm"
)

// A Tool is a function that the model may call. [Func] makes one of a Go function.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema of the arguments, an object
	// Alone makes calls of the tool wait for the calls before them, and the calls
	// after them wait: for tools that change what others look at.
	Alone bool
	// Call runs the tool. Text and error go to the model; the error as
	// "error: " and its text. Calls of one reply run at the same time.
	Call func(ctx context.Context, arguments json.RawMessage) (string, error)

	err error // what Func found wrong with its argument type
}

// Func makes a tool of a function. In is a struct; its fields are the parameters
// of the tool, named and omitted as encoding/json does. A field is required
// unless it is a pointer or has omitempty or omitzero. The tag jsonschema holds
// the field's description.
//
// Fields are strings, booleans, numbers, slices, maps with string keys, structs,
// [json.RawMessage], any, and types that unmarshal from text. Other types make
// New fail.
//
// Arguments are decoded strictly: one that is missing, unknown or of another type
// is an [ArgumentError], which goes to the model.
func Func[In any](name, description string, f func(context.Context, In) (string, error)) Tool {
	s, err := inferSchema[In]()
	t := Tool{Name: name, Description: description, err: err}
	if err != nil {
		return t
	}
	t.Parameters = s.json
	t.Call = func(ctx context.Context, arguments json.RawMessage) (string, error) {
		var in In
		if err := s.decode(arguments, &in); err != nil {
			return "", err
		}
		return f(ctx, in)
	}
	return t
}

// declaration returns what the model is shown of a tool.
func (t *Tool) declaration() glm.Tool {
	return glm.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
}

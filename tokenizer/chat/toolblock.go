package chat

import (
	"errors"
	"fmt"
)

// Text of the system block that lists the tools.
const (
	toolsHead = "\n# Tools\n\n" +
		"You may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n" +
		"<tools>\n"
	toolsTail = "</tools>\n\n" +
		"For each function call, output the function name and arguments within the following XML format:\n"
)

// toolBlock prints the system block that lists the tools, if there are any. It
// comes before all messages.
func (w *writer) toolBlock() error {
	if len(w.Tools) == 0 {
		return nil
	}
	w.objects = make([]value, len(w.Tools))
	for i := range w.Tools {
		var err error
		if w.objects[i], err = w.Tools[i].object(); err != nil {
			if e := (*RequestError)(nil); errors.As(err, &e) {
				return invalid(e.Reason, "tools[%d].%s", i, e.Field)
			}
			return err
		}
	}
	w.out.control(ctlSystem)
	w.out.text(toolsHead)
	for i := range w.Tools {
		if w.innerTools && w.deferred(i) {
			continue
		}
		w.tool(i)
		w.out.text("\n")
	}
	w.out.text(toolsTail)
	w.example()
	return nil
}

// inner returns the object that describes the function of tool i.
func (w *writer) inner(i int) *value {
	if f := w.objects[i].get("function"); f != nil {
		return f
	}
	return &w.objects[i]
}

func (w *writer) deferred(i int) bool { return w.inner(i).isTrue("defer_loading") }

// tool prints the object of tool i.
func (w *writer) tool(i int) {
	if !w.innerTools {
		w.out.segment = appendPython(w.out.segment, &w.objects[i])
		return
	}
	// The templates since GLM-5.1 print the outermost object by hand and do not
	// escape its keys.
	f := w.inner(i)
	separator := "{"
	for k := range f.list {
		if f.keys[k] == "defer_loading" || f.keys[k] == "strict" {
			continue
		}
		w.out.text(separator + `"` + f.keys[k] + `": `)
		w.out.segment = appendPython(w.out.segment, &f.list[k])
		separator = ", "
	}
	if separator == "{" {
		w.out.text(separator)
	}
	w.out.text("}")
}

// example prints what a call looks like, with its control tokens.
func (w *writer) example() {
	w.out.control(ctlCall)
	w.out.text("{function-name}")
	w.line()
	for n := 1; n <= 2; n++ {
		w.out.control(ctlKey)
		w.out.text(fmt.Sprintf("{arg-key-%d}", n))
		w.out.control(ctlKeyEnd)
		w.line()
		w.out.control(ctlValue)
		w.out.text(fmt.Sprintf("{arg-value-%d}", n))
		w.out.control(ctlValueEnd)
		w.line()
	}
	w.out.text("...")
	w.line()
	w.out.control(ctlCallEnd)
}

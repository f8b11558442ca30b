// Package agent lets a model work: it calls Go functions, sees what they return,
// and goes on until it has an answer.
//
// # Basics
//
// There are three types to know. A [Tool] is a function that the model may call,
// an [Agent] is a conversation with a model that has tools, an [Event] is what
// happens in it.
//
//	type in struct {
//		City string `json:"city" jsonschema:"the name of a city"`
//	}
//	weather := agent.Func("weather", "Tells the weather of a city.",
//		func(ctx context.Context, in in) (string, error) { return "rain", nil })
//
//	a, err := agent.New(model, pool, agent.Config{Tools: []agent.Tool{weather}})
//	defer a.Close()
//	for ev, err := range a.Run(ctx, "Do I need an umbrella in Oslo?") {
//		if err != nil {
//			return err
//		}
//		switch ev := ev.(type) {
//		case agent.TextDelta:
//			fmt.Print(ev.Text)
//		case agent.Done:
//			fmt.Println(ev.Usage.Output, "tokens")
//		}
//	}
//
// [Func] infers the JSON schema of the arguments from the struct. The package
// workspace, below this one, has the tools for working on a folder of source.
//
// # The loop
//
// A run is a list of steps. In each the model replies; if the reply calls tools,
// they run and the next step shows the model their results, if not, the reply is
// the answer. The calls of one reply run at the same time, except for tools that
// must run [Tool.Alone]; the model sees results in the order of the calls.
//
// Whatever goes wrong with a call becomes its result, for the model to read: a
// tool that returns an error or panics, a name that no tool has, arguments that
// do not fit, a call that could not be read at all. All these begin with
// "error: ". The same call failing in the same way again and again ends the run
// with a [RepeatError], and so do budgets of steps and tokens with a
// [BudgetError]: no run goes on for ever.
//
// # Long conversations
//
// Every step feeds the whole conversation with exactly the ids that were sampled
// before, so the session finds their keys in its pool and computes only what is
// new; [Step] says how much that was. Reasoning of earlier turns is kept for the
// same reason, wherever the template can. Nothing is ever cut or summarised: when the
// prompt comes near the limit of the pool a [ContextLow] says so, and a prompt
// that does not fit is refused with a [glm.ContextError].
//
// # Transcripts
//
// With [Config.Transcript] every message is on disk before the next thing happens.
// A program that was killed, at whatever moment, calls [New] with the same
// transcript and then [Agent.Continue]: the next prompt is the one that would have
// come, id for id.
//
// # Caveats
//
// A call whose result is not in the transcript yet is run again after a restart:
// a tool may see the same call twice.
//
// A transcript holds the text of the conversation in clear, readable by its owner
// only. It belongs to one process at a time; nothing locks it. It fits the
// tokenizer, template, tools and system text that it was begun with, and no other.
//
// Run and Continue wait for running tools, also after the context has ended or
// the loop was left: a tool has to return when its context ends.
//
// An Agent is for one goroutine at a time. It owns a session, not the model or
// the pool; the pool must be the model's.
package agent

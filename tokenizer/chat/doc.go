// Package chat turns a conversation into the prompt of a GLM model: messages,
// tools and settings in, token ids out.
//
// There are four types to know: a [Conversation] is what to say, a [Template] is
// how a generation of models wants to read it, a [Renderer] is a template with a
// vocabulary, a [Prompt] is the result.
//
//	tmpl, err := chat.Named("GLM-5.2")
//	r, err := chat.New(tmpl, tokens)
//	p, err := r.Render(chat.Conversation{
//		Messages: []chat.Message{
//			{Role: chat.RoleSystem, Content: "Answer in one word."},
//			{Role: chat.RoleUser, Content: "Capital of France?"},
//		},
//	})
//	// feed p.IDs; len(p.IDs) is what the prompt costs
//
// Rendering is a pure function. It does no I/O, and the same conversation gives
// the same ids.
//
// # Templates
//
// A checkpoint says how it wants to be prompted in its chat_template.jinja.
// Nothing here runs Jinja. The published templates are written in Go, from one
// skeleton and a table of what sets the generations apart, and compared with the
// originals byte by byte (testdata/README.md says how). [Detect] recognises a
// file by its SHA-256, or by the features its generation is known by, and says
// which of the two it was. A file it does not recognise is an error that lists
// the known names: a prompt in the wrong format still gives an answer, only a
// worse one, and nobody would notice. A caller who knows better uses [Named].
//
// [Template.Text] prints the string that the original template prints. It is for
// people and tests. Ids are made by [Renderer.Render].
//
// # Control tokens
//
// The usual way is to print a string and to tokenize it. Then a file that
// contains <|user|> speaks as the user, because the tokenizer cannot know which
// of two equal strings the template wrote. Here the template emits control tokens
// by number and everything else is text: whatever a user, a tool or a file says,
// under whatever name, in a schema, a key or a value, is encoded by
// [tokenizer.Tokenizer.Encode], which knows no control tokens.
//
// For all other text the ids are those of the usual way. The text of the template
// and the text of the conversation that stands next to it are encoded in one
// piece, since a token may span the seam.
//
// # Tools
//
// A [Tool] is printed as JSON exactly as the original prints it: keys in the
// order they came in, ", " and ": " between them, no escaping for HTML, integers
// of any size as they are, other numbers as Python prints a float. The same holds
// for arguments that are not strings; strings are printed as they are, without
// quotes.
//
// Since GLM-5.1 a tool may be deferred: it is not listed at the beginning. Since
// GLM-5.2 a tool result can declare it later, with a [PartToolReference]. GLM-5.3
// wants results in the order of the calls they answer and gets them so, if every
// call and every result has an id and they match; otherwise they stay as sent.
//
// # Reasoning
//
// [Effort] sets how much the model thinks. Since GLM-4.7 the prompt itself opens
// the reasoning, and the reply begins inside it: [Prompt.InReasoning] says so, and
// the reader of the reply has to know. It does not follow from the effort alone,
// for GLM-5.3 thinks even if asked not to.
//
// [Past] sets whether the reasoning of earlier turns is shown again. The default
// is that of the template, and it differs: GLM-5.3 keeps, the others clear.
//
// # Continuing
//
// A model does not sample the ids that an encoder would choose for the same text.
// If a reply is encoded anew in the next turn, the ids differ from those the model
// has in its cache and everything after them is computed again. So the one who
// samples attaches the ids to the message with [Prompt.Reply], and Render replays
// them: the next prompt begins with the last prompt and the ids that followed it.
// A message that was edited is encoded from its text.
//
// # Caveats
//
//   - Content that is null is empty. The released templates up to the first
//     GLM-5.3-Flash print the word None; that is a mistake of theirs.
//   - The role developer is rendered as system. The templates drop it silently.
//   - Images, audio and video are refused by name. So is everything else that a
//     template would drop without a word, such as an unknown role.
//   - With thinking off, GLM-4.5 and 4.6 end each message of the user with the
//     control token /nothink, also if the user wrote it. That is the caller's
//     setting. With thinking on, /nothink in a message is mere text.
//   - White space at the ends of an assistant's content is not rendered, as in
//     the originals, and </think> in it separates reasoning from answer if the
//     message has no reasoning of its own.
//   - Up to GLM-5.1 a tool result with a list of parts is printed as several
//     results, one for each part, as the originals do; they print a text part as
//     a Python dict, here it is its text.
//   - Ids of calls join results to calls and are not part of any prompt.
//   - GLM-5.3-Flash of 26 August 2026, the first upload, is not recognised.
package chat

// Package tokenizer turns text into the token ids of a GLM model and back.
//
// # Basics
//
// There are two types. A [Tokenizer] is a vocabulary; it is made once, from the
// tokenizer.json of a checkpoint ([Load], [Parse]) or from a rank file
// ([ParseRanks]), never changes, and serves any number of goroutines. A [Decoder]
// is one stream of ids on its way to becoming text.
//
//	tok, err := tokenizer.Load(os.DirFS(dir))
//	ids := tok.Encode(nil, "Hello, world!")
//	text := tok.Decode(ids)
//
// Encode and the Decoder append to a slice that the caller owns and do not
// allocate for each token.
//
// # How text becomes ids
//
// First the text is cut into pieces by a fixed pattern: a word with the blank
// before it, up to three digits, a run of marks, a run of blanks. Then each piece
// is encoded by itself with byte-level byte-pair encoding: it starts as single
// bytes, each of which is a token, and the two neighbouring tokens with the lowest
// rank are merged into one until none merge. So ids depend on what stands around
// a text only as far as the piece reaches: encoding "a" and "b" apart is not the
// same as encoding "ab".
//
// # Added tokens and untrusted text
//
// Beside the vocabulary stand added tokens: <|user|>, <think>, <tool_call> and so
// on; [Tokenizer.ID] finds them by their text and [GLMAdded] lists them. They are
// what gives a prompt its structure, so text must not be able to forge them:
// [Tokenizer.Encode] never yields one. A program that builds prompts puts the ids
// of control tokens between texts that it encodes with Encode, which is what
// package chat does. [Tokenizer.EncodeWithAdded] is for text that is trusted
// whole, such as a rendered template in a test.
//
// # Streaming
//
// A character may be spread over several tokens. A [Decoder] holds bytes back
// until they make up a character, so what it gives out is always valid UTF-8 and
// its sum does not depend on where it was cut.
//
// # Bytes that are not UTF-8
//
// The reference tokenizers take only valid text. Here any bytes may be encoded
// and come back exactly ([Tokenizer.Raw]): a byte that is no part of well-formed
// UTF-8 counts as a mark, the class of U+FFFD, when text is cut into pieces, and
// is merged like every other byte. For valid text the ids are those of the
// references; the folder differential holds the comparison.
//
// # Errors
//
// A file that is broken gives a [*FormatError] (matches [ErrFormat]) with the
// field, the byte offset, what was wanted and what is there. A sound file that
// wants something else than GLM vocabularies do, such as a normalizer or another
// split pattern, is refused with an [*UnsupportedError] (matches
// [ErrUnsupported]) that names it: half-supported settings would give plausible,
// wrong ids. No error holds text that was to be encoded.
//
// # Caveats
//
//   - Ids need not be dense. [Tokenizer.Size] is the highest id plus one; ids
//     without a token have nil [Tokenizer.Bytes] and decode to nothing. The model's
//     vocab_size is larger still: the rest of its logits belongs to no token.
//   - The slice that Bytes returns is part of the vocabulary. Writing to it
//     corrupts the Tokenizer.
//   - Nothing is added to the text: no token that begins or ends it, whatever the
//     post_processor of the file says.
//   - An added token that the file also lists in the vocabulary cannot be made of
//     plain text, and neither can tokens that only merge by way of it. The
//     references would make it.
//   - A piece that is long, as a megabyte of one letter is, needs 24 bytes of
//     working memory for each of its bytes while it is encoded. Pieces are cut at
//     64 MiB.
//   - The classes of characters are those of Unicode 16, as in the references, no
//     matter which Unicode the Go version has.
package tokenizer

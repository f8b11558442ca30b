package tokenizer_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/cofferdam-ml/cofferdam/tokenizer"
)

// small returns a tokenizer with the 256 bytes, a few tokens more and the added
// tokens of GLM.
func small() *tokenizer.Tokenizer {
	var ranks strings.Builder
	for i := range 256 {
		fmt.Fprintln(&ranks, base64.StdEncoding.EncodeToString([]byte{byte(i)}), i)
	}
	for i, token := range []string{"he", "ll", "hell", "hello", " w", " wo", "rl", "rld", " world"} {
		fmt.Fprintln(&ranks, base64.StdEncoding.EncodeToString([]byte(token)), 256+i)
	}
	tok, err := tokenizer.ParseRanks([]byte(ranks.String()), tokenizer.GLMAdded(300))
	if err != nil {
		panic(err)
	}
	return tok
}

func Example() {
	tok := small()
	ids := tok.Encode(nil, "hello world!")
	fmt.Println(ids)
	for _, id := range ids {
		fmt.Printf("%q ", tok.Bytes(id))
	}
	fmt.Println(tok.Decode(ids))
	// Output:
	// [259 264 33]
	// "hello" " world" "!" hello world!
}

// A prompt is built from ids of control tokens and encoded text. What the text
// says cannot become a control token.
func ExampleTokenizer_Encode() {
	tok := small()
	user, _ := tok.ID("<|user|>")
	assistant, _ := tok.ID("<|assistant|>")

	prompt := []int32{user}
	prompt = tok.Encode(prompt, "<|user|>")
	prompt = append(prompt, assistant)
	fmt.Println(prompt)
	// Output: [307 60 124 117 115 101 114 124 62 308]
}

// Text that is trusted whole may hold control tokens.
func ExampleTokenizer_EncodeWithAdded() {
	tok := small()
	fmt.Println(tok.EncodeWithAdded(nil, "<|user|>hello<|assistant|>"))
	// Output: [307 259 308]
}

// A Decoder gives text out as soon as it is complete.
func ExampleDecoder() {
	tok := small()
	d := tok.NewDecoder()
	var text []byte
	for _, id := range tok.Encode(nil, "né🎉") { // all single bytes here
		text = d.Append(text[:0], id)
		fmt.Printf("%q ", text)
	}
	fmt.Printf("%q\n", d.Flush(nil))
	// Output: "n" "" "é" "" "" "" "🎉" ""
}

// Errors name the setting, or the place in the file.
func ExampleParse() {
	_, err := tokenizer.Parse([]byte(`{"model": {"type": "Unigram", "vocab": {}, "merges": []}}`))
	fmt.Println(errors.Is(err, tokenizer.ErrUnsupported))
	fmt.Println(err)
	// Output:
	// true
	// tokenizer: unsupported vocabulary: tokenizer.json: model.type is "Unigram", supported: "BPE"
}

package corpus

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

func (w *writer) sentence(words []string, between, end string) {
	n := 4 + w.below(16)
	for i := range n {
		word := w.pick(words)
		switch {
		case i == 0 || w.one(4):
			r, size := utf8.DecodeRuneInString(word)
			word = strings.ToUpper(string(r)) + word[size:]
		case w.one(1):
			word = strings.ToUpper(word)
		case w.one(3):
			word = `"` + word + `"`
		case w.one(2):
			word = strconv.Itoa(w.below(3000))
		}
		w.WriteString(word)
		switch {
		case i == n-1:
			w.WriteString(end)
		case w.one(10):
			w.WriteString("," + between)
		case w.one(2):
			w.WriteString(" (" + w.pick(words) + ") ")
		case w.one(1):
			w.WriteString(" - ")
		default:
			w.WriteString(between)
		}
	}
	w.WriteString([]string{" ", " ", " ", "\n", "\n\n", "  ", "\r\n"}[w.below(7)])
}

func (w *writer) chinese() {
	for range 3 + w.below(20) {
		for range 2 + w.low(12) {
			if w.one(2) { // any Han character, rare ones too
				w.rune(0x4E00, 0x9FA5)
				continue
			}
			w.WriteString(han[w.low(len(han))])
		}
		switch {
		case w.one(5):
			w.WriteString(" " + w.pick(english) + " ")
		case w.one(5):
			w.WriteString(strconv.Itoa(w.below(2100)) + "年")
		case w.one(3):
			w.WriteString("「" + han[w.low(len(han))] + "」")
		default:
			w.WriteString([]string{"，", "，", "。", "、", "？", "！", "：", "；", "……", "\n", "。\n\n"}[w.below(11)])
		}
	}
}

func (w *writer) emoji() {
	for range 1 + w.below(6) {
		switch w.below(6) {
		case 0:
			w.rune(0x1F600, 0x1F64F)
		case 1:
			w.rune(0x1F300, 0x1F5FF)
			w.rune(0x1F3FB, 0x1F3FF) // skin tone
		case 2:
			w.WriteString("👩\u200D" + []string{"💻", "🚀", "🔬", "❤\uFE0F\u200D👨"}[w.below(4)])
		case 3: // a flag
			w.rune(0x1F1E6, 0x1F1FF)
			w.rune(0x1F1E6, 0x1F1FF)
		case 4:
			w.rune(0x2600, 0x27BF)
			w.WriteString("\uFE0F")
		case 5: // keycap
			w.WriteString(strconv.Itoa(w.below(10)) + "\uFE0F\u20E3")
		}
	}
	if w.one(50) {
		w.WriteString(" " + w.pick(english))
	}
	if w.one(30) {
		w.WriteString(" ")
	}
}

var blankRunes = []string{
	" ", " ", " ", " ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\u0085", "\u00A0", "\u1680", "\u2000", "\u2003", "\u200A",
	"\u2028", "\u2029", "\u202F", "\u205F", "\u3000",
	"\u200B", "\uFEFF", "\u180E", "\u001C", "\u001F", // these look it but are not
}

func (w *writer) blanks() {
	for range 1 + w.below(4) {
		w.WriteString(strings.Repeat(w.pick(blankRunes), 1+w.low(40)))
	}
	if w.one(30) {
		for range 1 + w.below(8) {
			w.WriteString(blankRunes[w.below(len(blankRunes))])
		}
	}
	if w.one(70) {
		w.WriteString([]string{"x", "word", "1", "12345", "!", "...", "'s", "'ll", "世", "é", "🎉", "\u0301", "_a"}[w.below(13)])
	}
}

func (w *writer) digits() {
	switch w.below(7) {
	case 0:
		w.WriteString(strconv.FormatUint(w.next()>>w.below(64), 10))
	case 1:
		w.WriteString(strconv.FormatFloat(float64(w.below(1<<30))/1000, 'f', w.below(8), 64))
	case 2:
		w.WriteString("20" + strconv.Itoa(10+w.below(90)) + "-0" + strconv.Itoa(1+w.below(9)) + "-" + strconv.Itoa(10+w.below(18)) + "T12:" + strconv.Itoa(10+w.below(50)))
	case 3:
		for range 3 + w.below(8) {
			w.WriteString(strconv.Itoa(w.below(100000)) + "\t")
		}
	case 4:
		for range 1 + w.low(200) {
			w.WriteByte(byte('0' + w.below(10)))
		}
	case 5: // digits, fractions and numerals of other scripts
		for range 1 + w.below(9) {
			zero := []rune{'٠', '०', '０', '๐', '𝟎', '½', 'Ⅷ', '①', '㉑', '〇'}[w.below(10)]
			w.rune(zero, zero+1)
		}
	case 6:
		w.WriteString("0x" + strconv.FormatUint(w.next(), 16))
	}
	w.WriteString([]string{" ", ",", ", ", "\n", ".", "a", "%", ""}[w.below(8)])
}

func (w *writer) marks() {
	for range 1 + w.below(8) {
		w.WriteString([]string{"a", "e", "o", "Z", "क", "ن", "ก", "한", " ", "1", "-"}[w.below(11)])
		for range w.low(12) {
			w.rune(0x0300, 0x036F)
		}
		if w.one(10) {
			w.rune(0x0900, 0x0903)
		}
	}
	w.WriteString([]string{" ", "\n", ""}[w.below(3)])
}

var suffixes = []string{
	"s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "Ve", "vE", "M", "LL", "lL", "D", "\u017F", "\u017Ft", "\u212A",
	"r", "l", "v", "e", "x", "", "rf", "la", "1", " s", "'s", "ß", "st", "so", "tell", "dare", "sé", "s\u0301", "\uFB06", "\u0149",
}

func (w *writer) contraction() {
	if w.one(80) {
		w.WriteString(w.pick(english))
	}
	w.WriteString([]string{"'", "'", "'", "'", "\u2019", "`", " '", "''", "\u02BC", "\uFF07"}[w.below(10)])
	w.WriteString(suffixes[w.below(len(suffixes))])
	w.WriteString([]string{" ", " ", "", "\n", ".", "'"}[w.below(6)])
}

func (w *writer) soup() {
	for range 1 + w.below(30) {
		r := rune(w.below(0x110000))
		switch w.below(4) {
		case 0:
			r = rune(w.below(0x80))
		case 1:
			r = rune(w.below(0x3000))
		case 2:
			r = rune(w.below(0x20000))
		}
		if utf8.ValidRune(r) {
			w.WriteRune(r)
		}
	}
}

func (w *writer) run() {
	unit := []string{" ", "a", "ab", "\n", "\t", "=", "-", "0", "世", "é", "👍", "\u0301", " x", "\r\n", "the ", "Aa", "'s", "_"}[w.below(18)]
	w.WriteString(strings.Repeat(unit, 1+w.low(5000)))
	w.WriteString([]string{"", " ", "\n", "z", "!", "7"}[w.below(6)])
}

var controls = []string{
	"<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>",
	"<|observation|>", "<|begin_of_image|>", "<|code_prefix|>", "<think>", "</think>", "<tool_call>", "</tool_call>",
	"<tool_response>", "</tool_response>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "/nothink",
	"<|begin_of_box|>", "<|image|>", "<|video|>",
}

func (w *writer) control() {
	for range 1 + w.below(4) {
		c := controls[w.below(len(controls))]
		switch w.below(8) {
		case 0: // cut
			c = c[:w.below(len(c))]
		case 1: // one in another
			i := w.below(len(c))
			c = c[:i] + controls[w.below(len(controls))] + c[i:]
		case 2: // with a character of another case or width
			c = strings.ToUpper(c)
		}
		w.WriteString(c)
		w.WriteString([]string{"", "", " ", "\n", "  ", "a", "1", ">", "<", "'s"}[w.below(10)])
	}
	if w.one(60) {
		w.WriteString(w.pick(english) + []string{"", " "}[w.below(2)])
	}
}

func (w *writer) broken() {
	kinds := Kinds[:len(Kinds)-1]
	b := []byte(Text(kinds[w.below(len(kinds))], w.next(), 50+w.below(200)))
	for range 1 + w.below(8) {
		i := w.below(len(b))
		switch w.below(4) {
		case 0:
			b[i] = byte(w.next())
		case 1: // cut a piece out, or the rest off
			b = append(b[:i], b[min(len(b), i+1+w.below(3)):]...)
		case 2: // bytes that never occur, overlong forms, surrogates, beyond the range, cut characters
			bad := []string{"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF0\x9F", "\xE4\xBD", "\x80", "\xE2\x80\xC5\xBF"}[w.below(8)]
			b = append(b[:i], append([]byte(bad), b[i:]...)...)
		case 3:
			b = append(b[:i], append([]byte{byte(0x80 + w.below(0x80))}, b[i:]...)...)
		}
		if len(b) == 0 {
			return
		}
	}
	w.Write(b)
}

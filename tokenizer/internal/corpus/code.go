package corpus

import (
	"strconv"
	"strings"
)

// code writes a small fragment in one language, with names, numbers and comments
// drawn anew each time.
func (w *writer) code() {
	depth := strings.Repeat([]string{"    ", "\t", "  "}[w.below(3)], w.low(5))
	for range 1 + w.below(4) {
		template := templates[w.below(len(templates))]
		for {
			before, rest, found := strings.Cut(template, "$")
			w.WriteString(strings.ReplaceAll(before, "\n", "\n"+depth))
			if !found {
				break
			}
			switch rest[0] {
			case 'n':
				w.name()
			case 't':
				w.WriteString(w.pick(types))
			case 'd':
				w.WriteString(strconv.Itoa(w.low(10000)))
			case 'w':
				w.WriteString(w.pick(english))
			case 'c':
				for range 3 + w.below(9) {
					w.WriteString(w.pick(english) + " ")
				}
			}
			template = rest[1:]
		}
		w.WriteString("\n" + depth)
	}
	w.WriteString("\n")
}

// name writes an identifier in one of the usual styles.
func (w *writer) name() {
	style := w.below(5)
	for i := range 1 + w.below(3) {
		word := strings.ReplaceAll(w.pick(english), "'", "")
		title := strings.ToUpper(word[:1]) + word[1:]
		switch {
		case style == 0 && i > 0:
			w.WriteString("_" + word)
		case style == 1 && i > 0, style == 2:
			w.WriteString(title)
		case style == 3:
			w.WriteString(word[:1])
		case style == 4 && i > 0:
			w.WriteString(strconv.Itoa(w.below(10)))
		default:
			w.WriteString(word)
		}
	}
}

var types = []string{
	"int", "string", "error", "bool", "float64", "[]byte", "uint32_t", "*Node", "std::vector<int>", "Option<String>", "any",
	"map[string]int", "List[str]", "Promise<void>", "&'a str", "char const *", "Vec<u8>", "Tensor", "i64", "context.Context",
}

var templates = []string{
	"func $n($n $t, $n $t) ($t, error) {\n\tif $n == nil {\n\t\treturn nil, fmt.Errorf(\"$w: %w\", err)\n\t}\n\treturn $n.$n($n[$d:]), nil\n}\n",
	"// $c\ntype $n struct {\n\t$n   $t `json:\"$w,omitempty\"`\n\t$n $t // $c\n}\n",
	"for i := range $n {\n\t$n[i] += $n.$n[i*$d+$d] // $c\n}",
	"def $n(self, $n: $t = None, *, $n=$d) -> $t:\n    \"\"\"$c\n\n    $c\n    \"\"\"\n    for $n, $n in enumerate(self.$n):\n        yield f\"{$n!r}: {$n:>$d}\"\n",
	"import $w as $w\nfrom $w.$w import $n, $n\n\n@$n.$n(\"$w\", $d)\nclass $n($n):\n    __slots__ = ('$n', \"$n\")\n",
	"#include <$w.h>\n#define $n(x) (((x) << $d) | 0x$dUL)\n\nstatic inline $t $n(const $t *$n, size_t n)\n{\n\treturn $n->$n[n - 1] & ~$d; /* $c */\n}\n",
	"pub fn $n<'a, T: $n>(&mut self, $n: $t) -> Result<$t, Box<dyn Error>> {\n    let $n = self.$n.iter().map(|x| x.$n()?).collect::<Vec<_>>();\n    Ok($n)\n}\n",
	"const $n = async ({ $n, $n = $d }) => {\n  await fetch(`https://$w.example.com/api/v$d/$w?q=${$n}&page=$d`);\n  return $n?.$n ?? [];\n};\n",
	"SELECT $n, COUNT(*) AS $n FROM $w.$n WHERE $n >= $d AND $n LIKE '%$w%' GROUP BY 1 ORDER BY 2 DESC LIMIT $d;\n",
	"{\n  \"$n\": \"$c\",\n  \"$n\": [$d, $d, $d.$d, -$de-$d],\n  \"$n\": {\"$n\": null, \"$n\": true}\n}\n",
	"<div class=\"$w-$w $w\" id=\"$n\"><a href=\"/$w/$w?$n=$d#$w\">$c</a>&nbsp;&lt;$w&gt;</div>\n",
	"$n:\n  - name: $w\n    image: $w/$w:v$d.$d.$d\n    env: { $n: \"$d\", $n: !!str $w }\n",
	"#!/usr/bin/env bash\nset -euo pipefail\nfor f in \"${$n[@]}\"; do grep -rnE '^[a-z_]+=$d' \"$w/$w\" | awk '{print \\$1}' > /tmp/$w.$d || exit $d; done\n",
	"## $c\n\n* **$w** - $c\n* `$n` [$w](https://$w.org/$w)\n\n| $w | $w |\n|---|---:|\n| $d | $d.$d |\n\n```go\n$n($d)\n```\n",
	"diff --git a/$w/$n.go b/$w/$n.go\nindex $d..$d 100644\n--- a/$w/$n.go\n+++ b/$w/$n.go\n@@ -$d,$d +$d,$d @@\n-\t$n := $n($d)\n+\t$n, err := $n(ctx, $d)\n",
	"\\begin{$w}\n  \\frac{\\partial $n}{\\partial x_{$d}} = \\sum_{i=0}^{$d} \\alpha_i \\cdot $n(i) % $c\n\\end{$w}\n",
	"template <typename T> auto $n<T>::operator()(T&& $n) noexcept -> decltype(auto) { return std::forward<T>($n) ^ $dull; }\r\n\r\n",
	"W1130 09:14:$d.$d $d $w.go:$d] $c: $w=\"$w\" $n=$dms err=\"$c\"\n",
	"    mov     rax, qword ptr [rsp + $d]\n    vfmadd231ps ymm$d, ymm$d, ymmword ptr [rdi + 4*rcx + $d]\n    jne     .LBB$d_$d\n",
	"<tool_call>$n<arg_key>$w</arg_key><arg_value>$c</arg_value></tool_call><|user|>$c/nothink",
}

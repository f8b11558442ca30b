package kernel

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A function that uses VEX encoded instructions must hold no legacy SSE one, which
// would merge into the upper halves of registers and wait for them (a single one
// cost a kernel 25 %), and must leave those halves zero when it returns.
func TestNoLegacySSE(t *testing.T) {
	sources, err := filepath.Glob("*_amd64.s")
	if err != nil || len(sources) == 0 {
		t.Fatalf("assembly sources: %v, %v", sources, err)
	}
	seen := 0
	for _, source := range sources {
		for _, f := range assemble(t, source) {
			if f.vex() {
				seen++
			}
			for _, fault := range f.faults() {
				t.Errorf("%s: %s: %s", source, f.name, fault)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d functions use VEX: the listing was misread", seen)
	}
}

// The check must find what it is for.
func TestLegacySSEIsFound(t *testing.T) {
	const head = "#include \"textflag.h\"\n\nTEXT ·f(SB), NOSPLIT, $0-0\n\tMOVQ $1, AX\n\tVXORPS Y0, Y0, Y0\n"
	for _, c := range []struct{ body, want string }{
		{"MOVQ AX, X15\n\tVZEROUPPER\n\tRET", "legacy SSE"},
		{"MOVSS X0, (AX)\n\tVZEROUPPER\n\tRET", "legacy SSE"},
		{"PSHUFB X1, X2\n\tVZEROUPPER\n\tRET", "legacy SSE"},
		{"CVTSQ2SS AX, X9\n\tVZEROUPPER\n\tRET", "legacy SSE"},
		{"VADDPS Y0, Y0, Y1\n\tRET", "VZEROUPPER"},
		{"VZEROUPPER\n\tVADDPS Y0, Y0, Y1\n\tRET", "VZEROUPPER"},
		{"VMOVQ AX, X15\n\tPREFETCHT0 (AX)\n\tCMOVQGT CX, BX\n\tVZEROUPPER\n\tSETNE AX\n\tRET", ""},
	} {
		source := filepath.Join(t.TempDir(), "bad_amd64.s")
		if err := os.WriteFile(source, []byte(head+"\t"+c.body+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		functions := assemble(t, source)
		if len(functions) != 1 {
			t.Fatalf("%d functions", len(functions))
		}
		faults := strings.Join(functions[0].faults(), "\n")
		if (faults == "") != (c.want == "") || !strings.Contains(faults, c.want) {
			t.Errorf("%q: found %q, want %q", c.body, faults, c.want)
		}
	}
}

// function is one assembled function: its code, and where instructions start.
type function struct {
	name   string
	code   []byte
	starts []int
	text   []string // the instructions as written
}

var (
	functionLine    = regexp.MustCompile(`^(\S+) STEXT `)
	instructionLine = regexp.MustCompile(`^\t0x[0-9a-f]+ (\d+) \([^)]*\)\t(.*)`)
	codeLine        = regexp.MustCompile(`^\t0x([0-9a-f]{4,}) ((?:[0-9a-f]{2} )+)`)
)

// assemble returns what the assembler makes of a file for amd64.
func assemble(t *testing.T, source string) (functions []*function) {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	root, err := exec.Command(goTool, "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(goTool, "tool", "asm", "-S", "-p", "p", "-D", "GOOS_linux", "-D", "GOARCH_amd64",
		"-I", filepath.Join(strings.TrimSpace(string(root)), "pkg", "include"), "-o", filepath.Join(t.TempDir(), "out.o"), source)
	cmd.Env = append(os.Environ(), "GOARCH=amd64", "GOOS=linux")
	listing, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("assembling %s: %v\n%s", source, err, listing)
	}
	var f *function
	for line := range strings.SplitSeq(string(listing), "\n") {
		if m := functionLine.FindStringSubmatch(line); m != nil {
			f = &function{name: m[1]}
			functions = append(functions, f)
		} else if m := instructionLine.FindStringSubmatch(line); m != nil && f != nil {
			at, _ := strconv.Atoi(m[1])
			if word, _, _ := strings.Cut(m[2], "\t"); !slices.Contains([]string{"TEXT", "FUNCDATA", "PCDATA", "PCALIGN"}, word) {
				f.starts, f.text = append(f.starts, at), append(f.text, strings.ReplaceAll(m[2], "\t", " "))
			}
		} else if m := codeLine.FindStringSubmatch(line); m != nil && f != nil {
			code, err := hex.DecodeString(strings.ReplaceAll(m[2], " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			f.code = append(f.code, code...)
		} else if len(line) > 0 && line[0] != '\t' {
			f = nil // data
		}
	}
	for _, f := range functions {
		if len(f.code) == 0 || len(f.starts) == 0 || f.starts[len(f.starts)-1] >= len(f.code) {
			t.Fatalf("%s: %s: the listing was misread", source, f.name)
		}
	}
	return functions
}

// isVEX reports whether an instruction starts with a VEX prefix, which in 64-bit
// code is all that C4 and C5 can be.
func isVEX(code []byte) bool { return code[0] == 0xc4 || code[0] == 0xc5 }

func (f *function) vex() bool {
	return slices.ContainsFunc(f.starts, func(at int) bool { return isVEX(f.code[at:]) })
}

// faults lists the legacy SSE instructions of a function that uses VEX, and its
// returns without VZEROUPPER.
func (f *function) faults() (list []string) {
	if !f.vex() {
		return nil
	}
	clean := true
	for i, at := range f.starts {
		switch code := f.code[at:]; {
		case f.text[i] == "VZEROUPPER":
			clean = true
		case isVEX(code):
			clean = false
		case isLegacySSE(code):
			list = append(list, fmt.Sprintf("legacy SSE at %#x: %s", at, f.text[i]))
		case f.text[i] == "RET" && !clean:
			list = append(list, fmt.Sprintf("RET without VZEROUPPER at %#x", at))
		}
	}
	return list
}

// isLegacySSE reports whether an instruction without VEX prefix works on vector
// registers: after the prefixes comes 0F and an opcode of those ranges.
func isLegacySSE(code []byte) bool {
	for len(code) > 0 && (code[0] == 0x66 || code[0] == 0xf2 || code[0] == 0xf3 || code[0]&0xf0 == 0x40) {
		code = code[1:]
	}
	if len(code) < 2 || code[0] != 0x0f {
		return false
	}
	switch op := code[1]; {
	case op >= 0x10 && op <= 0x17, op >= 0x28 && op <= 0x2f, op >= 0x50 && op <= 0x7f:
		return true
	case op == 0x38, op == 0x3a: // the longer opcodes, of which ours use vectors only
		return true
	case op == 0xc2, op >= 0xc4 && op <= 0xc6, op >= 0xd0:
		return true
	}
	return false
}

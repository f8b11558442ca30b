package cpu_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// plantedFaults are one-rule mistakes in this backend. Each must make the named
// test of the suite fail, and nothing but the fault may do so. Those of kernels
// are in the plain Go twins, which the build tag purego selects.
var plantedFaults = []struct {
	name     string
	file     string
	old, new string
	test     string // below TestBackend/one_thread, or all of its name
}{
	{"half-split rope in the indexer", "index.go",
		"rope.interleaved(r, query[h*d:(h+1)*d])", "rope.halfSplit(r, query[h*d:(h+1)*d])",
		"IndexProject/InterleavedRope"},
	{"half-split rope in MLA queries", "mla.go",
		"rope.interleaved(r, query[h*head+op.Nope:(h+1)*head])", "rope.halfSplit(r, query[h*head+op.Nope:(h+1)*head])",
		"MLAProject/InterleavedRope"},
	{"interleaved rope in GQA", "gqa.go",
		"rope.halfSplit(r, row[:op.Rope.Dim])", "rope.interleaved(r, row[:op.Rope.Dim])",
		"GQAProject/HalfSplitRope"},
	{"double precision rope angle", "norm.go",
		"float64(float32(b.step.Pos[r]) * f)", "float64(b.step.Pos[r]) * float64(f)",
		"MLAProject/RopeFarPosition"},
	{"indexer key normalised as RMS", "norm.go",
		"mean := sum / float64(len(x))", "mean := 0 * sum",
		"IndexProject/LayerNorm"},
	{"indexer norm with the model's eps", "index.go",
		"layerNorm(key, p.norm, p.bias, backend.IndexNormEps)", "layerNorm(key, p.norm, p.bias, 1e-5)",
		"IndexProject/NormEps"},
	{"latent norm with the layer's eps", "mla.go",
		"cq, cq, qNorm, op.LatentEps, qb)", "cq, cq, qNorm, op.Eps, qb)",
		"MLAProject/LatentEps"},
	{"ReLU left out of the index score", "kernel/vector.go",
		"if x < 0 {", "if false {",
		"IndexSelect/ReLU"},
	{"head weights clamped", "kernel/vector.go",
		"sum[i] += float32(weight * x)", "sum[i] += float32(max(weight, 0) * x)",
		"IndexSelect/NegativeHeadWeight"},
	{"ties to the higher position", "rank.go",
		"const lowerWins = ^uint32(0)", "const lowerWins = 0",
		"IndexSelect/TiesLowerPosition"},
	{"NaN scores compete", "index.go",
		"if s == s {", "if true {",
		"IndexSelect/NaNNeverWins"},
	{"a NaN score left out silently", "index.go",
		"return n, len(rank) == len(scores)", "return n, true",
		"IndexSelect/NaNNeverWins"},
	{"rows beyond the score budget dropped", "index.go",
		"rows = rows[n:]", "rows = nil",
		"IndexSelect/KIsOne"},
	{"an expanded key after the row's own", "expand.go",
		"Pos[r])-at+1)", "Pos[r])-at+2)",
		"MLAExpand/Dense/wide"},
	{"a row left out of a block that it sees", "expand.go",
		"first++ // the row sees no key of this block", "first += 2",
		"MLAExpand/Dense/wide"},
	{"NaN times zero reaches rows before it", "expand.go",
		"if !finite {", "if false {",
		"MLAExpand/Isolation"},
	{"rows with a selection take every key", "expand.go",
		"!ok || l.n != int(b.step.Pos[r])+1", "!ok || l.n < 0",
		"MLAExpand/Sparse"},
	{"a stale selection is read", "attend.go",
		"if p <= prev || p > last {", "if p <= prev {",
		"MLAAttend/BadSelection/NextPosition"},
	{"an unsorted selection is read", "attend.go",
		"if p <= prev || p > last {", "if p < min(prev, 0) || p > last {",
		"MLAAttend/BadSelection/Unsorted"},
	{"the row's own key is not seen", "attend.go",
		"return keyList{n: int(last) + 1}, true", "return keyList{n: max(int(last), 1)}, true",
		"MLAAttend/Dense/odd/Formula"},
	{"softmax scale of the latent width", "mla.go",
		"vPlane: op.Plane, scale: op.Scale,", "vPlane: op.Plane, scale: op.Scale * 0.5,",
		"MLAAttend/Scale"},
	{"blocks combined without the maximum", "attend.go",
		"a, c := exp(p.max[at]-m), exp(largest-m)", "a, c := float32(1), exp(largest-m)",
		"MLAAttend/Deep"},
	{"scale rows by plain division", "weight.go",
		"first := n / backend.ScaleBlock * w.Scales.Cols", "first := min(n/backend.ScaleBlock, max(w.Rows/backend.ScaleBlock-1, 0)) * w.Scales.Cols",
		"Weights/ScaleBlocks"},
	{"W_uk read for W_uv", "latent.go",
		"return u.uvFirst + h*u.uvStep", "return h * u.uvStep",
		"MLAAttend/Dense/odd/Formula"},
	{"another head's keys", "gqa.go",
		"outStride: d, keyOff: kv * d,", "outStride: d, keyOff: (kv + 1) % op.KVHeads * d,",
		"GQAAttend/HeadGroups"},
	{"bias used as a weight", "../../moe/route.go",
		"weights[i] = scores[id]\n", "weights[i] = scores[id] + bias[id]\n",
		"Route/BiasNotInWeight"},
	{"ties to the higher expert", "../../moe/route.go",
		"for i > 0 && c > scores[ids[i-1]]+bias[ids[i-1]] {", "for i > 0 && c >= scores[ids[i-1]]+bias[ids[i-1]] {",
		"Route/TiesLowerExpert"},
	{"scaled before normalised", "../../moe/route.go",
		"\t\tweights[i] *= scale\n", "\t\tif !renorm {\n\t\t\tweights[i] *= scale\n\t\t}\n",
		"Route/NormaliseThenScale"},
	{"expert outputs added backwards", "mlp.go",
		"kernel.AddScaled(y, p.weights[slot], c.out.row(int32(slot), c.width))", "back := (2*int(r)+1)*p.k - 1 - slot\n\t\tkernel.AddScaled(y, p.weights[back], c.out.row(int32(back), c.width))",
		"Experts/OrderOfSelection"},
	{"the gate clamped from below too", "kernel/vector.go",
		"if x > clamp {\n\t\t\t\tx = clamp\n\t\t\t}", "x = max(min(x, clamp), -clamp)",
		"MLP/Clamp"},
	{"a padding row written", "cpu.go",
		"case s.Seq[row] < 0:", "case s.Seq[row] < 0 && false:",
		"Embed/Guards"},
	{"plans packed by live row", "mlp.go",
		"at := int(r) * k\n", "at := i * k\n",
		"Route/PaddingKeepsPlan"},
	{"a matrix-vector order of its own", "product.go",
		"acc := k.few(w, n0+g*groupRows, x, rows)\n", "acc := k.few(w, n0+g*groupRows, x, rows)\n\t\t\tacc[0][0], acc[0][7] = acc[0][7], acc[0][0]\n",
		"Linear/Batch"},
	{"a key block that depends on the batch", "mlafew.go",
		"total, next := p.part(i, h, h+1), r.at\n", "total, next := p.part(i, h, h+1), r.at\n\tif len(p.rows) == 1 && r.done == 0 {\n\t\tp.part(r.at, h, h+1).sum[0] *= 1.00001\n\t}\n",
		"MLAAttend/Dense/odd/Batch"},
	{"what came before a wave of blocks is lost", "mlafew.go",
		"\t\t\tcopy(kept.sum, total.sum)\n", "",
		"TestRowsOfAnyStepAttendAlike"},
	{"tags not looked at", "pages.go",
		"if p.tags[s.Pages[i]] != s.PageTag[i] {", "if false {",
		"Step/TagMismatch"},
	{"a shared page written", "pages.go",
		"if s.PageTag[q*s.Stride+pos/p.spec.PageSize] != s.Tag[q] {", "if false {",
		"Step/TagMismatch/WriteIntoSharedPage"},
	{"scrub keeps the content", "pages.go",
		"clear(p.page(i))", "",
		"Pages/Scrub"},
	{"bf16 truncated", "pages.go",
		"(bits + 0x7fff + bits>>16&1) >> 16", "bits >> 16",
		"IndexProject/KVBF16RoundsToEven"},
	{"ids the tokenizer does not know", "logits.go",
		"if n0+j < p.op.Valid {", "if true {",
		"Logits/UnknownIDsAreMinusInf"},
	{"a failed row sampled", "logits.go",
		"!b.alive[r] || b.result.Health[r] != 0 {", "!b.alive[r] {",
		"Logits/FailedRowSamplesNothing"},
	{"greedy takes the highest id", "sample.go",
		"x > l[best])", "x >= l[best])",
		"Sample/Draw/GreedyLowestID"},
	{"scales of the row beside", "kernel/pack.go",
		"block[PanelRows*Group+2*r:], half", "block[PanelRows*Group+2*(r^1):], half",
		"TestPack"},
	{"an infinity packed as zero", "kernel/pack.go",
		"halfNaN = 0x7e00", "halfNaN = 0",
		"TestPackNotFinite"},
	{"rows of a panel changed over", "packed.go",
		"p.copyRows(rows, r0)\n", "p.copyRows(rows, r0)\n\t\trows[0], rows[n-1] = rows[n-1], rows[0]\n",
		"TestPack"},
	{"kv_b not transposed", "packed.go",
		"p.from.decode(part[:len(dst)], n+i, k0)", "p.from.decode(part[:len(dst)], n+i, 0)",
		"TestPackKVB"},
	{"the head at four bits", "format.go",
		"{\"lm_head\", Int8, Int8},", "{\"lm_head\", Int8, Int4},",
		"TestFormatOf"},
	{"the tail of a row left out", "quantise.go",
		"p.codes.Set(i, p.row(p.rows[i], p.width))", "p.codes.Set(i, p.row(p.rows[i], p.width)[:p.width&^31])",
		"TestPackedBackend/int8/one_thread/Linear/Storage/F32"},
	{"activations of the line before", "panels.go",
		"kernel.MulInt4(y, stride, w, l.codes, l.first+c, n)", "kernel.MulInt4(y, stride, w, l.codes, max(l.first+c-1, 0), n)",
		"TestPackedBackend/int4/one_thread/Experts/Formula"},
	{"hidden groups a group too far down", "mlp.go",
		"n0/kernel.Group, gate.line(i))", "max(n0/kernel.Group-1, 0), gate.line(i))",
		"TestPackedBackend/int8/one_thread/SharedExpert/Storage/F32"},
	{"the first expert's rows for all", "mlp.go",
		"in.codes, in.first, several = &b.codes.slots, blocks[i].first, true", "in.codes, in.first, several = &b.codes.slots, 0, true",
		"TestPackedBackend/int8/one_thread/Experts/Formula"},
	{"another head's rounded query", "mla.go",
		"p.queries.Set(h*len(p.rows)+i, q[h*head:][:op.Nope])", "p.queries.Set(h*len(p.rows)+i, q[h/2*head:][:op.Nope])",
		"TestPackedBackend/int4/one_thread/MLAAttend/Dense/odd/Formula"},
	{"mask before bias", "logits.go",
		"if c.ID >= 0 && int(c.ID) < len(l) {\n\t\t\tl[c.ID] += c.Bias", "if c.ID >= 0 && int(c.ID) < len(l) {\n\t\t\tdefer func() { l[c.ID] = c.Bias }()",
		"AdjustLogits/MaskAfterBias"},
}

// Each fault is compiled in through an overlay and run against the named test
// alone; the test must run, and fail.
func TestPlantedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the package once per fault")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range plantedFaults {
		names = append(names, full(f.test))
	}
	// Without a fault, every named test exists and passes.
	for _, tags := range []string{"", "purego"} {
		out, err := run(goTool, tags, "", strings.Join(names, "\n"))
		if err != nil {
			t.Fatalf("the tests do not pass without faults: %v\n%s", err, out)
		}
		for _, name := range names {
			if !strings.Contains(out, "--- PASS: "+name+" (") {
				t.Errorf("test %s does not exist", name)
			}
		}
	}
	for _, f := range plantedFaults {
		t.Run(strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) {
			path, err := filepath.Abs(f.file)
			if err != nil {
				t.Fatal(err)
			}
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), f.old); n != 1 {
				t.Fatalf("the fault no longer applies: %q stands %d times in %s", f.old, n, f.file)
			}
			faulty := filepath.Join(t.TempDir(), filepath.Base(path))
			if err := os.WriteFile(faulty, []byte(strings.Replace(string(source), f.old, f.new, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: faulty}})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "overlay.json")
			if err := os.WriteFile(file, overlay, 0o644); err != nil {
				t.Fatal(err)
			}
			tags := ""
			if strings.HasPrefix(f.file, "kernel/") {
				tags = "purego"
			}
			out, err := run(goTool, tags, file, full(f.test))
			if err == nil {
				t.Fatalf("%s passes with the fault", f.test)
			}
			if !strings.Contains(out, "--- FAIL: "+full(f.test)+" (") {
				t.Fatalf("%s did not fail, something else did:\n%s", f.test, out)
			}
		})
	}
}

func full(test string) string {
	if strings.HasPrefix(test, "Test") {
		return test
	}
	return "TestBackend/one_thread/" + test
}

// run runs tests, one a line, of this package.
func run(goTool, tags, overlay, tests string) (string, error) {
	// A pattern per level: alternatives at each, which over-selects when there
	// are several tests and is exact for one.
	var levels [][]string
	for test := range strings.SplitSeq(tests, "\n") {
		for i, part := range strings.Split(test, "/") {
			if len(levels) <= i {
				levels = append(levels, nil)
			}
			levels[i] = append(levels[i], part)
		}
	}
	var pattern []string
	for _, l := range levels {
		pattern = append(pattern, "^("+strings.Join(l, "|")+")$")
	}
	args := []string{"test", "-vet=off", "-tags", tags, "-v", "-run", strings.Join(pattern, "/")}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	out, err := exec.Command(goTool, append(args, ".")...).CombinedOutput()
	return string(out), err
}

package kvcache

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bug is a mistake: old becomes new.
type bug struct {
	name     string
	file     string
	old, new string
	in, test string
}

// plantedBugs are mistakes of one rule each, of the kinds that have leaked in
// public engines. Each must make the named test fail, and nothing but the
// mistake may do so. Files are relative to this package; in is the package of
// the test.
var plantedBugs = []bug{
	// Pages of a step.
	{"swapped page tables", "step.go",
		"a.Pages[q*a.Stride+i] = r.page\n", "a.Pages[(len(m.feeds)-1-q)*a.Stride+i] = r.page\n",
		".", "TestCheckBindsTheUpload"},
	{"the page tables of the step before beyond those of this one", "step.go",
		"\tclear(list)\n", "",
		".", "TestBeginInUsedMemory"},
	{"a step in flight begun again", "step.go",
		" || p.core.flies(m.epoch) {\n\t\treturn Step{}", " {\n\t\treturn Step{}",
		".", "TestBeginInUsedMemory"},
	{"a step that is over ends the next one", "step.go",
		"s.m == nil || s.m.turn != s.turn", "s.m == nil",
		".", "TestOldStepEndsNothing"},
	{"a page table that is not compared with the sidecars", "binding.go",
		"pages[j] != r.page || tags[j] != pg.tag", "tags[j] != pg.tag",
		".", "TestCheckBindsTheUpload"},
	{"a padded row written", "binding.go",
		"if up.Seq[r] != -1 {", "if false {",
		".", "TestCheckBindsTheUpload"},
	{"padding reads a page of somebody's", "binding.go",
		"if pages[j] != NullPage || tags[j] != 0 {", "if false {",
		".", "TestCheckBindsTheUpload"},
	{"a step runs tokens that were never admitted", "step.go",
		"n > 0 && !slices.Equal(e.Tokens[:n], l.known[e.At:e.At+n])", "n < 0 && !slices.Equal(e.Tokens[:n], l.known[e.At:e.At+n])",
		".", "TestBeginRefuses"},
	{"a step starts above the mark", "core_step.go",
		"case f.at != l.valid:", "case f.at < l.valid:",
		".", "TestBeginRefuses"},
	{"rows that did not arrive are read", "core_step.go",
		"guard.Mark && pg.filled < rows", "guard.Mark && pg.filled < 0",
		".", "TestBeginChecksEveryPage"},
	{"generation ignored by readers", "core_step.go",
		"if guard.Gen && pg.gen != r.gen {", "if guard.Gen && pg.gen < r.gen {",
		".", "TestBeginChecksEveryPage"},
	{"a page of another scope is read", "core_step.go",
		"case pg.state == pageSealed && c.s.index.entries[r.page].scope == l.scope:", "case pg.state == pageSealed:",
		".", "TestBeginChecksEveryPage"},

	// Results.
	{"result of a step delivered after Close", "core_step.go",
		"case l.phase != phaseLive:\n\t\tc.unpin(l, byStep)\n\t\treturn ErrEnded", "case l.phase != phaseLive:\n\t\tc.unpin(l, byStep)\n\t\treturn nil",
		".", "TestCloseEndsWhatRuns"},
	{"result of an older step taken for this one's", "core_step.go",
		"case a.epoch != epoch:", "case false:",
		".", "TestArrivalNamesLeaseAndSession"},
	{"result of the slot's last request taken for this one's", "core_step.go",
		"a.nonce != l.nonce || a.session != l.session", "a.session != l.session",
		".", "TestArrivalNamesLeaseAndSession"},
	{"result of another session", "core_step.go",
		"a.nonce != l.nonce || a.session != l.session", "a.nonce != l.nonce",
		".", "TestArrivalNamesLeaseAndSession"},
	{"rejected draft rows count", "core_step.go",
		"tokens := l.pending[:a.rows]", "tokens := l.pending",
		".", "TestFewerRowsRaiseTheMarkByThoseOnly"},

	// Prefixes.
	{"prefix hit one token too long", "core_lease.go",
		"e.tokens, int(n)-1)", "e.tokens, int(n))",
		".", "TestHitEndsBeforeTheLastToken"},
	{"tenant left out of the key", "key.go",
		`b = field(b, "tenant", []byte(s.Tenant))`, `b = field(b, "tenant", nil)`,
		".", "TestKeyFields"},
	{"weights left out of the key", "key.go",
		`{"weights", c.Identity.Weights},`, "",
		".", "TestKeyFields"},
	{"parent left out of the key", "key.go",
		`b = field(b, "parent", parent[:])`, "",
		".", "TestKeyFields"},
	{"key fields without their length", "key.go",
		"return append(field1(dst, len(value)), value...)", "return append(dst, value...)",
		".", "TestKeyFields"},
	{"a hit by hash alone", "index.go",
		" && slices.Equal(x.of(p), tokens)", "",
		".", "TestNoWrongHitUnderAConstantHash"},
	{"a hit in another scope", "index.go",
		"e.scope == s && ", "",
		".", "TestNoWrongHitUnderAConstantHash"},
	{"a hit after another prefix", "index.go",
		" && e.parent == parent", "",
		".", "TestNoWrongHitUnderAConstantHash"},
	{"tenants share", "session.go",
		"scope: Scope{Tenant: tenant}", "scope: Scope{Tenant: \"everybody\"}",
		".", "TestNothingCrossesScopes"},
	{"empty tenant shared", "session.go",
		"s.scope = Scope{Session: s.id}", "s.scope = Scope{Session: 1}",
		".", "TestNothingCrossesScopes"},
	{"a closed private session is found again", "session.go",
		"if s.scope.Session != 0 {", "if false {",
		".", "TestCloseForgetsThePrivateSession"},
	{"seal of a partial page", "core_step.go",
		"int32(len(l.tail)) == size {", "int32(len(l.tail)) == size-1 {",
		".", "TestYoungestIsRequeuedOnce"},
	{"a sealed page keeps its writer's tag", "core_step.go",
		"\t\tc.tag(own, c.mint())\n", "",
		".", "TestTwinsMerge"},
	{"Forget leaves what is in use", "core_page.go",
		"if !en.indexed || !e.all && en.scope != e.scope {", "if !en.resting || !e.all && en.scope != e.scope {",
		".", "TestForget"},
	{"Forget returns before the scrub", "forget.go",
		"core.s.pages[r.page].state != pageFree {", "core.s.pages[r.page].state == pageNull {",
		".", "TestForget"},
	{"what continues a corrupt page stays", "core_page.go",
		"\t\t\tc.forgetTree(int32(i))\n", "",
		".", "TestChecksumStopsChangedBytes"},

	// Lifetimes.
	{"scrub skipped", "pool.go",
		"\t\tp.store.Scrub(pages...)\n", "",
		".", "TestFreedPagesAreScrubbed"},
	{"no quarantine", "core_page.go",
		"if guard.Quiet && pg.pins > 0 {", "if false {",
		".", "TestCloseEndsWhatRuns"},
	{"quarantine released early", "core_handoff.go",
		"if l == nil || l.ticket != e.ticket || l.pinned[byWriter] == 0 {", "if l == nil || l.pinned[byWriter] == 0 {",
		".", "TestCommitCountsRowsThatArrived"},
	{"a pinned page rests and is evicted", "core_page.go",
		"if pg.uses > 0 || pg.pins > 0 && guard.Quiet {", "if pg.uses > 0 {",
		".", "TestSearchReachesEverySituation"},
	{"generation does not rise", "core_page.go",
		"\tpg.gen++\n", "\tpg.gen = max(pg.gen, 1)\n",
		".", "TestGenerationRisesWithEveryLease"},
	{"a slot reused while its step runs", "core_page.go",
		"l.released && l.held() == 0 && l.step == 0 {", "l.released {",
		".", "TestSearchReachesEverySituation"},
	{"reservation leaked", "core_page.go",
		"\tc.s.reserved -= l.reserved\n\tl.reserved, l.valid", "\tl.reserved, l.valid",
		".", "TestLifeOfARequest"},
	{"requeue keeps the mark", "core_page.go",
		"l.reserved, l.valid, l.sealed = 0, 0, 0", "l.reserved, l.sealed = 0, 0",
		".", "TestYoungestIsRequeuedOnce"},
	{"a step writes while its rows are copied", "core_step.go",
		" || l.pinned[byCopy] > 0:", ":",
		".", "TestNoStepWhileRowsAreCopied"},
	{"rows are copied while a step writes", "core_handoff.go",
		" || l.pinned[byCopy] > 0 || l.step != 0 {", " || l.pinned[byCopy] > 0 {",
		".", "TestNoStepWhileRowsAreCopied"},

	// Admission and ends.
	{"peer limit ignored", "limits.go",
		"if peer > 0 && peer < l.Context {", "if false {",
		".", "TestFoundingIncident"},
	{"the null page counted as room", "limits.go",
		"(pages-1)*pageSize-slack", "pages*pageSize-slack",
		".", "TestLimitIsOneNumber"},
	{"clamp the wrong way", "core_lease.go",
		"int32(min(e.output, lim.Context-e.prompt))", "int32(max(e.output, lim.Context-e.prompt))",
		".", "TestClampCutsOutputNeverThePrompt"},
	{"second cause overwrites the first", "core_lease.go",
		"if guard.Term && l.cause != CauseNone {", "if false {",
		".", "TestCloseEndsWhatRuns"},

	// Hand-off.
	{"the last page is not copied", "handoff.go",
		"for i, r := range refs {", "for i, r := range refs[:len(refs)-1] {",
		".", "TestHandOff"},
	{"rows counted that were not copied", "handoff.go",
		"return p.store.Import(int(fx.imported), data)", "_ = fx\n\treturn nil",
		".", "TestHandOff"},
	{"committed by the manifest's count", "core_handoff.go",
		"if n := c.arrived(l); n != l.prompt {", "if n := c.arrived(l); n > l.prompt {",
		".", "TestCommitCountsRowsThatArrived"},
	{"a field of the ticket not compared", "ticket.go",
		`{"nonce", o.nonce == t.nonce},`, "",
		".", "TestManifestMustEqualTicket"},
	{"another tenant's ticket accepted", "handoff.go",
		" || t.scope != s.keyed(key)", "",
		".", "TestAcceptRefuses"},
	{"a late write lands", "core_handoff.go",
		"l != nil && l.phase == phaseLive && l.ticket == e.ticket &&", "l != nil && l.ticket == e.ticket &&",
		".", "TestLateWriteIsRefused"},

	// The engine around it.
	{"swapped outputs", "../glm/batch.go",
		"t.g.accept(r.ID[i], r.LogProb[i], r.Top[i])", "t.g.accept(r.ID[len(r.ID)-1-i], r.LogProb[i], r.Top[i])",
		"../glm", "TestLawsTwoPools"},
	{"sampler of a batch row", "../glm/batch.go",
		"append(b.up.Sampling, t.g.sampling)", "append(b.up.Sampling, b.in[0].g.sampling)",
		"../glm", "TestLawsTwoPools"},
	{"scratch of the device kept past the step", "../glm/batch.go",
		"append(g.ID[:0], r.ID...)", "r.ID",
		"../glm", "TestLawsTwoPools"},
	{"a token after the end", "../glm/generation.go",
		"if g.ended {\n\t\treturn // its session may already draw for another\n\t}\n", "",
		"../glm", "TestCancelledTokenDrawsNothing"},
	{"a failed row's token delivered", "../glm/batch.go",
		"case b.health[q] != 0:", "case false:",
		"../glm", "TestNonFiniteWeights"},
	{"tenant not passed on", "../glm/pool.go",
		"p.cache.NewSession(c.Tenant)", "p.cache.NewSession(\"everybody\")",
		"../glm", "TestLawsBatch"},
	{"scratch reused by the graph", "../internal/decoder/attention.go",
		"cq: g.buffer(c.QLoraRank)}", "cq: g.x}",
		"../glm", "TestGoldenGreedy"},
	{"two layers write one plane", "../internal/decoder/attention.go",
		"latent := g.plane(c.KVLoraRank + c.QKRope)\n", "latent := g.plane(c.KVLoraRank + c.QKRope)\n\tif i > 0 {\n\t\tlatent = 0\n\t}\n",
		"../glm", "TestLawsTokenByToken"},
	{"an older layer's selection read", "../internal/decoder/attention.go",
		"if c.IndexLayer(i) {", "if c.IndexLayer(i) && g.sel == 0 {",
		"../glm", "TestGoldenGreedy"},
}

// Each bug is compiled in through an overlay and run against its test alone;
// the test must run, and fail.
func TestPlantedBugs(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a package once per bug")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string][]string{}
	for _, b := range plantedBugs {
		wanted[b.in] = append(wanted[b.in], b.test)
	}
	// Without a bug, every named test exists and passes.
	for in, tests := range wanted {
		out, err := runTests(goTool, in, "", tests...)
		if err != nil {
			t.Fatalf("the tests do not pass without bugs: %v\n%s", err, out)
		}
		for _, name := range tests {
			if !strings.Contains(out, "--- PASS: "+name+" (") {
				t.Errorf("%s: test %s does not exist", in, name)
			}
		}
	}
	for _, b := range plantedBugs {
		t.Run(strings.ReplaceAll(b.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			out, err := runTests(goTool, b.in, plant(t, b), b.test)
			if err == nil {
				t.Fatalf("%s passes with the bug", b.test)
			}
			if !failed(out, b.test) {
				t.Fatalf("%s did not fail, something else did:\n%s", b.test, out)
			}
		})
	}
}

// failed reports whether the output is that of a test that failed: by itself, or by an
// invariant that broke while it ran, in the janitor's goroutine if that came first.
func failed(out, test string) bool {
	return strings.Contains(out, "--- FAIL: "+test+" (") ||
		strings.Contains(out, "=== RUN   "+test+"\n") && strings.Contains(out, "panic: kvcache: invariant ")
}

// plant writes an overlay with the bug and returns its file.
func plant(t *testing.T, b bug) string {
	t.Helper()
	path, err := filepath.Abs(b.file)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), b.old); n != 1 {
		t.Fatalf("the bug no longer applies: %q stands %d times in %s", b.old, n, b.file)
	}
	dir := t.TempDir()
	buggy, file := filepath.Join(dir, filepath.Base(path)), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(buggy, []byte(strings.Replace(string(source), b.old, b.new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: buggy}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// runTests runs tests of a package, by name.
func runTests(goTool, in, overlay string, names ...string) (string, error) {
	args := []string{"test", "-vet=off", "-short", "-v", "-timeout", "3m", "-run", "^(" + strings.Join(names, "|") + ")$"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	c := exec.Command(goTool, append(args, ".")...)
	c.Dir = in
	out, err := c.CombinedOutput()
	return string(out), err
}

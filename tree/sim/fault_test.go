package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

func TestFaultsAreRead(t *testing.T) {
	for line, want := range map[string]Fault{
		"a: exit 1 at 2s":                        {kind: faultExit, exit: tree.Exit{Code: 1}, trigger: atTimes, at: 2 * time.Second, from: 2 * time.Second, end: tree.Forever, probability: 1},
		"a: exit 0 every 2s for 1m":              {kind: faultExit, trigger: atTimes, at: 2 * time.Second, every: 2 * time.Second, end: time.Minute, probability: 1},
		"a: exit 0 every 2s from 10s until 20s":  {kind: faultExit, trigger: atTimes, at: 12 * time.Second, from: 10 * time.Second, every: 2 * time.Second, end: 20 * time.Second, probability: 1},
		"a: signal SIGKILL at 1m every 1s":       {kind: faultSignal, exit: tree.Exit{Code: -1, Signal: "KILL"}, trigger: atTimes, at: time.Minute, from: time.Minute, every: time.Second, end: tree.Forever, probability: 1},
		"a: exit 3 after ready once":             {kind: faultExit, exit: tree.Exit{Code: 3}, trigger: afterReady, end: tree.Forever, times: 1, probability: 1},
		"a: exit 3 after 5s 2 times":             {kind: faultExit, exit: tree.Exit{Code: 3}, trigger: afterReady, after: 5 * time.Second, end: tree.Forever, times: 2, probability: 1},
		"a: exit 3 after ready 5s 2 times":       {kind: faultExit, exit: tree.Exit{Code: 3}, trigger: afterReady, after: 5 * time.Second, end: tree.Forever, times: 2, probability: 1},
		"a: exit 3 after ready 2 times":          {kind: faultExit, exit: tree.Exit{Code: 3}, trigger: afterReady, end: tree.Forever, times: 2, probability: 1},
		"a: exit 1 with probability 0.5 at 1s":   {kind: faultExit, exit: tree.Exit{Code: 1}, trigger: atTimes, at: time.Second, from: time.Second, end: tree.Forever, probability: 0.5},
		"a: hang with probability .1 per second": {kind: faultHang, trigger: perSecond, end: tree.Forever, probability: 0.1},
		"a: hang at 20s for 15s":                 {kind: faultHang, trigger: atTimes, at: 20 * time.Second, from: 20 * time.Second, lasts: 15 * time.Second, end: tree.Forever, probability: 1},
		"a: start fails 3 times":                 {kind: faultStart, end: tree.Forever, times: 3, probability: 1},
		"a: start fails from 1s for 2s":          {kind: faultStart, at: time.Second, from: time.Second, end: 3 * time.Second, probability: 1},
		"a: ready after 3s":                      {kind: faultReady, takes: 3 * time.Second, end: tree.Forever, probability: 1},
		"a: ready never until 10s":               {kind: faultReady, never: true, end: 10 * time.Second, probability: 1},
		"a: stop takes 1m":                       {kind: faultStop, takes: time.Minute, end: tree.Forever, probability: 1},
		"a: down at 10s for 30s":                 {kind: faultDown, at: 10 * time.Second, from: 10 * time.Second, end: 40 * time.Second, probability: 1},
	} {
		got, err := ParseFault(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got.String() != line || len(got.paths) != 1 || got.paths[0].text != "a" {
			t.Errorf("%s: read as %q of %v", line, got.String(), got.paths)
		}
		got.text, got.source, got.line, got.paths = "", "", 0, nil
		want.paths = nil
		if !sameFault(&got, &want) {
			t.Errorf("%s:\n got %+v\nwant %+v", line, got, want)
		}
	}
}

func sameFault(a, b *Fault) bool {
	return a.kind == b.kind && a.exit == b.exit && a.takes == b.takes && a.never == b.never && a.trigger == b.trigger && a.at == b.at &&
		a.every == b.every && a.after == b.after && a.from == b.from && a.end == b.end && a.lasts == b.lasts && a.times == b.times &&
		a.probability == b.probability
}

// TestFaultMistakes reads like a list of what people get wrong, and what they are told.
func TestFaultMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"":                                      `1:1: a path is missing; a fault is written as PATH: WHAT WHEN, like shop/api: exit 1 every 2s`,
		"a":                                     `1:2: a colon is missing after the path; a fault is written as PATH: WHAT WHEN, like shop/api: exit 1 every 2s`,
		"a exit 1 at 2s":                        `1:3: a colon is missing after the path; a fault is written as PATH: WHAT WHEN, like shop/api: exit 1 every 2s`,
		"a, : exit 1 at 2s":                     `1:4: a path is missing; a fault is written as PATH: WHAT WHEN, like shop/api: exit 1 every 2s`,
		"ä: exti 1":                             `1:4: unknown word "exti": did you mean "exit"?; after the colon comes exit, signal, start, ready, hang, stop or down`,
		"a:":                                    `1:3: something is missing at the end; after the colon comes exit, signal, start, ready, hang, stop or down`,
		"a: exit 256 at 1s":                     `1:9: an exit status is a number from 0 to 255, not "256"`,
		"a: exit at 1s":                         `1:9: an exit status is a number from 0 to 255, not "at"`,
		"a: signal TREM at 1":                   `1:11: unknown word "TREM": did you mean "TERM"?; after signal comes KILL, TERM, SEGV, ABRT, BUS, FPE, HUP, ILL, INT, PIPE, QUIT, TRAP, USR1, USR2, ALRM or XCPU`,
		"a: start":                              `1:9: something is missing at the end; after start comes fails`,
		"a: ready soon":                         `1:10: unknown word "soon"; after ready comes after or never`,
		"a: exit 1":                             `1:10: when? After exit 1 comes at T, every D, after ready D, or with probability P per second`,
		"a: exit 1 at 2":                        `1:14: "2" is no duration; write one like 500ms, 2s or 1m30s`,
		"a: exit 1 at":                          `1:13: "" is no duration; write one like 500ms, 2s or 1m30s`,
		"a: exit 1 at -2s":                      `1:14: -2s is out of range; a duration here is from 0 to a hundred years`,
		"a: exit 1 every 0s":                    `1:11: every needs at least 1ms`,
		"a: exit 1 at 1s at 2s":                 `1:17: "at" comes twice`,
		"a: exit 1 at 1s after ready 1s":        `1:17: "at" and "after" do not go together`,
		"a: exit 1 at 1s for 2s":                `1:17: "for" needs every D, after ready D, or a probability per second`,
		"a: exit 1 every 1s with probability 2": `1:37: a probability is a number above 0, up to 1, not "2"`,
		"a: exit 1 every 1s with chance 0.2":    `1:25: unknown word "chance"; after with comes probability`,
		"a: start fails with probability 1 per day": `1:39: unknown word "day"; after per comes second`,
		"a: start fails 0 times":                    `1:16: how often is a number from 1`,
		"a: start fails 3":                          `1:17: something is missing at the end; after the number comes times`,
		"a: down for 3s":                            `1:15: when? After down comes at T, and for D or until T`,
		"a: down at 10s until 5s":                   `1:16: it ends before it begins`,
		"a: down at 10s 3 times":                    `1:16: unknown word "3"; after down comes at T, for D or until T`,
	} {
		_, err := ParseFault(line)
		if err == nil {
			t.Errorf("%q is taken", line)
			continue
		}
		if err.Error() != want {
			t.Errorf("%q\n got %s\nwant %s", line, err, want)
		}
	}
}

func TestScript(t *testing.T) {
	faults, mistakes := ParseScript("f.txt", "# all of it\n\na: exit 1 at 1s # one\r\n  b: hung at 2s\nc: exit 1\n*: down at 3s")
	if len(faults) != 2 || faults[1].paths[0].text != "*" || faults[0].String() != "a: exit 1 at 1s" {
		t.Errorf("read %v", faults)
	}
	var said []string
	for _, m := range mistakes {
		said = append(said, m.Error())
	}
	want := `f.txt:4:6: unknown word "hung": did you mean "hang"?; after the colon comes exit, signal, start, ready, hang, stop or down
f.txt:5:10: when? After exit 1 comes at T, every D, after ready D, or with probability P per second`
	if got := strings.Join(said, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestGrammarExamples reads the examples of the help text.
func TestGrammarExamples(t *testing.T) {
	_, examples, ok := strings.Cut(Grammar, "Examples:\n")
	faults, mistakes := ParseScript("help", examples)
	if !ok || len(faults) < 6 || len(mistakes) > 0 {
		t.Errorf("%d examples, %v", len(faults), mistakes)
	}
	for kind := range clauses {
		if !strings.Contains(Grammar, string(kind)) {
			t.Errorf("the help does not mention %s", kind)
		}
	}
}

// FuzzFault reads anything, and lets what can be read happen to a tree: nothing breaks, and no time is lost.
func FuzzFault(f *testing.F) {
	_, examples, _ := strings.Cut(Grammar, "Examples:\n")
	for _, line := range strings.Split(examples, "\n") {
		f.Add(line, uint64(1))
	}
	f.Add("*: exit 0 with probability 1 per second, \x00ä", uint64(7))
	f.Add("a, b: hang every 1ms for 1ns 3 times", uint64(7))
	f.Fuzz(func(t *testing.T, line string, seed uint64) {
		fault, err := ParseFault(line)
		if err != nil {
			m := err.(*Mistake)
			if m.Column < 1 || m.Column > len([]rune(line))+1 || m.Text == "" || m.Line != 1 {
				t.Errorf("%q: %+v", line, m)
			}
			return
		}
		if again, err := ParseFault(fault.String()); err != nil || !sameFault(&again, &fault) {
			t.Errorf("%q is read otherwise the second time: %v", line, err)
		}
		fault.paths = []word{{"*", 1}}
		r, err := Experiment{Spec: app(tree.RestForOne, 3, "a", "b", "c"), Faults: []Fault{fault}, Seed: seed, Until: 5 * time.Second,
			Picture: true, Keep: -1}.Run()
		if err != nil {
			t.Fatal(err)
		}
		sums(t, r)
	})
}

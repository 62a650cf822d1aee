package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// app is a supervisor of workers with a process.
func app(strategy tree.Strategy, intensity int, names ...string) tree.Spec {
	spec := tree.Spec{Name: "app", Kind: tree.KindApp, Restart: tree.DefaultRestart(), Supervise: &tree.Supervise{Strategy: strategy}}
	if intensity >= 0 {
		spec.Supervise.Intensity = &tree.Intensity{Restarts: intensity, Period: 5 * time.Second}
	}
	for _, name := range names {
		run := tree.DefaultRun()
		run.Ready.Notify = true
		r := tree.DefaultRestart()
		r.Jitter = 0
		spec.Children = append(spec.Children, tree.Spec{Name: name, Kind: tree.KindWorker, Restart: r, Run: &run})
	}
	return spec
}

// play runs faults against a tree to the end.
func play(t *testing.T, spec tree.Spec, until time.Duration, lines ...string) *Result {
	t.Helper()
	x := Experiment{Spec: spec, Until: until, Keep: -1, Picture: true}
	for _, line := range lines {
		f, err := ParseFault(line)
		if err != nil {
			t.Fatal(err)
		}
		x.Faults = append(x.Faults, f)
	}
	r, err := x.Run()
	if err != nil {
		t.Fatal(err)
	}
	sums(t, r)
	return r
}

// sums holds what must be true of every result.
func sums(t *testing.T, r *Result) {
	t.Helper()
	for i := range r.Nodes {
		s := &r.Nodes[i]
		var all, spans, down time.Duration
		for _, d := range s.In {
			all += d
		}
		end := time.Duration(0)
		for _, sp := range s.Spans {
			if sp.From != end || sp.To <= sp.From {
				t.Errorf("%s: a span from %s to %s after %s", s.Path, sp.From, sp.To, end)
			}
			spans, end = spans+sp.To-sp.From, sp.To
		}
		for _, state := range []tree.State{StateUnready, tree.StateStarting, tree.StateWaiting, tree.StateBackoff, tree.StateStopping, tree.StateFailed} {
			down += s.Time(state)
		}
		if all != r.Until || (r.Cut == 0 && spans != r.Until) {
			t.Errorf("%s: %s in states and %s in spans, of %s", s.Path, all, spans, r.Until)
		}
		if s.Longest > s.Downtime || s.Downtime < down || s.Downtime > r.Until-s.Up() {
			t.Errorf("%s: down %s, longest %s, %s in states that are down, up %s", s.Path, s.Downtime, s.Longest, down, s.Up())
		}
		if s.Restarts > 0 && s.Restarts >= s.Starts {
			t.Errorf("%s: %d restarts of %d starts", s.Path, s.Restarts, s.Starts)
		}
	}
}

func (r *Result) node(t *testing.T, path string) *Summary {
	t.Helper()
	for i := range r.Nodes {
		if r.Nodes[i].Path == path {
			return &r.Nodes[i]
		}
	}
	t.Fatalf("no node %s", path)
	return nil
}

func (r *Result) told() string {
	var b strings.Builder
	r.WriteTranscript(&b)
	return b.String()
}

// has tells whether the lines are in the transcript, in this order.
func (r *Result) has(t *testing.T, lines ...string) {
	t.Helper()
	text := r.told()
	rest := text
	for _, line := range lines {
		at := strings.Index(rest, line)
		if at < 0 {
			t.Fatalf("%q is missing, or comes too early, in\n%s", line, text)
		}
		rest = rest[at+len(line):]
	}
}

// TestWorkerFaults shows each fault at a worker with a process, which the production machine looks after.
func TestWorkerFaults(t *testing.T) {
	spec := func(change func(*tree.Run)) tree.Spec {
		s := app(tree.OneForOne, -1, "a")
		change(s.Children[0].Run)
		return s
	}
	plain := spec(func(*tree.Run) {})
	health := spec(func(r *tree.Run) { r.Health = &tree.Health{Interval: time.Second, Failures: 3} })
	for _, c := range []struct {
		fault string
		spec  tree.Spec
		want  []string
	}{
		{"a: exit 3 at 2s", plain, []string{"+2s ", "down app/a#1: exit 3", "backoff app/a#1 for 500ms (1. in a row): exit 3", "+2.5s ", "start app/a#2 again"}},
		{"a: signal SEGV at 2s", plain, []string{"down app/a#1: signal SEGV"}},
		{"a: exit 1 after ready 3s 2 times", plain, []string{"+3s ", "down app/a#1", "+6.5s ", "down app/a#2"}},
		{"a: start fails 2 times", plain, []string{"start app/a#1: start", "backoff app/a#1 for 500ms (1. in a row): cannot start: simulated", "backoff app/a#2", "up app/a#3"}},
		{"a: ready after 3s", plain, []string{"+3s ", "up app/a#1"}},
		{"a: ready never once", plain, []string{"+30s ", "stop app/a#1: not ready in 30s", "down app/a#1: exit 0", "backoff app/a#1", "not ready in 30s", "up app/a#2"}},
		{"a: down at 10s for 3s", plain, []string{"+10s ", "down app/a#1: exit 1", "start app/a#2", "+10.6s ", "down app/a#2: exit 1", "+13.7s ", "start app/a#4", "up app/a#4"}},
		{"a: hang at 2s", health, []string{"+5s ", "stop app/a#1: unhealthy: no answer", "+15s ", "killed app/a#1: still running 10s after TERM", "up app/a#2"}},
		{"a: hang at 2s for 2s", health, nil},
		{"a: hang at 2s for 5s", health, []string{"+5s ", "stop app/a#1: unhealthy: no answer", "+7s ", "down app/a#1: exit 0"}},
		{"a: hang at 2s", spec(func(r *tree.Run) { r.Watchdog = 7 * time.Second }), []string{"+9s ", "stop app/a#1: watchdog", "down app/a#1: signal KILL"}},
		{"a: hang at 2s", spec(func(r *tree.Run) { r.Heartbeat = &tree.Heartbeat{Stale: 20 * time.Second} }), []string{"+22s ", "stop app/a#1: heartbeat stale"}},
		{"a: hang at 2s", spec(func(r *tree.Run) { r.Health = &tree.Health{Interval: time.Second, Failures: 2, Unroute: true} }), []string{"+4s ", "unready app/a#1: unhealthy"}},
	} {
		r := play(t, c.spec, time.Minute, c.fault)
		r.has(t, c.want...)
		if c.want == nil && r.node(t, "app/a").Starts != 1 {
			t.Errorf("%s: started again", c.fault)
		}
	}
}

// TestSlowStop is the time between a stop and its end, which a group restart waits for.
func TestSlowStop(t *testing.T) {
	r := play(t, app(tree.OneForAll, -1, "a", "b"), time.Minute, "a: exit 1 at 1s", "b: stop takes 4s")
	r.has(t, "stop app/b#1: sibling a", "+5s ", "down app/b#1: exit 0", "start app/a#2 again")
	r = play(t, app(tree.OneForAll, -1, "a", "b"), time.Minute, "a: exit 1 at 1s", "b: stop takes 40s")
	r.has(t, "+11s ", "killed app/b#1")
	// One that hung begins to leave when it hears again.
	r = play(t, app(tree.OneForAll, -1, "a", "b"), time.Minute, "a: exit 1 at 3s", "b: hang at 2s for 2s", "b: stop takes 3s")
	r.has(t, "+3s ", "stop app/b#1", "+7s ", "down app/b#1: exit 0")
}

// TestLeavesWithoutProcess are an embedder's: no Run, bounded by Shutdown.
func TestLeavesWithoutProcess(t *testing.T) {
	spec := tree.Spec{Name: "app", Supervise: &tree.Supervise{Strategy: tree.OneForAll}, Children: []tree.Spec{
		{Name: "a", Shutdown: 5 * time.Second, Restart: tree.Restart{Policy: tree.Transient}},
		{Name: "b", Shutdown: 5 * time.Second, Restart: tree.Restart{Backoff: time.Second}}}}
	r := play(t, spec, time.Minute, "b: exit 1 at 1s", "a: stop takes 9s")
	r.has(t, "down app/b#1: exit 1", "stop app/a#1: sibling b", "+6s ", "down app/a#1: killed", "start app/a#2", "start app/b#2")
	r = play(t, spec, time.Minute, "a: exit 0 at 3s", "b: start fails 2 times")
	r.has(t, "down app/b#1: cannot start: simulated", "up app/b#3", "+3s ", "rest app/a#3 done: exit 0")
	if n := r.node(t, "app/a"); n.State != tree.StateDone {
		t.Errorf("a is %s in the end", n.State)
	}
	r = play(t, spec, time.Minute, "a: hang at 2s", "b: exit 1 at 3s", "b: ready never from 1m")
	r.has(t, "stop app/a#1", "+8s ", "down app/a#1: killed")
	play(t, spec, time.Minute, "b: down at 10s for 5s").has(t, "+10s ", "down app/b#1: exit 1", "+11.1s ", "down app/b#2: exit 1", "up app/b#6")
}

// TestSummary counts a small story by hand.
func TestSummary(t *testing.T) {
	r := play(t, app(tree.RestForOne, 2, "a", "b", "c"), time.Minute, "b: exit 1 at 10s", "c: exit 2 at 20s", "b: ready after 2s from 5s once")
	type row struct {
		starts, restarts, failures int
		down, longest              time.Duration
	}
	for path, want := range map[string]row{
		"app/a": {1, 0, 0, 0, 0},
		"app/b": {2, 1, 1, 2500 * time.Millisecond, 2500 * time.Millisecond},
		"app/c": {3, 2, 1, 3 * time.Second, 2500 * time.Millisecond},
	} {
		n := r.node(t, path)
		if got := (row{n.Starts, n.Restarts, n.Failures, n.Downtime, n.Longest}); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	b := r.node(t, "app/b")
	if fmt.Sprint(b.Blast) != "[{app/c 1}]" || r.node(t, "app/c").Blast != nil {
		t.Errorf("blast of b %v, of c %v", b.Blast, r.node(t, "app/c").Blast)
	}
	if b.Time(tree.StateStarting) != 2*time.Second || b.Time(tree.StateBackoff) != 500*time.Millisecond || b.Up() != 57500*time.Millisecond {
		t.Errorf("b was %v", b.In)
	}
	if top := r.node(t, "app"); top.Time(StateDegraded) != 3*time.Second || top.Downtime != 0 {
		t.Errorf("app was %v", top.In)
	}
}

// TestBlastReachesAcrossEscalation follows a failure up and down again.
func TestBlastReachesAcrossEscalation(t *testing.T) {
	host := tree.Spec{Name: "host", Supervise: &tree.Supervise{}, Children: []tree.Spec{app(tree.OneForOne, 1, "a", "b")}}
	r := play(t, host, 20*time.Second, "a: exit 1 after ready 100ms 2 times")
	if got := fmt.Sprint(r.node(t, "host/app/a").Blast); got != "[{host/app 1} {host/app/b 1}]" {
		t.Errorf("blast %s", got)
	}
	if n := r.node(t, "host/app"); n.Escalations != 1 || n.Restarts != 1 || n.Failures != 0 {
		t.Errorf("%+v", n)
	}
}

// TestEntriesAreAJournal folds the entries with the board that status is made of: it must end in the same states.
func TestEntriesAreAJournal(t *testing.T) {
	spec := tree.Spec{Kind: tree.KindHost, Supervise: &tree.Supervise{}}
	acme := app(tree.OneForOne, 2, "x.0")
	acme.Name = "acme"
	acme.Children = append(acme.Children, app(tree.RestForOne, 2, "a.0", "b.0", "c.0"))
	spec.Children = []tree.Spec{acme}
	for seed := range uint64(20) {
		faults, mistakes := ParseScript("", "a: exit 1 with probability 0.2 per second\nb: hang every 40s for 20s\nc: start fails with probability 0.3\nx: signal KILL with probability 0.01 per second")
		if len(mistakes) > 0 {
			t.Fatal(mistakes)
		}
		r, err := Experiment{Spec: spec, Faults: faults, Seed: seed, Keep: -1, Picture: true, Until: 3*time.Minute + time.Duration(seed)*time.Second}.Run()
		if err != nil {
			t.Fatal(err)
		}
		sums(t, r)
		board := tree.NewBoard(spec)
		for _, ev := range r.Events {
			board.Apply(ev)
			if ev.Cause >= ev.Seq || ev.Cause == 0 && ev.Seq != 1 {
				t.Fatalf("entry %+v: a cause comes before", ev)
			}
		}
		for _, n := range board.Nodes() {
			mine := r.node(t, n.Path)
			state := mine.State
			switch state {
			case StateDegraded, StateUnready:
				state = tree.StateRunning
			case tree.StateWaiting, tree.StateStopped:
				continue // what waits is an observation, which a journal does not hold
			}
			if n.Path != "" && (n.State != state || n.Restarts != mine.Restarts) {
				t.Errorf("seed %d: %s is %s (%d restarts) to the board, %s (%d) here", seed, n.Path, n.State, n.Restarts, mine.State, mine.Restarts)
			}
		}
	}
}

// TestSameSeedSameCourse is also about what one fault may change for another: nothing.
func TestSameSeedSameCourse(t *testing.T) {
	run := func(seed uint64, lines ...string) (string, *Result) {
		x := Experiment{Spec: app(tree.OneForOne, -1, "a", "b"), Seed: seed, Keep: -1, Until: time.Minute}
		for i := range x.Spec.Children {
			x.Spec.Children[i].Restart.Jitter = 0.5
		}
		for _, line := range lines {
			f, _ := ParseFault(line)
			x.Faults = append(x.Faults, f)
		}
		r, err := x.Run()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r.Report())
		if err != nil {
			t.Fatal(err)
		}
		return string(text), r
	}
	const a, b = "a: exit 1 with probability 0.1 per second", "b: exit 1 with probability 0.1 per second"
	first, one := run(1, a)
	second, _ := run(1, a)
	other, _ := run(2, a)
	_, both := run(1, b, a)
	if first != second {
		t.Error("the same seed took another course")
	}
	if first == other {
		t.Error("another seed took the same course")
	}
	if one.node(t, "app/a").Starts < 3 || one.node(t, "app/a").Downtime == 0 {
		t.Fatalf("nothing happened: %+v", one.node(t, "app/a"))
	}
	if both.node(t, "app/b").Starts < 2 || one.node(t, "app/a").Starts != both.node(t, "app/a").Starts {
		t.Errorf("a fared otherwise because of b: %d starts, then %d", one.node(t, "app/a").Starts, both.node(t, "app/a").Starts)
	}
}

func TestTimeStandsStill(t *testing.T) {
	spec := tree.Spec{Name: "app", Supervise: &tree.Supervise{}, Children: []tree.Spec{{Name: "a"}}}
	f, _ := ParseFault("a: exit 1 after ready")
	r, err := Experiment{Spec: spec, Faults: []Fault{f}}.Run()
	if !errors.Is(err, ErrStill) || r == nil || r.Until != 0 {
		t.Errorf("%v", err)
	}
	asked := 0
	spec.Children[0].Restart.Backoff = time.Millisecond
	r, err = Experiment{Spec: spec, Faults: []Fault{f}, Until: time.Hour, Interrupted: func() bool { asked++; return asked == 3 }}.Run()
	if !errors.Is(err, ErrInterrupted) || r == nil {
		t.Errorf("%v", err)
	}
}

// TestNotes tells of faults that do nothing.
func TestNotes(t *testing.T) {
	spec := app(tree.OneForOne, -1, "a", "b")
	spec.Children[1].Run.Ready.Notify = false
	r := play(t, spec, time.Minute, "a: exit 1 at 2m", "b: ready after 3s", "a: start fails once", "a: exit 1 at 100ms", "a: stop takes 1s", "a: exit 1 at 10s")
	want := `"b: ready after 3s" does nothing to app/b: it has no readiness check, and is ready once it is executed
"a: exit 1 at 2m" never came: its time, its chance and a process to strike did not meet
"a: exit 1 at 100ms" never came: its time, its chance and a process to strike did not meet`
	if got := strings.Join(r.Notes, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	none, _ := ParseFault("nobody: exit 1 at 1s")
	x := Experiment{Spec: spec, Faults: []Fault{none}}
	var m *Mistake
	if _, err := x.Run(); !errors.As(err, &m) || m.Column != 1 || m.Source != "nobody: exit 1 at 1s" {
		t.Errorf("%v", err)
	}
	x.Lenient = true
	if r, err := x.Run(); err != nil || len(r.Notes) != 1 {
		t.Errorf("%v %v", r.Notes, err)
	}
}

func TestPathsOfFaults(t *testing.T) {
	spec := tree.Spec{Kind: tree.KindHost, Supervise: &tree.Supervise{}, Children: []tree.Spec{app(tree.OneForOne, -1, "a.0", "b.0"), app(tree.OneForOne, -1, "a.0")}}
	spec.Children[1].Name = "other"
	pool := tree.Spec{Name: "web", Kind: tree.KindPool, Supervise: &tree.Supervise{}, Children: app(tree.OneForOne, -1, "web.0", "web.1").Children}
	spec.Children[1].Children = append(spec.Children[1].Children, pool)
	for path, want := range map[string]string{
		"b": "app/b.0", "b.0": "app/b.0", "app/a": "app/a.0", "other": "other/a.0 other/web.0 other/web.1", "web": "other/web.0 other/web.1",
		"web.1": "other/web.1", "other/web": "other/web.0 other/web.1", "*": "app/a.0 app/b.0 other/a.0 other/web.0 other/web.1",
		"a":    `"a" can mean app/a, other/a; write more of the path`,
		"a.0":  `"a.0" can mean app/a.0, other/a.0; write more of the path`,
		"x":    `no node is called "x"; the leaves are app/a.0, app/b.0, other/a.0, other/web.0, other/web.1`,
		"web.": `no node is called "web."; the leaves are app/a.0, app/b.0, other/a.0, other/web.0, other/web.1`,
	} {
		leaves, why := New(spec, Options{}).meant(path)
		var names []string
		for _, l := range leaves {
			names = append(names, l.path)
		}
		if why == "" {
			why = strings.Join(names, " ")
		}
		if why != want {
			t.Errorf("%s: %s, want %s", path, why, want)
		}
	}
}

func TestTranscriptIsBounded(t *testing.T) {
	f, _ := ParseFault("a: exit 1 every 1s")
	x := Experiment{Spec: app(tree.OneForOne, -1, "a"), Faults: []Fault{f}, Until: time.Minute}
	x.Keep = -1
	all, err := x.Run()
	if err != nil {
		t.Fatal(err)
	}
	x.Keep = 20
	some, err := x.Run()
	if err != nil {
		t.Fatal(err)
	}
	n := len(all.Events)
	if len(some.Events) != 20 || some.Missing != n-20 || some.After != 15 || all.Missing != 0 {
		t.Fatalf("%d events, %d missing after %d, of %d", len(some.Events), some.Missing, some.After, n)
	}
	if some.Events[14].Seq != 15 || some.Events[15].Seq != tree.Seq(n-4) || some.Events[19].Seq != tree.Seq(n) {
		t.Errorf("kept the wrong ones: %v", some.told())
	}
	x.Keep = 0
	if none, err := x.Run(); err != nil || len(none.Events) != 0 || none.Missing != n {
		t.Errorf("%v", err)
	}
}

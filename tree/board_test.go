package tree

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var boardStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func leafSpec(name string) Spec { return Spec{Name: name, Kind: KindWorker} }

func groupSpec(kind Kind, name string, children ...Spec) Spec {
	return Spec{Name: name, Kind: kind, Supervise: &Supervise{}, Children: children}
}

// shopSpec is a host with a tenant of two apps, the first with a pool, and the daemon's own parts.
func shopSpec() Spec {
	off := leafSpec("off.0")
	off.Disabled = true
	shop := groupSpec(KindApp, "shop", leafSpec("db.0"), groupSpec(KindPool, "web", leafSpec("web.0"), leafSpec("web.1")), off)
	shop.Supervise.Strategy = RestForOne
	parts := groupSpec(KindPart, "_host", Spec{Name: "gateway", Kind: KindPart})
	return groupSpec(KindHost, "", parts, groupSpec(KindTenant, "acme", shop, groupSpec(KindApp, "mail", leafSpec("in.0"))))
}

// boardTale feeds a board with entries in words, one second apart.
type boardTale struct {
	*Board
	now time.Time
	seq Seq
}

func newTale(spec Spec) *boardTale { return &boardTale{Board: NewBoard(spec), now: boardStart} }

func (b *boardTale) say(path string, inc int, kind EventKind, reason string, data map[string]any) {
	b.now = b.now.Add(time.Second)
	b.seq++
	b.Apply(Event{Seq: b.seq, Time: b.now, Path: path, Incarnation: inc, Kind: kind, Reason: reason, Data: data})
}

func (b *boardTale) up(path string, inc int, data map[string]any) {
	b.say(path, inc, EventStarting, "start", data)
	b.say(path, inc, EventReady, "", nil)
}

// short is a node in one line: state, degraded as !, reason.
func (b *boardTale) short(path string) string {
	n, ok := b.Node(path)
	if !ok {
		return "unknown"
	}
	s := string(n.State)
	if n.Degraded {
		s += "!"
	}
	return strings.TrimSpace(s + " " + n.Reason)
}

// expect compares nodes, given as path and short form in turns.
func (b *boardTale) expect(t *testing.T, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := b.short(pairs[i]); got != pairs[i+1] {
			t.Errorf("%s is %q, want %q", pairs[i], got, pairs[i+1])
		}
	}
	for _, n := range b.Nodes() {
		switch n.State {
		case StateBackoff, StateFailed, StateWaiting, StateStopped:
			if n.Reason == "" {
				t.Errorf("%s is %s without a reason", n.Path, n.State)
			}
		}
		if one, _ := b.Node(n.Path); fmt.Sprint(one.State, one.Reason, one.Degraded, one.Since) != fmt.Sprint(n.State, n.Reason, n.Degraded, n.Since) {
			t.Errorf("Node and Nodes differ about %s: %+v and %+v", n.Path, one, n)
		}
	}
}

func TestBoardBeforeAnything(t *testing.T) {
	b := newTale(shopSpec())
	var paths []string
	for _, n := range b.Nodes() {
		paths = append(paths, n.Path)
	}
	want := "_host _host/gateway acme acme/shop acme/shop/db.0 acme/shop/web acme/shop/web.0 acme/shop/web.1 acme/shop/off.0 acme/mail acme/mail/in.0"
	if got := strings.Join(paths, " "); got != want {
		t.Errorf("tree order is\n%s, want\n%s", got, want)
	}
	b.expect(t, "acme", "waiting not started yet", "acme/shop/web.1", "waiting not started yet", "acme/shop/off.0", "stopped not enabled",
		"acme/nothing", "unknown")
}

func TestBoardSupervisorStates(t *testing.T) {
	b := newTale(shopSpec())
	b.say("acme", 1, EventStarting, "start", nil)
	b.expect(t, "acme", "starting", "acme/shop", "waiting not started yet")
	b.say("acme/shop", 1, EventStarting, "start", nil)
	b.expect(t, "acme", "running!", "acme/shop", "starting")
	b.up("acme/shop/db.0", 1, nil)
	b.expect(t, "acme/shop", "running!", "acme/shop/db.0", "running", "acme/shop/web.0", "waiting not started yet")
	b.up("acme/shop/web.0", 1, nil)
	b.expect(t, "acme/shop/web", "running!", "acme/shop", "running!")
	b.up("acme/shop/web.1", 1, nil)
	// The disabled worker is not wanted, so nothing is missing.
	b.expect(t, "acme/shop/web", "running", "acme/shop", "running", "acme", "running!")
	b.up("acme/mail/in.0", 1, nil)
	b.up("_host/gateway", 1, nil)
	b.expect(t, "acme/mail", "running", "acme", "running", "", "running", "_host", "running")
	b.say("acme/shop/web.1", 1, EventUnready, "unhealthy: status 500", nil)
	b.expect(t, "acme/shop/web.1", "running unhealthy: status 500", "acme/shop/web", "running!", "acme", "running!", "acme/mail", "running")
	if n, _ := b.Node("acme/shop/web.1"); n.Ready {
		t.Error("an unready worker is shown as ready")
	}
	b.say("acme/shop/web.1", 1, EventReady, "", nil)
	b.expect(t, "acme/shop/web.1", "running", "acme", "running")
	// Ended for good is as wanted; stopped by an operator too.
	b.say("acme/shop/web.1", 1, EventExited, "exit 0", map[string]any{"code": 0})
	b.expect(t, "acme/shop/web.1", "stopping exit 0", "acme", "running!")
	b.say("acme/shop/web.1", 1, EventDone, "exit 0", nil)
	b.expect(t, "acme/shop/web.1", "done exit 0", "acme", "running")
}

func TestBoardLifeOfALeaf(t *testing.T) {
	b := newTale(shopSpec())
	const db = "acme/shop/db.0"
	b.say(db, 1, EventStarting, "start", nil)
	pid, socket, status := 4711, "/run/s/x.sock", "12 open"
	b.Observe(Ref{db, 1}, Observation{PID: &pid, Socket: &socket, Status: &status, Health: &Pulse{Detail: "status 500"}, At: b.now})
	b.say(db, 1, EventReady, "", nil)
	ready := b.now
	n, _ := b.Node(db)
	if n.PID != 4711 || n.Socket != socket || n.Status != status || n.Health == nil || !n.Ready || n.Incarnation != 1 || !n.Since.Equal(ready) {
		t.Errorf("running: %+v %+v", n, n.Leaf)
	}
	b.say(db, 1, EventExited, "signal SEGV", map[string]any{"code": 0, "signal": "SEGV", "ran": 2.5})
	exited := b.now
	b.say(db, 1, EventBackoff, "signal SEGV", map[string]any{"delay": 1.5, "attempt": 2})
	n, _ = b.Node(db)
	if n.PID != 0 || n.Ready || n.State != StateBackoff || n.Reason != "signal SEGV" || n.NextAt == nil || !n.NextAt.Equal(b.now.Add(1500*time.Millisecond)) {
		t.Errorf("in backoff: %+v %+v", n, n.Leaf)
	}
	if l := n.LastExit; l == nil || *l != (LastExit{Code: -1, Signal: "SEGV", Reason: "signal SEGV", At: exited}) {
		t.Errorf("last exit: %+v", l)
	}
	kept := n
	b.say(db, 2, EventStarting, "signal SEGV", map[string]any{"restart": true, "attempt": 1})
	n, _ = b.Node(db)
	if n.Reason != "" || n.NextAt != nil || n.Restarts != 1 || n.Incarnation != 2 || n.Status != "" || n.Health != nil || n.LastExit == nil {
		t.Errorf("started again: %+v %+v", n, n.Leaf)
	}
	if kept.State != StateBackoff || kept.Incarnation != 1 || kept.Status != status {
		t.Error("what Node returned before has changed")
	}
	// The old incarnation speaks late: only how it ended is heard.
	b.say(db, 2, EventReady, "", nil)
	b.say(db, 1, EventExited, "exit 9", map[string]any{"code": 9.0, "signal": ""})
	old := 1
	b.Observe(Ref{db, 1}, Observation{PID: &old, At: b.now})
	if n, _ = b.Node(db); n.State != StateRunning || n.PID != 0 || n.LastExit.Code != 9 {
		t.Errorf("after the old one spoke: %+v %+v", n, n.Leaf)
	}
	b.say(db, 2, EventFailed, "exit 1", map[string]any{"delay": 30, "attempt": 5, "limit": 5, "within": 60})
	if n, _ = b.Node(db); n.State != StateFailed || n.NextAt == nil {
		t.Errorf("failed, slow: %+v", n)
	}
	b.say(db, 2, EventFailed, "exit 1", nil)
	if n, _ = b.Node(db); n.State != StateFailed || n.NextAt != nil {
		t.Errorf("failed for good: %+v", n)
	}
	after := "after api"
	b.Observe(Ref{Path: db}, Observation{Waiting: &after, At: b.now})
	b.expect(t, db, "waiting after api")
	b.say(db, 2, EventReady, "", map[string]any{"pid": 76.0})
	if n, _ = b.Node(db); n.PID != 76 {
		t.Errorf("ready names its process: %+v", n.Leaf)
	}
	b.say(db, 2, EventAdopted, "", map[string]any{"pid": 77})
	if n, _ = b.Node(db); n.PID != 77 || n.State != StateStarting || n.Restarts != 1 {
		t.Errorf("adopted: %+v %+v", n, n.Leaf)
	}
}

func TestBoardBelowOneThatIsDown(t *testing.T) {
	b := newTale(shopSpec())
	b.up("acme/shop/db.0", 1, nil)
	b.up("acme/shop/web.0", 1, nil)
	b.say("acme/shop/web.1", 1, EventIntent, "stopped by bob", map[string]any{"intent": "stopped", "by": "bob"})
	b.say("acme/shop/web.1", 1, EventStopped, "stopped by bob", nil)
	b.say("acme/shop/db.0", 1, EventExited, "exit 1", map[string]any{"code": 1})
	b.say("acme/shop/db.0", 1, EventBackoff, "exit 1", map[string]any{"delay": 9})
	b.say("acme/shop", 1, EventEscalated, "intensity exceeded by db.0", nil)
	// While it is stopping, what lives shows its own state, and what would have come back does not any more.
	b.expect(t, "acme/shop", "stopping intensity exceeded by db.0", "acme/shop/db.0", "stopped intensity exceeded by db.0", "acme/shop/web.0", "running",
		"acme/shop/web.1", "stopped stopped by bob")
	b.say("acme/shop/web.0", 1, EventStopping, "intensity exceeded by db.0", nil)
	b.say("acme/shop/web.0", 1, EventExited, "exit 0", map[string]any{"code": 0})
	b.say("acme/shop", 1, EventBackoff, "intensity exceeded by db.0", map[string]any{"delay": 2})
	b.expect(t, "acme/shop", "backoff intensity exceeded by db.0", "acme/shop/web", "stopped intensity exceeded by db.0",
		"acme/shop/web.0", "stopped intensity exceeded by db.0", "acme/shop/web.1", "stopped stopped by bob", "acme/shop/off.0", "stopped not enabled", "acme", "running!")
	if n, _ := b.Node("acme/shop/db.0"); n.NextAt != nil {
		t.Error("a next time below one that is down")
	}
	b.say("acme/shop", 2, EventStarting, "intensity exceeded by db.0", map[string]any{"restart": true})
	b.expect(t, "acme/shop", "starting", "acme/shop/db.0", "waiting not started yet", "acme/shop/web.1", "stopped stopped by bob")
	b.say("acme", 1, EventIntent, "stopped by bob", map[string]any{"intent": "stopped"})
	b.say("acme", 1, EventStopped, "stopped by bob", nil)
	b.expect(t, "acme", "stopped stopped by bob", "acme/shop", "stopped stopped by bob", "acme/mail/in.0", "stopped stopped by bob", "", "running!")
	if n, _ := b.Node("acme/mail"); n.Intent != "" || !n.Since.Equal(b.now) {
		t.Errorf("below a stopped tenant: %+v", n)
	}
}

func TestBoardDynamicChildrenAndReload(t *testing.T) {
	b := newTale(shopSpec())
	b.up("acme/shop/db.0", 1, nil)
	b.up("acme/shop/web.2", 1, nil) // scaled
	b.up("acme/shop/job.0", 1, nil) // StartChild
	b.say("acme/ghost/x.0", 1, EventStarting, "start", nil)
	b.say("acme/shop/ghost.0", 1, EventStopped, "shutdown", nil)
	b.Add("acme/mail", groupSpec(KindGroup, "late", leafSpec("a"), leafSpec("b")))
	order := func() string {
		var s []string
		for _, n := range b.Nodes() {
			s = append(s, strings.TrimPrefix(n.Path, "acme/"))
		}
		return strings.Join(s, " ")
	}
	if got, want := order(), "_host _host/gateway acme shop shop/db.0 shop/web shop/web.0 shop/web.1 shop/web.2 shop/off.0 shop/job.0 mail mail/in.0 mail/late mail/late/a mail/late/b"; got != want {
		t.Errorf("with dynamic children\n%s, want\n%s", got, want)
	}
	b.Forget("acme/mail/late")
	b.Forget("acme/mail/late")
	b.Forget("")
	// The new configuration has no db and no mail, but a cache. What still lives stays until it has stopped.
	shop := groupSpec(KindApp, "shop", leafSpec("cache.0"), groupSpec(KindPool, "web", leafSpec("web.0")))
	b.Set(groupSpec(KindHost, "", groupSpec(KindTenant, "acme", shop)))
	if got, want := order(), "acme shop shop/cache.0 shop/web shop/web.0 shop/web.2 shop/db.0 shop/job.0"; got != want {
		t.Errorf("after the reload\n%s, want\n%s", got, want)
	}
	b.expect(t, "acme/shop/db.0", "running", "acme/shop/web.2", "running")
	b.say("acme/shop/db.0", 1, EventStopping, "removed", nil)
	b.say("acme/shop/db.0", 1, EventExited, "exit 0", map[string]any{"code": 0})
	b.expect(t, "acme/shop/db.0", "stopping removed")
	b.say("acme/shop/db.0", 1, EventStopped, "removed", nil)
	b.expect(t, "acme/shop/db.0", "unknown")
	// A whole app goes with its last worker.
	b.Set(groupSpec(KindHost, "", groupSpec(KindTenant, "acme", groupSpec(KindApp, "mail", leafSpec("in.0")))))
	if got, want := order(), "acme mail mail/in.0 shop shop/job.0 shop/web shop/web.2"; got != want {
		t.Errorf("after the second reload\n%s, want\n%s", got, want)
	}
	b.say("acme/shop/job.0", 1, EventStopped, "removed", nil)
	b.say("acme/shop/web.2", 1, EventStopped, "removed", nil)
	b.say("acme/shop/web", 1, EventStopped, "removed", nil)
	b.say("acme/shop", 1, EventStopped, "removed", nil)
	if got, want := order(), "acme mail mail/in.0"; got != want {
		t.Errorf("at the end\n%s, want\n%s", got, want)
	}
}

func TestBoardSchedule(t *testing.T) {
	b := newTale(groupSpec(KindHost, "", groupSpec(KindTenant, "acme", groupSpec(KindApp, "shop", Spec{Name: "bill", Kind: KindSchedule}))))
	const bill = "acme/shop/bill"
	b.up(bill, 1, nil)
	next, why := boardStart.Add(time.Hour), "next run at 13:00"
	b.Observe(Ref{Path: bill}, Observation{Waiting: &why, NextAt: &next, At: b.now})
	n, _ := b.Node(bill)
	if n.State != StateWaiting || n.NextAt == nil || !n.NextAt.Equal(next) {
		t.Errorf("between runs: %+v", n)
	}
	b.expect(t, bill, "waiting next run at 13:00", "acme/shop", "running")
	b.say(bill, 0, EventRunStarted, "", nil)
	b.expect(t, bill, "running", "acme/shop", "running")
	b.say(bill, 0, EventRunEnded, "exit 0", nil)
	b.expect(t, bill, "waiting exit 0", "acme/shop", "running")
}

// TestBoardJSON holds the form that the contract promises.
func TestBoardJSON(t *testing.T) {
	b := newTale(shopSpec())
	b.up("_host/gateway", 1, nil)
	b.up("acme/shop/db.0", 1, nil)
	b.up("acme/shop/web.0", 2, map[string]any{"restart": true})
	pid, socket := 4711, "/run/coppice/s/0123456789abcdef-0.sock"
	b.Observe(Ref{"acme/shop/web.0", 2}, Observation{PID: &pid, Socket: &socket, At: b.now})
	b.say("acme/shop/web.1", 1, EventStarting, "start", nil)
	b.say("acme/shop/web.1", 1, EventExited, "signal KILL", map[string]any{"code": -1, "signal": "KILL", "ran": 0.2})
	b.say("acme/shop/web.1", 1, EventBackoff, "signal KILL", map[string]any{"delay": 0.5, "attempt": 1})
	got, err := json.MarshalIndent(b.Nodes(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/board/status.json"
	if *update {
		if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got)+"\n" != string(want) {
		t.Errorf("status has another form (-update rewrites it): %s", firstDifference(string(want), string(got)))
	}
	var back []Node
	if err := json.Unmarshal(got, &back); err != nil || len(back) != len(b.Nodes()) {
		t.Errorf("the form cannot be read back: %v", err)
	}
}

// manyNodes is a board of ten tenants with ten apps of a hundred workers each, all of them up.
func manyNodes() *boardTale {
	root := groupSpec(KindHost, "")
	for i := range 10 {
		tenant := groupSpec(KindTenant, fmt.Sprint("t", i))
		for j := range 10 {
			app := groupSpec(KindApp, fmt.Sprint("a", j))
			for k := range 100 {
				app.Children = append(app.Children, leafSpec(fmt.Sprintf("w%d.0", k)))
			}
			tenant.Children = append(tenant.Children, app)
		}
		root.Children = append(root.Children, tenant)
	}
	b := newTale(root)
	for _, n := range b.Nodes() {
		if n.Leaf != nil {
			b.up(n.Path, 1, nil)
		}
	}
	return b
}

func BenchmarkBoardNodes(b *testing.B) {
	board := manyNodes()
	b.ReportAllocs()
	for b.Loop() {
		board.Nodes()
	}
}

func BenchmarkBoardApply(b *testing.B) {
	board := manyNodes()
	b.ReportAllocs()
	for b.Loop() {
		board.say("t9/a9/w99.0", 1, EventReady, "", nil)
	}
}

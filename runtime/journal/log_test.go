package journal

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// written runs the log writer over the events and returns its lines.
func written(t *testing.T, events ...tree.Event) []string {
	t.Helper()
	j := New(Options{Root: small()})
	for _, ev := range events {
		j.Append(ev)
	}
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what is recorded by now is still written
	j.Log(ctx, hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info, DisableTime: true}))
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

func TestLogTellsAnExitInFull(t *testing.T) {
	lines := written(t,
		tree.Event{Path: "acme/shop/db", Incarnation: 2, Kind: tree.EventExited, Reason: "exit 3",
			Data: map[string]any{"pid": 4711, "code": 3, "signal": "", "ran": 1.5}},
		tree.Event{Path: "acme/shop/db", Incarnation: 3, Kind: tree.EventExited, Reason: "signal KILL",
			Data: map[string]any{"pid": 4712, "code": -1, "signal": "KILL", "ran": 61.0}})
	for i, want := range []string{
		`exited: path=acme/shop/db incarnation=2 reason="exit 3" pid=4711 code=3 uptime=1.5s`,
		`exited: path=acme/shop/db incarnation=3 reason="signal KILL" pid=4712 signal=KILL uptime=1m1s`,
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %q, want %q", lines[i], want)
		}
	}
}

func TestLogIsNotAlarmedByAskedEnds(t *testing.T) {
	exit := func(inc int) tree.Event {
		return tree.Event{Path: "acme/shop/db", Incarnation: inc, Kind: tree.EventExited, Reason: "signal TERM",
			Data: map[string]any{"pid": 1, "code": -1, "signal": "TERM"}}
	}
	lines := written(t, tree.Event{Path: "acme/shop/db", Incarnation: 1, Kind: tree.EventStopping}, exit(1), exit(2))
	if !strings.Contains(lines[1], "[INFO]") || !strings.Contains(lines[2], "[WARN]") {
		t.Errorf("levels of an asked end and of another:\n%s", strings.Join(lines[1:], "\n"))
	}
}

func TestLogSaysTheLimitOnceAndThePlan(t *testing.T) {
	failed := tree.Event{Path: "acme/shop/db", Incarnation: 5, Kind: tree.EventFailed, Reason: "exit 1",
		Data: map[string]any{"delay": 30.0, "attempt": 5, "limit": 5, "within": 60.0}}
	lines := written(t, failed, failed)
	if want := `start limit 5/60s hit: path=acme/shop/db incarnation=5 reason="exit 1" plan="retrying in 30s"`; !strings.Contains(lines[0], want) {
		t.Errorf("line %q, want %q", lines[0], want)
	}
	if strings.Contains(lines[1], "limit") {
		t.Errorf("the limit is told twice: %q", lines[1])
	}
}

func TestLogFoldsRepeats(t *testing.T) {
	var events []tree.Event
	for i := range 1000 {
		events = append(events,
			tree.Event{Path: "acme/shop/db", Incarnation: i, Kind: tree.EventStarting, Data: map[string]any{"restart": true, "attempt": i}},
			tree.Event{Path: "acme/shop/db", Incarnation: i, Kind: tree.EventBackoff, Reason: "cannot start: no such file", Data: map[string]any{"delay": 1.0, "attempt": i}})
	}
	if n := len(written(t, events...)); n > 30 {
		t.Errorf("%d lines for 1000 equal attempts", n)
	}
	events = append(events, tree.Event{Path: "acme/shop/db", Kind: tree.EventBackoff, Reason: "exit 1", Data: map[string]any{"delay": 1.0, "attempt": 1}})
	lines := written(t, events...)
	if last := lines[len(lines)-1]; !strings.Contains(last, "exit 1") {
		t.Errorf("another reason was folded: %q", last)
	}
}

// stuck is a writer that blocks until it is released.
type stuck struct {
	entered chan struct{}
	release chan struct{}
	once    sync.Once
	mu      sync.Mutex
	text    strings.Builder
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.entered) })
	<-s.release
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func TestBlockedLogNeverBlocksAppend(t *testing.T) {
	j := New(Options{Root: small(), Count: 50})
	out := &stuck{entered: make(chan struct{}), release: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	j.Append(tree.Event{Path: "acme", Kind: tree.EventReady})
	go func() {
		defer close(done)
		j.Log(ctx, hclog.New(&hclog.LoggerOptions{Output: out, Level: hclog.Debug}))
	}()
	<-out.entered
	for range 500 {
		j.Append(tree.Event{Path: "acme", Kind: tree.EventReady})
	}
	close(out.release)
	cancel()
	<-done
	if !strings.Contains(out.text.String(), "missed=4") { // 450, less what was read before
		t.Errorf("the gap is not told:\n%s", out.text.String()[:300])
	}
}

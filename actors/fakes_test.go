package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeJournal keeps everything.
type fakeJournal struct {
	mu     sync.Mutex
	events []tree.Event
	board  *tree.Board
	bell   chan struct{}
	panics map[string]int // "PATH KIND" -> how many Appends of it still panic
}

func newFakeJournal(root tree.Spec) *fakeJournal {
	return &fakeJournal{board: tree.NewBoard(root), bell: make(chan struct{})}
}

func (j *fakeJournal) Append(ev tree.Event) tree.Seq {
	j.mu.Lock()
	defer j.mu.Unlock()
	if key := ev.Path + " " + string(ev.Kind); j.panics[key] > 0 {
		j.panics[key]--
		panic("no journal for " + key)
	}
	ev.Seq, ev.Time = tree.Seq(len(j.events)+1), time.Now()
	j.events = append(j.events, ev)
	j.board.Apply(ev)
	close(j.bell)
	j.bell = make(chan struct{})
	return ev.Seq
}

func (j *fakeJournal) Observe(path string, inc int, o tree.Observation) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.board.Observe(tree.Ref{Path: path, Inc: inc}, o)
}

func (j *fakeJournal) Add(parent string, child tree.Spec) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.board.Add(parent, child)
}

func (j *fakeJournal) Forget(path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.board.Forget(path)
}

func (j *fakeJournal) Node(path string) (tree.Node, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.board.Node(path)
}

func (j *fakeJournal) Nodes() []tree.Node {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.board.Nodes()
}

func (j *fakeJournal) Next(ctx context.Context, after tree.Seq) ([]tree.Event, error) {
	for {
		j.mu.Lock()
		events, bell := j.events[min(int(after), len(j.events)):], j.bell
		j.mu.Unlock()
		if len(events) > 0 {
			return append([]tree.Event(nil), events...), nil
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// breakOn makes the next Append of a path and kind panic, in the mailbox of whoever appends.
func (j *fakeJournal) breakOn(path string, kind tree.EventKind) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.panics == nil {
		j.panics = map[string]int{}
	}
	j.panics[path+" "+string(kind)]++
}

// all returns a copy of the events.
func (j *fakeJournal) all() []tree.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]tree.Event(nil), j.events...)
}

// of returns the events of a path as "kind#inc: reason".
func (j *fakeJournal) of(path string) []string {
	var lines []string
	for _, ev := range j.all() {
		if ev.Path == path {
			lines = append(lines, told(ev))
		}
	}
	return lines
}

func told(ev tree.Event) string {
	text := fmt.Sprintf("%s#%d", ev.Kind, ev.Incarnation)
	if ev.Reason != "" {
		text += ": " + ev.Reason
	}
	return text
}

// dump shows the history when a test fails.
func (j *fakeJournal) dump(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			for _, ev := range j.all() {
				t.Logf("%3d<-%3d %s %s", ev.Seq, ev.Cause, ev.Path, told(ev))
			}
		}
	})
}

// fakeLauncher makes processes of nothing. A test sets behave before it starts anything.
type fakeLauncher struct {
	mu       sync.Mutex
	pids     int
	live     map[string]*fakeProcess // by path
	launches map[string]int          // by path
	order    []string                // paths, as launched
	overlap  []string                // paths that had two processes at once
	closed   int
	spawnFor time.Duration
	behave   func(ref tree.Ref, p *fakeProcess) error // before the process counts as spawned
}

func newFakeLauncher() *fakeLauncher {
	return &fakeLauncher{live: map[string]*fakeProcess{}, launches: map[string]int{}}
}

type fakeProcess struct {
	l    *fakeLauncher
	ref  tree.Ref
	pid  int
	tell func(tree.Fact)

	mu       sync.Mutex
	dead     bool
	orders   []tree.Order
	onOrder  func(o tree.Order) bool // true: handled
	stopTime time.Duration           // between TERM and the end
	born     time.Time

	panicOnClose bool
}

func (l *fakeLauncher) Launch(ctx context.Context, ref tree.Ref, _ *tree.Spec, tell func(tree.Fact)) (Instance, error) {
	p := &fakeProcess{l: l, ref: ref, tell: tell, born: time.Now()}
	l.mu.Lock()
	l.pids++
	p.pid = l.pids
	l.launches[ref.Path]++
	l.order = append(l.order, ref.Path)
	behave, spawnFor := l.behave, l.spawnFor
	l.mu.Unlock()
	if spawnFor > 0 {
		select {
		case <-time.After(spawnFor):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if behave != nil {
		if err := behave(ref, p); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live[ref.Path] != nil {
		l.overlap = append(l.overlap, ref.Path)
	}
	if !p.isDead() {
		l.live[ref.Path] = p
	}
	return p, nil
}

func (p *fakeProcess) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *fakeProcess) PID() int       { return p.pid }
func (p *fakeProcess) Socket() string { return "" }
func (p *fakeProcess) Port() int      { return 0 }

func (p *fakeProcess) Do(o tree.Order) {
	p.mu.Lock()
	p.orders = append(p.orders, o)
	hook, delay := p.onOrder, p.stopTime
	p.mu.Unlock()
	if hook != nil && hook(o) {
		return
	}
	switch m := o.(type) {
	case tree.Probe:
		p.tell(tree.Checked{OK: true})
	case tree.Signal:
		if delay == 0 {
			p.end(tree.Exit{Code: -1, Signal: m.Name})
			return
		}
		time.AfterFunc(delay, func() { p.end(tree.Exit{Code: -1, Signal: m.Name}) })
	case tree.Kill:
		p.end(tree.Exit{Code: -1, Signal: "KILL"})
	}
}

// end ends the process, once.
func (p *fakeProcess) end(e tree.Exit) {
	p.mu.Lock()
	dead := p.dead
	p.dead = true
	p.mu.Unlock()
	if dead {
		return
	}
	p.l.mu.Lock()
	if p.l.live[p.ref.Path] == p {
		delete(p.l.live, p.ref.Path)
	}
	p.l.mu.Unlock()
	e.Ran = time.Since(p.born)
	p.tell(tree.Exited{Exit: e})
	p.tell(tree.Gone{})
}

func (p *fakeProcess) Close() {
	if p.panicOnClose {
		panic("in close")
	}
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.l.closed++
}

// process is the one that runs for a path now.
func (l *fakeLauncher) process(path string) *fakeProcess {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live[path]
}

// crash ends the process of a path.
func (l *fakeLauncher) crash(path string, code int) error {
	p := l.process(path)
	if p == nil {
		return errors.New("no process of " + path)
	}
	p.end(tree.Exit{Code: code})
	return nil
}

func (l *fakeLauncher) count(path string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.launches[path]
}

// spec helpers

func worker1(name string, change ...func(*tree.Spec)) tree.Spec {
	run := tree.DefaultRun()
	run.Command = []string{"/bin/true"}
	s := tree.Spec{Name: name, Kind: tree.KindWorker, Run: &run, Restart: tree.Restart{NormalExits: []int{0}}}
	for _, f := range change {
		f(&s)
	}
	return s
}

func group(kind tree.Kind, name string, policy tree.Supervise, children ...tree.Spec) tree.Spec {
	return tree.Spec{Name: name, Kind: kind, Supervise: &policy, Children: children}
}

func hostOf(children ...tree.Spec) tree.Spec {
	return group(tree.KindHost, "", tree.Supervise{}, children...)
}

// world is a host under test inside a bubble.
type world struct {
	*Host
	t        *testing.T
	journal  *fakeJournal
	launcher *fakeLauncher
	result   chan error
}

func start(t *testing.T, o Options, prepare ...func(*world)) *world {
	w := &world{t: t, launcher: newFakeLauncher(), result: make(chan error, 1)}
	w.journal = newFakeJournal(Root(o.Spec, o.Parts))
	w.journal.dump(t)
	o.Journal, o.Launcher, o.Log = w.journal, w.launcher, hclog.NewNullLogger()
	w.Host = NewHost(o)
	for _, f := range prepare {
		f(w)
	}
	born := w.journal.Append(tree.Event{Kind: tree.EventDaemonStarted})
	go func() { w.result <- w.Run(born) }()
	return w
}

// end stops the host and checks that nothing is left.
func (w *world) end() {
	w.t.Helper()
	w.stop(false)
	if err := <-w.result; err != nil {
		w.t.Errorf("Run: %v", err)
	}
	w.clean()
}

// stop asks the host to end.
func (w *world) stop(kill bool) {
	w.Stop(kill, w.journal.Append(tree.Event{Kind: tree.EventDaemonStopping, Reason: "test is over"}))
}

func (w *world) clean() {
	w.t.Helper()
	if n := len(w.launcher.live); n != 0 {
		w.t.Errorf("%d processes are left", n)
	}
	if len(w.launcher.overlap) != 0 {
		w.t.Errorf("two processes at once: %v", w.launcher.overlap)
	}
}

func (w *world) state(path string) string {
	n, ok := w.journal.Node(path)
	if !ok {
		return "unknown"
	}
	return string(n.State)
}

func join(lines []string) string { return strings.Join(lines, "\n") }

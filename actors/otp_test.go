package actors

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/tree"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
)

// This file replays what real OTP supervisors were recorded to do (tree/testdata/otp) through the actors: every supervisor
// and every worker is an actor, and time is a bubble's.

type otpNode struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Strategy     tree.Strategy   `json:"strategy"`
	Intensity    *int            `json:"intensity"`
	PeriodS      *float64        `json:"period_s"`
	AutoShutdown string          `json:"auto_shutdown"`
	Children     []otpNode       `json:"children"`
	Restart      tree.Policy     `json:"restart"`
	Significant  bool            `json:"significant"`
	Shutdown     json.RawMessage `json:"shutdown"`
	Starts       []string        `json:"starts"`
	StartMS      int             `json:"start_ms"`
	LifeMS       int             `json:"life_ms"`
	LifeReason   string          `json:"life_reason"`
	StopMS       int             `json:"stop_ms"`
}

type otpEvent struct {
	AtMS   int             `json:"at_ms"`
	Kill   json.RawMessage `json:"kill"`
	Reason string          `json:"reason"`
	Op     string          `json:"op"`
	Sup    string          `json:"sup"`
	Child  string          `json:"child"`
	Spec   *otpNode        `json:"spec"`
}

type otpScenario struct {
	Name     string     `json:"name"`
	About    string     `json:"about"`
	Tags     []string   `json:"tags"`
	Tree     otpNode    `json:"tree"`
	Events   []otpEvent `json:"events"`
	SettleMS *int       `json:"settle_ms"`
	ByEvent  [][]string `json:"expect_by_event"`
}

func TestOTP(t *testing.T) {
	f, err := os.Open("../tree/testdata/otp/scenarios.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for n := 0; lines.Scan(); n++ {
		var sc otpScenario
		if err := json.Unmarshal(lines.Bytes(), &sc); err != nil {
			t.Fatal(err)
		}
		t.Run(sc.Name, func(t *testing.T) {
			if slices.Contains(sc.Tags, "otp-second-granularity") {
				t.Skip("OTP compares whole seconds of a clock of unknown phase; Coppice slides an exact window")
			}
			if why := sc.crushes(); why != "" {
				t.Skip(why)
			}
			synctest.Test(t, func(t *testing.T) {
				got := playOTP(t, &sc)
				if d := cmp.Diff(sc.ByEvent, got); d != "" {
					t.Errorf("%s\n(-OTP +actors)\n%s", sc.About, d)
				}
			})
		})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// crushes tells why a scenario asks for the brutal death of a supervisor, which code of one's own process cannot have.
func (sc *otpScenario) crushes() string {
	kinds := map[string]bool{}
	var walk func(n *otpNode) bool
	walk = func(n *otpNode) bool {
		kinds[n.ID] = n.Type == "supervisor"
		if n.Type == "supervisor" && len(n.Shutdown) > 0 && string(n.Shutdown) != `"infinity"` {
			return true
		}
		return slices.ContainsFunc(n.Children, func(c otpNode) bool { return walk(&c) })
	}
	bounded := walk(&sc.Tree)
	for _, e := range sc.Events {
		if e.Spec != nil && walk(e.Spec) {
			bounded = true
		}
		for _, id := range e.killed() {
			if e.Reason == "kill" && kinds[id] {
				return "a supervisor is killed without a chance to stop its children; an actor cannot be"
			}
		}
	}
	if bounded {
		return "a supervisor has a bounded shutdown; Coppice waits for a supervisor whatever its Shutdown says"
	}
	return ""
}

func (e *otpEvent) killed() []string {
	var ids []string
	if len(e.Kill) > 0 && json.Unmarshal(e.Kill, &ids) != nil {
		ids = make([]string, 1)
		if err := json.Unmarshal(e.Kill, &ids[0]); err != nil {
			panic(err)
		}
	}
	return ids
}

// otpPlayer plays one scenario.
type otpPlayer struct {
	house *house
	top   *shell

	mu       sync.Mutex
	segments [][]string
	nodes    map[string]*otpNode
	sups     map[string]string // id -> path of its newest incarnation
	starts   map[string]int
	up       map[tree.Ref]bool
	running  map[string]*otpLife // leaves that are up, by id
}

type otpLife struct {
	kill chan tree.Reason
	dead bool
}

func (p *otpPlayer) log(line string) {
	p.segments[len(p.segments)-1] = append(p.segments[len(p.segments)-1], strings.TrimSpace(line))
}

func playOTP(t *testing.T, sc *otpScenario) [][]string {
	p := &otpPlayer{segments: [][]string{{}}, nodes: map[string]*otpNode{}, sups: map[string]string{},
		starts: map[string]int{}, up: map[tree.Ref]bool{}, running: map[string]*otpLife{}}
	spec := p.spec(&sc.Tree)
	journal := newFakeJournal(spec)
	log := hclog.NewNullLogger()
	p.house = &house{system: NewSystem(log), journal: otpJournal{journal, p}, log: log, spawns: newSpawner(1),
		ledger: newLedger(), patient: true, heard: p.heard}
	gone := make(chan struct{})
	ref := tree.Ref{Path: sc.Tree.ID, Inc: 1}
	p.top = newSupervisor(p.house, ref, &spec, spec.Name, func(f tree.Fact) { p.heard(ref, f) })
	p.top.onStop = func() { close(gone) }
	if _, err := p.house.system.Root.SpawnNamed(propsOf(p.top), "top"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	p.started(ref.Path)
	p.top.PostUserMessage(tree.Boot{})
	at := 0
	for i := range sc.Events {
		at = sc.Events[i].AtMS
		time.Sleep(time.Until(begin.Add(ms(at))))
		synctest.Wait()
		p.mu.Lock()
		p.segments = append(p.segments, []string{})
		p.mu.Unlock()
		p.apply(&sc.Events[i])
		synctest.Wait()
	}
	settle := 200
	if sc.SettleMS != nil {
		settle = *sc.SettleMS
	}
	time.Sleep(time.Until(begin.Add(ms(at + settle))))
	synctest.Wait()
	p.mu.Lock()
	segments := slices.Clone(p.segments)
	for i := range segments {
		segments[i] = slices.Clone(segments[i])
	}
	p.mu.Unlock()
	p.top.PostUserMessage(tree.Halt{Kill: true})
	<-gone
	time.Sleep(time.Hour) // what was abandoned comes to its end
	return segments
}

// otpJournal turns events that only the supervisor tells into lines.
type otpJournal struct {
	*fakeJournal
	p *otpPlayer
}

func (j otpJournal) Append(ev tree.Event) tree.Seq {
	switch ev.Kind {
	case tree.EventStarting:
		j.p.started(ev.Path)
	case tree.EventEscalated:
		j.p.mu.Lock()
		j.p.log("escalate " + lastName(ev.Path))
		j.p.mu.Unlock()
	}
	return j.fakeJournal.Append(ev)
}

func lastName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func (p *otpPlayer) started(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := lastName(path)
	if n := p.nodes[id]; n != nil && n.Type == "supervisor" {
		p.sups[id] = path
		p.log("start " + id)
	}
}

// heard turns what a child tells its parent into lines.
func (p *otpPlayer) heard(ref tree.Ref, fact tree.Fact) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := lastName(ref.Path)
	sup := p.sups[id] != ""
	switch f := fact.(type) {
	case tree.Up:
		if sup && !p.up[ref] {
			p.log("ready " + id)
		} else if !sup {
			p.log("start " + id)
		}
		p.up[ref] = true
	case tree.Ignored:
		p.log("ignore " + id)
	case tree.Down:
		delete(p.running, id)
		text := f.Reason.Text
		if f.Reason.Class == tree.Shutdown && text != "shutdown_term" {
			text = "shutdown"
		}
		if !p.up[ref] {
			p.log("fail " + id)
		} else {
			p.log("exit " + id + " " + text)
		}
	}
}

// life is the code of a leaf.
func (p *otpPlayer) life(n *otpNode) Service {
	return func(ctx context.Context, ready func()) error {
		id := lastName(RefOf(ctx).Path) // an instance of a pool has another than its template
		p.mu.Lock()
		k := p.starts[id]
		p.starts[id]++
		p.mu.Unlock()
		if n.StartMS > 0 {
			time.Sleep(ms(n.StartMS))
		}
		if len(n.Starts) > 0 {
			switch n.Starts[min(k, len(n.Starts)-1)] {
			case "error":
				return fmt.Errorf("start failed")
			case "ignore":
				return ErrIgnore
			}
		}
		life := &otpLife{kill: make(chan tree.Reason, 1)}
		p.mu.Lock()
		p.running[id] = life
		p.mu.Unlock()
		ready()
		var end <-chan time.Time
		if n.LifeMS > 0 {
			end = time.After(ms(n.LifeMS))
		}
		select {
		case r := <-life.kill:
			return Ended{Reason: r}
		case <-end:
			r := n.LifeReason
			if r == "" {
				r = "crash"
			}
			return Ended{Reason: otpReason(r)}
		case <-ctx.Done():
			if n.StopMS > 0 {
				select {
				case r := <-life.kill:
					return Ended{Reason: r}
				case <-time.After(ms(n.StopMS)):
				}
			}
			return nil
		}
	}
}

func (p *otpPlayer) apply(e *otpEvent) {
	switch {
	case e.Kill != nil:
		p.kill(e)
	case e.Op == "stop":
		p.top.PostUserMessage(tree.Halt{Wait: true})
	default:
		p.call(e)
	}
}

func (p *otpPlayer) call(e *otpEvent) {
	about := e.Op + " " + e.Sup
	if e.Child != "" {
		about += " " + e.Child
	}
	p.mu.Lock()
	sup := p.house.ledger.supervisor(p.sups[e.Sup])
	if sup == nil {
		p.log("reply " + about + " noproc")
		p.mu.Unlock()
		return
	}
	spec := tree.Spec{Name: e.Child}
	p.mu.Unlock()
	if e.Spec != nil {
		spec = p.spec(e.Spec)
	}
	sup.PostUserMessage(request{
		fact: func(call uint64) tree.Fact {
			return map[string]tree.Fact{
				"start_child":     tree.StartChild{Spec: spec, Call: call},
				"terminate_child": tree.TerminateChild{Child: e.Child, Call: call},
				"restart_child":   tree.RestartChild{Child: e.Child, Call: call},
				"delete_child":    tree.DeleteChild{Child: e.Child, Call: call},
				"which_children":  tree.WhichChildren{Call: call},
				"count_children":  tree.CountChildren{Call: call},
				"change_spec":     tree.ChangeSpec{Spec: spec, Call: call},
			}[e.Op]
		},
		answer: func(r tree.Reply) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.log("reply " + about + " " + otpReply(e.Op, r))
		},
	})
}

func otpReply(op string, r tree.Reply) string {
	switch {
	case r.Error == errNoProc:
		return r.Error
	case r.Error != "":
		return "error " + r.Error
	case op == "which_children":
		lines := []string{}
		for _, c := range r.Children {
			state := "undefined"
			if c.Restarting {
				state = "restarting"
			} else if c.Inc != 0 {
				state = "up"
			}
			lines = append(lines, c.Child+":"+state)
		}
		if len(lines) == 0 {
			return "-"
		}
		return strings.Join(lines, ",")
	case op == "count_children":
		c := r.Counts
		return fmt.Sprintf("specs=%d active=%d supervisors=%d workers=%d", c.Specs, c.Active, c.Supervisors, c.Workers)
	case r.Value != "":
		return "ok " + r.Value
	}
	return "ok"
}

// kill ends nodes. All of them are dead before any supervisor hears of the first: the supervisors' mailboxes are held.
func (p *otpPlayer) kill(e *otpEvent) {
	release := make(chan struct{})
	for _, path := range p.sups {
		if s := p.house.ledger.supervisor(path); s != nil {
			s.PostUserMessage(request{
				fact:   func(call uint64) tree.Fact { <-release; return tree.WhichChildren{Call: call} },
				answer: func(tree.Reply) {},
			})
		}
	}
	synctest.Wait()
	for _, id := range e.killed() {
		p.killOne(id, otpReason(e.Reason))
		synctest.Wait()
	}
	close(release)
}

func (p *otpPlayer) killOne(id string, r tree.Reason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if path := p.sups[id]; path != "" {
		if s := p.house.ledger.supervisor(path); s != nil {
			s.PostUserMessage(tree.Halt{Reason: r, Wait: true})
			return
		}
	} else if life := p.running[id]; life != nil && !life.dead {
		life.dead = true
		life.kill <- r
		return
	}
	p.log("miss " + id)
}

// spec turns a node into a Spec, with OTP's defaults.
func (p *otpPlayer) spec(n *otpNode) tree.Spec {
	p.mu.Lock()
	p.nodes[n.ID] = n
	p.mu.Unlock()
	s := tree.Spec{Name: n.ID, Kind: tree.KindWorker, Restart: tree.Restart{Policy: n.Restart}, Significant: n.Significant,
		Shutdown: 5 * time.Second}
	if n.Type != "supervisor" {
		s.Body = p.life(n)
	} else {
		s.Kind, s.Shutdown = tree.KindGroup, tree.Forever
		i := tree.Intensity{Restarts: 1, Period: 5 * time.Second}
		if n.Intensity != nil {
			i.Restarts = *n.Intensity
		}
		if n.PeriodS != nil {
			i.Period = time.Duration(*n.PeriodS * float64(time.Second))
		}
		s.Supervise = &tree.Supervise{Strategy: n.Strategy, Intensity: &i, Start: tree.Ordered, First: tree.InitFails}
		if n.AutoShutdown != "never" {
			s.Supervise.AutoShutdown = tree.AutoShutdown(n.AutoShutdown)
		}
		for i := range n.Children {
			s.Children = append(s.Children, p.spec(&n.Children[i]))
		}
	}
	switch text := string(n.Shutdown); text {
	case "":
	case `"infinity"`:
		s.Shutdown = tree.Forever
	case `"brutal_kill"`:
		s.Shutdown = 0
	default:
		if err := json.Unmarshal(n.Shutdown, &s.Shutdown); err != nil {
			panic(err)
		}
		s.Shutdown *= time.Millisecond
	}
	return s
}

func otpReason(r string) tree.Reason {
	switch r {
	case "normal":
		return tree.Reason{Class: tree.Normal, Text: r}
	case "shutdown", "shutdown_term":
		return tree.Reason{Class: tree.Shutdown, Text: r}
	case "kill":
		return tree.Reason{Class: tree.Crash, Text: "killed"}
	}
	return tree.Reason{Class: tree.Crash, Text: r}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

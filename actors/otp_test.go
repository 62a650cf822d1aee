package actors

import (
	"bufio"
	"encoding/json"
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

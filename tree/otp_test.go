package tree_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-run/coppice/tree"
	"github.com/coppice-run/coppice/tree/sim"
)

// otpNode is a node as testdata/otp describes it.
type otpNode struct {
	ID           string          `json:"id"`
	Type         string          `json:"type,omitempty"`
	Strategy     tree.Strategy   `json:"strategy,omitempty"`
	Intensity    *int            `json:"intensity,omitempty"`
	PeriodS      *float64        `json:"period_s,omitempty"`
	AutoShutdown string          `json:"auto_shutdown,omitempty"`
	Children     []otpNode       `json:"children,omitempty"`
	Restart      tree.Policy     `json:"restart,omitempty"`
	Significant  bool            `json:"significant,omitempty"`
	Shutdown     json.RawMessage `json:"shutdown,omitempty"`
	Starts       []string        `json:"starts,omitempty"`
	StartMS      int             `json:"start_ms,omitempty"`
	LifeMS       int             `json:"life_ms,omitempty"`
	LifeReason   string          `json:"life_reason,omitempty"`
	StopMS       int             `json:"stop_ms,omitempty"`
}

type otpEvent struct {
	AtMS   int             `json:"at_ms"`
	Kill   json.RawMessage `json:"kill,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Op     string          `json:"op,omitempty"`
	Sup    string          `json:"sup,omitempty"`
	Child  string          `json:"child,omitempty"`
	Spec   *otpNode        `json:"spec,omitempty"`
}

type otpScenario struct {
	Name     string     `json:"name"`
	About    string     `json:"about"`
	Tags     []string   `json:"tags"`
	Tree     otpNode    `json:"tree"`
	Events   []otpEvent `json:"events"`
	SettleMS *int       `json:"settle_ms"`
	Expect   []string   `json:"expect"`
	ByEvent  [][]string `json:"expect_by_event"`
	Final    struct {
		Top   string   `json:"top"`
		Alive []string `json:"alive"`
	} `json:"final"`
}

// TestOTP replays what real OTP supervisors were recorded to do. COPPICE_OTP_TRACES names one more file to try.
func TestOTP(t *testing.T) {
	files := []string{"testdata/otp/scenarios.jsonl"}
	if more := os.Getenv("COPPICE_OTP_TRACES"); more != "" {
		files = append(files, more)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 16<<20)
		n := 0
		for lines.Scan() {
			if len(strings.TrimSpace(lines.Text())) == 0 {
				continue
			}
			var sc otpScenario
			if err := json.Unmarshal(lines.Bytes(), &sc); err != nil {
				t.Fatal(err)
			}
			n++
			if sc.Name == "" {
				sc.Name = fmt.Sprintf("%s:%d", file, n)
			}
			t.Run(sc.Name, func(t *testing.T) {
				if slices.Contains(sc.Tags, "otp-second-granularity") {
					t.Skip("OTP compares whole seconds of a clock of unknown phase; Coppice slides an exact window")
				}
				got := replay(&sc)
				if sc.ByEvent != nil {
					if diff := cmp.Diff(sc.ByEvent, got.segments); diff != "" {
						t.Errorf("%s\n(-OTP +Coppice)\n%s", sc.About, diff)
					}
				} else if diff := cmp.Diff(sc.Expect, slices.Concat(got.segments...)); diff != "" {
					t.Errorf("%s\n(-OTP +Coppice)\n%s", sc.About, diff)
				}
				if got.top != sc.Final.Top || !slices.Equal(got.alive, sc.Final.Alive) {
					t.Errorf("in the end %s %v, want %s %v", got.top, got.alive, sc.Final.Top, sc.Final.Alive)
				}
			})
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			t.Errorf("%s holds no scenario", file)
		}
	}
}

// replayed is what came of a scenario.
type replayed struct {
	segments [][]string
	top      string
	alive    []string
}

// player runs one scenario against the real machines.
type player struct {
	world    *sim.World
	segments [][]string
	starts   map[string]int
	calls    map[uint64]string
	call     uint64
	failed   bool
}

func replay(sc *otpScenario) replayed {
	p := &player{segments: [][]string{{}}, starts: map[string]int{}, calls: map[uint64]string{}}
	spec := p.spec(&sc.Tree)
	p.world = sim.New(spec, sim.Options{Patient: true, Lives: p.life, Order: p.reply, Trace: func(what, name, detail string) {
		p.log(strings.TrimSpace(what + " " + name + " " + detail))
		if what == "fail" && name == sc.Tree.ID {
			p.failed = true
		}
	}})
	p.world.Boot()
	at := 0
	for i := range sc.Events {
		at = sc.Events[i].AtMS
		p.world.Run(time.Duration(at) * time.Millisecond)
		p.segments = append(p.segments, []string{})
		p.apply(&sc.Events[i])
	}
	settle := 200
	if sc.SettleMS != nil {
		settle = *sc.SettleMS
	}
	p.world.Run(time.Duration(at+settle) * time.Millisecond)
	r := replayed{segments: p.segments, top: "down", alive: p.world.Alive()}
	switch {
	case p.world.Top().Exists():
		r.top = "alive"
	case p.failed:
		r.top = "start_failed"
	}
	return r
}

func (p *player) log(line string) {
	last := len(p.segments) - 1
	p.segments[last] = append(p.segments[last], line)
}

// life counts the start attempts of an id over the whole scenario.
func (p *player) life(ref tree.Ref, spec *tree.Spec) sim.Life {
	n := spec.Body.(*otpNode)
	life := sim.Life{Start: ms(n.StartMS), For: ms(n.LifeMS), Stop: ms(n.StopMS), End: otpReason(or(n.LifeReason, "crash"))}
	if len(n.Starts) > 0 {
		k := min(p.starts[spec.Name], len(n.Starts)-1)
		switch n.Starts[k] {
		case "error":
			life.Outcome, life.End = sim.Fails, otpReason("crash")
		case "ignore":
			life.Outcome = sim.Ignores
		}
	}
	p.starts[spec.Name]++
	return life
}

func (p *player) apply(e *otpEvent) {
	if e.Kill != nil {
		p.kill(e)
		return
	}
	if e.Op == "stop" {
		p.world.Tell(p.world.Top(), tree.Halt{Wait: true, Seq: p.world.NextSeq()})
		return
	}
	about := e.Op + " " + e.Sup
	if e.Child != "" {
		about += " " + e.Child
	}
	sup := p.world.Find(e.Sup)
	if !sup.Exists() {
		p.log("reply " + about + " noproc")
		return
	}
	p.call++
	p.calls[p.call] = about
	var spec tree.Spec
	if e.Spec != nil {
		spec = p.spec(e.Spec)
	} else {
		spec.Name = e.Child
	}
	p.world.Tell(sup, map[string]tree.Fact{
		"start_child":     tree.StartChild{Spec: spec, Call: p.call, Seq: p.world.NextSeq()},
		"terminate_child": tree.TerminateChild{Child: e.Child, Call: p.call, Seq: p.world.NextSeq()},
		"restart_child":   tree.RestartChild{Child: e.Child, Call: p.call, Seq: p.world.NextSeq()},
		"delete_child":    tree.DeleteChild{Child: e.Child, Call: p.call, Seq: p.world.NextSeq()},
		"which_children":  tree.WhichChildren{Call: p.call},
		"count_children":  tree.CountChildren{Call: p.call},
		"change_spec":     tree.ChangeSpec{Spec: spec, Call: p.call, Seq: p.world.NextSeq()},
	}[e.Op])
}

func (p *player) kill(e *otpEvent) {
	var ids []string
	if json.Unmarshal(e.Kill, &ids) != nil {
		ids = make([]string, 1)
		if err := json.Unmarshal(e.Kill, &ids[0]); err != nil {
			panic(err)
		}
	}
	r := otpReason(e.Reason)
	for _, id := range ids {
		n := p.world.Find(id)
		switch {
		case !n.Exists():
			p.log("miss " + id)
		case !n.Spec.IsSupervisor():
			if !p.world.Kill(n, r) {
				p.log("miss " + id)
			}
		case e.Reason == "kill":
			p.world.Crush(n)
		default:
			p.world.Tell(n, tree.Halt{Reason: r, Wait: true, Seq: p.world.NextSeq()})
		}
	}
}

// reply writes the answers to administrative calls.
func (p *player) reply(_ string, o tree.Order) {
	r, ok := o.(tree.Reply)
	if !ok {
		return
	}
	about := p.calls[r.Call]
	result := "ok"
	switch {
	case r.Error != "":
		result = "error " + r.Error
	case strings.HasPrefix(about, "which_children"):
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
		result = or(strings.Join(lines, ","), "-")
	case strings.HasPrefix(about, "count_children"):
		c := r.Counts
		result = fmt.Sprintf("specs=%d active=%d supervisors=%d workers=%d", c.Specs, c.Active, c.Supervisors, c.Workers)
	case r.Value != "":
		result = "ok " + r.Value
	}
	p.log("reply " + about + " " + result)
}

// spec turns a node into a Spec, with OTP's defaults.
func (p *player) spec(n *otpNode) tree.Spec {
	s := tree.Spec{Name: n.ID, Kind: tree.KindWorker, Restart: tree.Restart{Policy: n.Restart}, Significant: n.Significant,
		Shutdown: 5 * time.Second, Body: n}
	if n.Type == "supervisor" {
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
	if len(n.Shutdown) > 0 {
		var v any
		if err := json.Unmarshal(n.Shutdown, &v); err != nil {
			panic(err)
		}
		switch v := v.(type) {
		case float64:
			s.Shutdown = ms(int(v))
		case string:
			s.Shutdown = map[string]time.Duration{"infinity": tree.Forever, "brutal_kill": 0}[v]
		}
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

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

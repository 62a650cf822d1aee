package tree_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-run/coppice/tree"
	"github.com/coppice-run/coppice/tree/sim"
)

// TestHost lets whole hosts of tenants, apps, pools and workers live through random faults under virtual time. Every
// supervisor is watched by the oracle. COPPICE_SEED runs one host; a failure writes the transcript of the supervisor.
func TestHost(t *testing.T) {
	first, last := uint64(1), uint64(60)
	if testing.Short() {
		last = 10
	}
	if s := os.Getenv("COPPICE_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &first); err != nil {
			t.Fatal(err)
		}
		last = first
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		h := newHost(t, seed, nil)
		h.world.Boot()
		h.live(10 * time.Minute)
		h.wellAgain()
	}
}

// TestTenantsApart is promise 8: whatever happens below one tenant, the course of another does not change.
func TestTenantsApart(t *testing.T) {
	course := func(loop bool) []string {
		var lines []string
		h := newHost(t, 7, &lines)
		h.loop = loop
		h.world.Boot()
		for range 300 {
			h.world.Run(h.world.Now() + time.Second)
			if n := h.world.Find("t1a0w0.0"); n.Alive() && h.world.Now()%(17*time.Second) == 0 {
				h.world.Kill(n, tree.Reason{})
			}
		}
		return lines
	}
	quiet, loud := course(false), course(true)
	if diff := cmp.Diff(quiet, loud); diff != "" || len(quiet) < 20 {
		t.Errorf("tenant t1 fares differently while t0 crashes (%d lines):\n%s", len(quiet), diff)
	}
}

// living is one simulated host.
type living struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	world   *sim.World
	watches map[string]*tree.Oracle // by path, of the present incarnation
	path    string                  // of the step that goes on
	fact    tree.Fact
	orders  []tree.Order
	at      time.Duration
	sups    []*sim.Node
	leafs   []string
	held    map[string]string // child to its supervisor's name
	loop    bool              // t0 never stays up
	calm    bool
}

func newHost(t *testing.T, seed uint64, lines *[]string) *living {
	h := &living{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), watches: map[string]*tree.Oracle{}, held: map[string]string{}}
	spec := tree.Spec{Name: "host", Kind: tree.KindHost, Supervise: &tree.Supervise{}}
	for i := range 3 {
		spec.Children = append(spec.Children, h.tenant(fmt.Sprintf("t%d", i)))
	}
	dice := sim.Dice(seed)
	if lines != nil {
		dice = nil // one source of jitter for all would tie the tenants together
	}
	h.world = sim.New(spec, sim.Options{Lives: h.life, Dice: dice, Fact: h.heard,
		Order: func(_ string, o tree.Order) { h.orders = append(h.orders, o) },
		Trace: func(what, name, detail string) {
			if lines != nil && strings.HasPrefix(name, "t1") {
				*lines = append(*lines, fmt.Sprint(h.world.Now().Round(time.Second), " ", what, " ", name, " ", detail))
			}
		}})
	if lines != nil {
		h.calm = true
	}
	return h
}

func (h *living) tenant(name string) tree.Spec {
	s := tree.Spec{Name: name, Kind: tree.KindTenant, Restart: tree.DefaultRestart(), Supervise: h.supervise()}
	for i := range 1 + h.rng.IntN(2) {
		a := tree.Spec{Name: fmt.Sprintf("%sa%d", name, i), Kind: tree.KindApp, Restart: tree.DefaultRestart(), Supervise: h.supervise()}
		for j := range 2 + h.rng.IntN(3) {
			w := fmt.Sprintf("%sw%d", a.Name, j)
			pool := tree.Spec{Name: w, Kind: tree.KindPool, Restart: tree.DefaultRestart(), Supervise: &tree.Supervise{Quorum: 1}}
			if j > 0 && h.rng.IntN(2) == 0 {
				pool.After = []string{fmt.Sprintf("%sw%d", a.Name, h.rng.IntN(j))}
			}
			for k := range 1 + h.rng.IntN(3) {
				run := tree.DefaultRun()
				run.Ready.Notify = true
				leaf := tree.Spec{Name: fmt.Sprintf("%s.%d", w, k), Kind: tree.KindWorker, Restart: tree.DefaultRestart(), Run: &run}
				h.leafs = append(h.leafs, leaf.Name)
				pool.Children = append(pool.Children, leaf)
			}
			a.Children = append(a.Children, pool)
		}
		s.Children = append(s.Children, a)
	}
	return s
}

func (h *living) supervise() *tree.Supervise {
	s := &tree.Supervise{Strategy: pick(&gardener{rng: h.rng}, tree.OneForOne, tree.OneForAll, tree.RestForOne)}
	if h.rng.IntN(2) == 0 {
		s.Intensity = &tree.Intensity{Restarts: 2 + h.rng.IntN(4), Period: time.Hour}
	}
	return s
}

// life is mostly healthy; while faults are on, some starts fail and some lives are short.
func (h *living) life(ref tree.Ref, spec *tree.Spec) sim.Life {
	life := sim.Life{Start: 200 * time.Millisecond, Stop: 100 * time.Millisecond}
	switch {
	case h.loop && strings.HasPrefix(spec.Name, "t0"):
		life.For, life.Exit = 50*time.Millisecond, tree.Exit{Code: 1}
	case h.calm:
	case h.rng.IntN(30) == 0:
		life.Outcome = sim.Fails
	case h.rng.IntN(20) == 0:
		life.For, life.Exit = time.Duration(1+h.rng.IntN(20000))*time.Millisecond, tree.Exit{Code: h.rng.IntN(3)}
	}
	return life
}

// heard has each supervisor watched: a fact ends the step before it.
func (h *living) heard(path string, fact tree.Fact) {
	h.judge()
	h.path, h.fact, h.orders, h.at = path, fact, nil, h.world.Now()
	if _, boot := fact.(tree.Boot); boot {
		delete(h.watches, path)
		if n := h.world.Find(path); n.Spec.IsSupervisor() {
			h.watches[path] = tree.NewOracle(*n.Spec)
			h.sups = append(h.sups, n)
		}
	}
}

// judge holds the step that is over against the promises.
func (h *living) judge() {
	o := h.watches[h.path]
	if o == nil || h.fact == nil {
		return
	}
	if trouble := o.See(time.Unix(0, 0).Add(h.at), h.fact, h.orders); trouble != "" && !h.t.Failed() {
		dir := os.Getenv("COPPICE_HISTORIES")
		if dir == "" {
			dir = h.t.TempDir()
		}
		file := filepath.Join(dir, fmt.Sprintf("host-%d.txt", h.seed))
		if err := os.WriteFile(file, []byte(o.Transcript()), 0o600); err != nil {
			h.t.Log(err)
		}
		h.t.Errorf("seed %d, %s: %s\n%s\n(%s)", h.seed, h.path, trouble, o.Transcript(), file)
	}
	h.fact = nil
}

// live lets random faults and operators at the host.
func (h *living) live(d time.Duration) {
	for h.world.Now() < d && !h.t.Failed() {
		h.world.Run(h.world.Now() + time.Duration(h.rng.IntN(4000))*time.Millisecond)
		sup := h.sups[h.rng.IntN(len(h.sups))]
		if !sup.Exists() || len(sup.Spec.Children) == 0 {
			continue
		}
		child := sup.Spec.Children[h.rng.IntN(len(sup.Spec.Children))].Name
		seq := h.world.NextSeq()
		switch h.rng.IntN(8) {
		case 0, 1, 2, 3:
			h.world.Kill(h.world.Find(h.leafs[h.rng.IntN(len(h.leafs))]), tree.Reason{})
		case 4:
			h.held[child] = sup.Name
			h.world.Tell(sup, tree.Hold{Child: child, Reason: "stopped by op", Seq: seq})
		case 5:
			delete(h.held, child)
			h.world.Tell(sup, tree.Release{Child: child, Reason: "started by op", Seq: seq})
		case 6:
			delete(h.held, child)
			h.world.Tell(sup, tree.Bounce{Child: child, Reason: "restarted by op", Seq: seq})
		case 7:
			h.world.Tell(sup, tree.Roll{Reason: "restarted by op", Seq: seq})
		}
	}
}

// wellAgain ends the faults, takes back what operators said, and wants every worker up; then the host halts in order.
func (h *living) wellAgain() {
	h.calm = true
	for child, sup := range h.held {
		h.world.Tell(h.world.Find(sup), tree.Release{Child: child, Reason: "started by op", Seq: h.world.NextSeq()})
	}
	h.world.Run(h.world.Now() + time.Hour)
	for _, name := range h.leafs {
		if !h.t.Failed() && !h.world.Find(name).Alive() {
			h.t.Errorf("seed %d: %s is not up an hour after the last fault", h.seed, name)
		}
	}
	h.world.Tell(h.world.Top(), tree.Halt{Seq: h.world.NextSeq()})
	h.world.Run(h.world.Now() + 10*time.Minute)
	if alive := h.world.Alive(); len(alive) > 0 && !h.t.Failed() {
		h.t.Errorf("seed %d: still there ten minutes after the halt: %v", h.seed, alive)
	}
}

package sim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// otpTree is the part of a recorded scenario that a bound depends on; see ../testdata/otp.
type otpTree struct {
	ID        string        `json:"id"`
	Type      string        `json:"type"`
	Strategy  tree.Strategy `json:"strategy"`
	Intensity *int          `json:"intensity"`
	PeriodS   *float64      `json:"period_s"`
	Restart   tree.Policy   `json:"restart"`
	Children  []otpTree     `json:"children"`
	Starts    []string      `json:"starts"`
	LifeMS    int           `json:"life_ms"`
}

func (o *otpTree) spec() tree.Spec {
	s := tree.Spec{Name: o.ID, Restart: tree.Restart{Policy: o.Restart}}
	if o.Type != "supervisor" {
		return s
	}
	i := tree.Intensity{Restarts: 1, Period: 5 * time.Second}
	if o.Intensity != nil {
		i.Restarts = *o.Intensity
	}
	if o.PeriodS != nil {
		i.Period = time.Duration(*o.PeriodS * float64(time.Second))
	}
	s.Supervise = &tree.Supervise{Strategy: o.Strategy, Intensity: &i, Start: tree.Ordered, First: tree.InitFails}
	for k := range o.Children {
		s.Children = append(s.Children, o.Children[k].spec())
	}
	return s
}

// loopers lists the paths of the leaves that crash by themselves after each start.
func (o *otpTree) loopers(path string) map[string]*otpTree {
	if o.LifeMS > 0 {
		return map[string]*otpTree{path: o}
	}
	all := map[string]*otpTree{}
	for k := range o.Children {
		for p, leaf := range o.Children[k].loopers(path + "/" + o.Children[k].ID) {
			all[p] = leaf
		}
	}
	return all
}

// find returns the leaf of an id, and its path.
func (o *otpTree) find(path string, id any) (*otpTree, string) {
	if o.Type != "supervisor" && o.ID == id {
		return o, path
	}
	for k := range o.Children {
		if leaf, at := o.Children[k].find(path+"/"+o.Children[k].ID, id); leaf != nil {
			return leaf, at
		}
	}
	return nil, ""
}

// TestBoundHoldsForOTP compares the formula with what real OTP supervisors were recorded to do.
func TestBoundHoldsForOTP(t *testing.T) {
	file, err := os.Open("../testdata/otp/scenarios.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	compared, products := 0, 0
	for lines.Scan() {
		var sc struct {
			Name   string   `json:"name"`
			Tags   []string `json:"tags"`
			Tree   otpTree  `json:"tree"`
			Expect []string `json:"expect"`
			Events []struct {
				AtMS int `json:"at_ms"`
				Kill any `json:"kill"`
			} `json:"events"`
			Final struct {
				Top string `json:"top"`
			} `json:"final"`
		}
		if err := json.Unmarshal(lines.Bytes(), &sc); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(sc.Tags, "product") && !slices.Contains(sc.Tags, "nested") {
			continue
		}
		if strings.HasPrefix(sc.Name, "sum-") {
			sum(t, &sc.Tree, sc.Expect)
			products++
			continue
		}
		loopers := sc.Tree.loopers(sc.Tree.ID)
		if len(sc.Events) > 3 && len(loopers) == 0 { // one leaf is killed again and again, at even distances
			gap, even := sc.Events[1].AtMS-sc.Events[0].AtMS, true
			for i := 1; i < len(sc.Events); i++ {
				even = even && sc.Events[i].Kill == sc.Events[0].Kill && sc.Events[i].AtMS-sc.Events[i-1].AtMS == gap
			}
			if leaf, path := sc.Tree.find(sc.Tree.ID, sc.Events[0].Kill); even && leaf != nil {
				leaf.LifeMS = gap
				loopers = map[string]*otpTree{path: leaf}
			}
		} else if len(sc.Events) > 0 {
			continue
		}
		if len(loopers) != 1 {
			continue
		}
		for path, leaf := range loopers {
			spec := sc.Tree.spec()
			b := BoundOf(&spec, path, time.Duration(leaf.LifeMS)*time.Millisecond)
			starts := count(sc.Expect, "start "+leaf.ID)
			switch {
			case sc.Final.Top == "alive" && !b.Forever && uint64(starts) >= b.Starts:
				t.Errorf("%s: OTP goes on after %d starts, the bound is %s", sc.Name, starts, b.Formula)
			case sc.Final.Top != "alive" && (b.Forever || b.Starts != uint64(starts)):
				t.Errorf("%s: OTP started %s %d times, the bound is %+v", sc.Name, leaf.ID, starts, b)
			}
			t.Logf("%s: %s: OTP started %s %d times, the bound is %+v", sc.Name, sc.Final.Top, leaf.ID, starts, b)
			compared++
			if slices.Contains(sc.Tags, "product") {
				products++
			}
		}
	}
	if err := lines.Err(); err != nil || products < 4 || compared < 4 {
		t.Errorf("compared %d scenarios, %d of them tagged product: %v", compared, products, err)
	}
}

// sum is the other formula: start failures add up, because a supervisor of OTP does not retry while it starts.
func sum(t *testing.T, o *otpTree, expect []string) {
	want, leaf := 0, o
	for leaf.Type == "supervisor" {
		want += *leaf.Intensity
		leaf = &leaf.Children[0]
	}
	if got := count(expect, "fail "+leaf.ID); got != want {
		t.Errorf("%s: OTP tried %d times, the sum is %d", leaf.ID, got, want)
	}
}

func count(lines []string, line string) int {
	n := 0
	for _, l := range lines {
		if l == line {
			n++
		}
	}
	return n
}

func TestBoundInWords(t *testing.T) {
	group := func(name string, i *tree.Intensity, r tree.Restart, children ...tree.Spec) tree.Spec {
		return tree.Spec{Name: name, Restart: r, Supervise: &tree.Supervise{Intensity: i}, Children: children}
	}
	in := func(n int, p time.Duration) *tree.Intensity { return &tree.Intensity{Restarts: n, Period: p} }
	leaf := func(r tree.Restart) tree.Spec { return tree.Spec{Name: "a", Restart: r} }
	none := tree.Restart{}
	for _, c := range []struct {
		spec tree.Spec
		want string
	}{
		{group("t", in(2, time.Minute), none, group("s", in(2, time.Minute), none, leaf(none))), "(2+1)·(2+1) = 9; ends at t: more than 2 restarts within 1m"},
		{group("t", nil, none, leaf(none)), "1; for ever at t: it has no intensity"},
		{group("t", nil, none, group("s", in(3, time.Minute), none, leaf(none))), "(3+1) = 4; for ever at t: it has no intensity"},
		{group("t", in(3, 5*time.Second), none, leaf(tree.Restart{Backoff: time.Second, Factor: 2, ResetAfter: time.Hour})), "1; for ever at t: 3 more restarts of a take 7s, and its period is 5s"},
		{group("t", in(3, 7*time.Second), none, leaf(tree.Restart{Backoff: time.Second, Factor: 2, ResetAfter: time.Hour})), "(3+1) = 4; ends at t: more than 3 restarts within 7s"},
		{group("t", in(9, 7*time.Second), none, leaf(tree.Restart{Limit: 3, OnLimit: tree.OnLimitStop})), "3; ends at t/a: a has failed after 3 ends"},
		{group("t", nil, none, leaf(tree.Restart{Limit: 3, OnLimit: tree.OnLimitEscalate})), "3; ends at t: the limit of a is 3"},
		{group("t", nil, none, leaf(tree.Restart{Limit: 3, Within: 2 * time.Second, Backoff: time.Second, OnLimit: tree.OnLimitEscalate})), "3; ends at t: the limit of a is 3"},
		{group("t", nil, none, leaf(tree.Restart{Limit: 3, Within: 1999 * time.Millisecond, Backoff: time.Second, OnLimit: tree.OnLimitEscalate})), "1; for ever at t: it has no intensity"},
		{group("t", in(9, 7*time.Second), none, leaf(tree.Restart{Policy: tree.Temporary})), "1; ends at t/a: a is temporary and is not restarted"},
		{group("t", in(9, time.Minute), none, group("s", in(1, time.Minute), tree.Restart{Policy: tree.Transient}, leaf(none))), "(1+1)·1 = 2; ends at t/s: s is transient and is not restarted"},
		{group("t", in(1, time.Second), none, group("s", in(1, time.Minute), tree.Restart{Backoff: 2 * time.Second}, leaf(none))), "(1+1) = 2; for ever at t: 1 more restart of s take 2s, and its period is 1s"},
		{group("t", in(1_000_000, time.Second), none, leaf(none)), "(1000000+1) = 1000001; ends at t: more than 1000000 restarts within 1s"},
	} {
		path := c.spec.Name
		for s := &c.spec; len(s.Children) > 0; s = &s.Children[0] {
			path = tree.ChildPath(path, "", s.Children[0].Name)
		}
		b := BoundOf(&c.spec, path, 0)
		word := "ends"
		if b.Forever {
			word = "for ever"
		}
		if got := fmt.Sprintf("%s; %s at %s: %s", b.Formula, word, b.Level, b.Why); got != c.want {
			t.Errorf(" got %s\nwant %s", got, c.want)
		}
	}
	if b := BoundOf(&tree.Spec{Name: "x", Supervise: &tree.Supervise{}}, "x/y", 0); b != (Bound{}) {
		t.Errorf("no such leaf: %+v", b)
	}
}

// randomTree has one leaf at the bottom of a chain of supervisors, siblings beside it, and every setting that matters.
func randomTree(rng *rand.Rand) (tree.Spec, string) {
	restart := func() tree.Restart {
		r := tree.Restart{Backoff: time.Duration(rng.IntN(4)*100) * time.Millisecond, Factor: float64(1 + rng.IntN(2)), ResetAfter: time.Hour}
		if rng.IntN(2) == 0 {
			r.Cap = time.Duration(1+rng.IntN(20)) * 100 * time.Millisecond
			r.Backoff = min(r.Backoff, r.Cap)
		}
		if rng.IntN(3) == 0 {
			r.Limit, r.Within = 1+rng.IntN(6), time.Duration(1+rng.IntN(20))*time.Second
			r.OnLimit = []tree.OnLimit{tree.OnLimitSlow, tree.OnLimitStop, tree.OnLimitEscalate}[rng.IntN(3)]
		}
		return r
	}
	run := tree.DefaultRun()
	spec, path := tree.Spec{Name: "a", Restart: restart(), Run: &run}, "a"
	for level := range 1 + rng.IntN(3) {
		up := tree.Spec{Name: fmt.Sprintf("s%d", level), Restart: restart(), Supervise: &tree.Supervise{
			Strategy: []tree.Strategy{tree.OneForOne, tree.OneForAll, tree.RestForOne}[rng.IntN(3)]}}
		if rng.IntN(6) > 0 {
			up.Supervise.Intensity = &tree.Intensity{Restarts: rng.IntN(4), Period: time.Duration(rng.IntN(40)) * 250 * time.Millisecond}
		}
		if rng.IntN(2) == 0 {
			up.Children = append(up.Children, tree.Spec{Name: "x", Run: &run})
		}
		up.Children = append(up.Children, spec)
		if rng.IntN(2) == 0 {
			up.Children = append(up.Children, tree.Spec{Name: "y", Run: &run})
		}
		spec, path = up, up.Name+"/"+path
	}
	return spec, path
}

// TestBoundIsWhatHappens lets one leaf of random trees crash at once after each start, and counts.
func TestBoundIsWhatHappens(t *testing.T) {
	finite, endless := 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		spec, path := randomTree(rng)
		life := time.Duration(rng.IntN(3)) * 50 * time.Millisecond
		b := BoundOf(&spec, path, life)
		f, err := ParseFault(path + ": exit 1 after ready " + life.String())
		if err != nil {
			t.Fatal(err)
		}
		if b.Forever && life == 0 {
			continue // time may stand still
		}
		r, err := Experiment{Spec: spec, Faults: []Fault{f}, Until: 2 * time.Minute}.Run()
		if err != nil {
			t.Fatal(err)
		}
		var seen *Summary
		for i := range r.Nodes {
			if r.Nodes[i].Path == path {
				seen = &r.Nodes[i]
			}
		}
		switch {
		case b.Forever:
			endless++
			if r.Reason != "" {
				t.Fatalf("seed %d: the bound is %+v, but the tree gave up after %d starts", seed, b, seen.Starts)
			}
		default:
			finite++
			if uint64(seen.Starts) != b.Starts {
				t.Fatalf("seed %d: started %d times, the bound is %+v; %s", seed, seen.Starts, b, r.Headline())
			}
		}
	}
	if finite < 50 || endless < 50 {
		t.Errorf("%d trees with a bound, %d without", finite, endless)
	}
}

// TestWarningsAreTrue lets all leaves of random trees fail as they like: what is said never to be exceeded is not.
func TestWarningsAreTrue(t *testing.T) {
	never, exceeded := 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		spec, _ := randomTree(rng)
		warned := map[string]bool{}
		for _, text := range Warnings(&spec) {
			if path, _, ok := strings.Cut(text, ": intensity"); ok && strings.Contains(text, "can never be exceeded") {
				warned[path] = true
				never++
			}
		}
		f, err := ParseFault(fmt.Sprintf("*: exit 1 after ready %s", time.Duration(20+rng.IntN(200))*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		g, _ := ParseFault("*: exit 1 with probability 0.2 per second")
		h, _ := ParseFault("*: down at 5s for 15s")
		x := Experiment{Spec: spec, Faults: [][]Fault{{f}, {g}, {h}, {f, h}}[rng.IntN(4)], Until: 20 * time.Second, Seed: seed}
		r, err := x.Run()
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Nodes {
			n := &r.Nodes[i]
			if n.Escalations > 0 {
				exceeded++
			}
			if n.Escalations > 0 && warned[n.Path] {
				t.Fatalf("seed %d: %s gave up %d times, though\n%s", seed, n.Path, n.Escalations, strings.Join(r.Warnings, "\n"))
			}
		}
	}
	if never < 10 || exceeded < 100 {
		t.Errorf("%d warnings, %d supervisors that gave up", never, exceeded)
	}
}

func TestWarnings(t *testing.T) {
	r := tree.DefaultRestart()
	spec := tree.Spec{Kind: tree.KindHost, Supervise: &tree.Supervise{}, Children: []tree.Spec{{Name: "acme", Kind: tree.KindTenant, Restart: r,
		Supervise: &tree.Supervise{Intensity: &tree.Intensity{Restarts: 3, Period: 4 * time.Second}}, Children: []tree.Spec{
			{Name: "shop", Kind: tree.KindApp, Restart: r, Supervise: &tree.Supervise{Intensity: &tree.Intensity{Restarts: 3, Period: 5 * time.Second}},
				Children: []tree.Spec{{Name: "a", Restart: r}, {Name: "b", Restart: r}}},
		}}}}
	shop := &spec.Children[0].Children[0]
	for _, c := range []struct {
		change func()
		want   string
	}{
		{func() {}, `acme: intensity 3 within 4s can never be exceeded: 4 restarts take at least 5s, because shop, the fastest child, needs 500ms to give up, then waits 500ms, 1s, 2s. A period of 5s, a shorter backoff or a smaller intensity would do`},
		{func() { shop.Supervise.Intensity.Restarts = 6 }, `acme/shop: intensity 6 within 5s is not exceeded by one child alone: 7 restarts of a take at least 1m7s, so its crash loop lives for ever here
acme: intensity 3 within 4s can never be exceeded: 4 restarts take at least 14s, because shop, the fastest child, needs 3.5s to give up, then waits 500ms, 1s, 2s. A period of 14s, a shorter backoff or a smaller intensity would do`},
		{func() { shop.Supervise.Intensity.Restarts = 9 }, `acme/shop: intensity 9 within 5s can never be exceeded: 10 restarts take at least 7.5s, because a, the fastest child, waits 500ms, 1s, 2s, 4s, …. A period of 7.5s, a shorter backoff or a smaller intensity would do
acme: intensity 3 within 4s can never be exceeded: none of its children ever gives up (shop: it can never exceed its intensity)`},
		{func() { shop.Supervise.Intensity = nil }, `acme: intensity 3 within 4s can never be exceeded: none of its children ever gives up (shop: it has no intensity)`},
		{func() { shop.Children[0].Restart.OnLimit = tree.OnLimitEscalate }, ``},
	} {
		c.change()
		if got := strings.Join(Warnings(&spec), "\n"); got != c.want {
			t.Errorf("\n got %s\nwant %s", got, c.want)
		}
	}
}

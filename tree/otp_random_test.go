package tree_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-run/coppice/tree"
)

// TestOTPRandom compares the machine with the model on random trees and events: the same kinds as the recorded ones.
func TestOTPRandom(t *testing.T) {
	t.Parallel()
	n := 3000
	if testing.Short() {
		n = 300
	}
	if s := os.Getenv("COPPICE_RANDOM_TREES"); s != "" {
		fmt.Sscan(s, &n)
	}
	bad := 0
	for seed := 1; seed <= n && bad < 3; seed++ {
		if sc, diff := compare(uint64(seed)); diff != "" {
			bad++
			text, _ := json.MarshalIndent(map[string]any{"tree": sc.Tree, "events": sc.Events}, "", " ")
			t.Errorf("seed %d (-model +machine)\n%s\n%s", seed, diff, text)
		}
	}
}

func compare(seed uint64) (*otpScenario, string) {
	g := &gardener{rng: rand.New(rand.NewPCG(seed, 7))}
	sc := g.scenario()
	m := newModel()
	var want [][]string
	m.start(&sc.Tree, nil)
	m.run()
	cut := func() {
		want = append(want, append([]string{}, m.trace...))
		m.trace = nil
	}
	cut()
	for i := range sc.Events {
		e := &sc.Events[i]
		var ids []string
		if e.Kill != nil && json.Unmarshal(e.Kill, &ids) != nil {
			ids = make([]string, 1)
			json.Unmarshal(e.Kill, &ids[0])
		}
		m.event(e, ids, sc.Tree.ID)
		cut()
	}
	return sc, cmp.Diff(anyOrder(want), anyOrder(replay(sc).segments))
}

// anyOrder sorts neighbours that were killed: OTP leaves open in which order the links of a crushed supervisor break.
func anyOrder(segments [][]string) [][]string {
	for _, lines := range segments {
		for i := range lines {
			for j := i; j > 0 && strings.HasSuffix(lines[j], " killed") && strings.HasSuffix(lines[j-1], " killed") &&
				lines[j] < lines[j-1]; j-- {
				lines[j], lines[j-1] = lines[j-1], lines[j]
			}
		}
	}
	return segments
}

// gardener grows random trees.
type gardener struct {
	rng   *rand.Rand
	next  int
	sups  []*otpNode
	leafs map[string][]string // of each supervisor
	pools map[string]bool
	extra int
}

func (g *gardener) one(in int) bool { return g.rng.IntN(in) == 0 }

func pick[T any](g *gardener, of ...T) T { return of[g.rng.IntN(len(of))] }

func (g *gardener) scenario() *otpScenario {
	g.leafs, g.pools = map[string][]string{}, map[string]bool{}
	sc := &otpScenario{Tree: g.sup("top", 1+g.rng.IntN(3))}
	at := 0
	for range 1 + g.rng.IntN(12) {
		at += pick(g, 100, 100, 300, 1100, 2500)
		e := g.event()
		e.AtMS = at
		sc.Events = append(sc.Events, e)
		if e.Op == "stop" {
			break
		}
	}
	return sc
}

func (g *gardener) sup(id string, depth int) otpNode {
	intensity, period := g.rng.IntN(4), pick(g, 60.0, 60.0, 2.0)
	n := otpNode{ID: id, Type: "supervisor", Intensity: &intensity, PeriodS: &period,
		Strategy:     pick(g, tree.OneForOne, tree.OneForAll, tree.RestForOne),
		AutoShutdown: pick(g, "", "", "any_significant", "all_significant")}
	if id != "top" {
		n.Restart = pick(g, tree.Permanent, tree.Permanent, tree.Transient, tree.Temporary)
	}
	if g.one(8) && id != "top" {
		n.Strategy = tree.SimpleOneForOne
		g.pools[id] = true
		n.Children = []otpNode{g.leaf(id+"t", n.AutoShutdown)}
	} else {
		for range g.rng.IntN(5) {
			g.next++
			id2 := fmt.Sprintf("%c%d", 'a'+rune(g.next%26), g.next)
			if depth > 1 && g.one(3) {
				k := g.sup(id2, depth-1)
				k.Significant = n.AutoShutdown != "" && k.Restart != tree.Permanent && g.one(3)
				n.Children = append(n.Children, k)
				continue
			}
			n.Children = append(n.Children, g.leaf(id2, n.AutoShutdown))
			g.leafs[id] = append(g.leafs[id], id2)
		}
	}
	g.sups = append(g.sups, &n)
	return n
}

func (g *gardener) leaf(id, auto string) otpNode {
	n := otpNode{ID: id, Restart: pick(g, tree.Permanent, tree.Permanent, tree.Transient, tree.Temporary)}
	n.Significant = auto != "" && n.Restart != tree.Permanent && g.one(2)
	if g.one(6) {
		n.Shutdown = json.RawMessage(`"brutal_kill"`)
	}
	switch g.rng.IntN(10) {
	case 0:
		n.Starts = []string{"ok", pick(g, "error", "ignore"), "ok"}
	case 1:
		n.Starts = []string{"ok", "error", "error", "ok", "error", "ok"}
	case 2:
		n.Starts = []string{pick(g, "ok", "ok", "ignore", "error"), "ok", "ok", "error"}
	}
	return n
}

func (g *gardener) event() otpEvent {
	sup := pick(g, g.sups...)
	kids := g.leafs[sup.ID]
	kid := "nope"
	if len(kids) > 0 && !g.one(15) {
		kid = pick(g, kids...)
	} else if len(sup.Children) > 0 && !g.pools[sup.ID] {
		kid = pick(g, sup.Children...).ID
	}
	why := pick(g, "normal", "shutdown", "shutdown_term", "crash", "crash", "kill")
	switch k := g.rng.IntN(20); {
	case k < 7 && kid != "nope":
		return otpEvent{Kill: quote(kid), Reason: g.whyFor(kid, why)}
	case k < 10 && len(kids) > 1:
		list := slices.Clone(kids)
		g.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		ids, _ := json.Marshal(list[:2+g.rng.IntN(len(list)-1)])
		return otpEvent{Kill: ids, Reason: why}
	case k < 12:
		return otpEvent{Kill: quote(sup.ID), Reason: g.whyFor(sup.ID, why)}
	case k == 12 && g.one(3):
		return otpEvent{Op: "stop"}
	case k == 13:
		return otpEvent{Op: pick(g, "which_children", "count_children"), Sup: sup.ID}
	case k == 14:
		return g.startChild(sup)
	case k == 15 && !g.pools[sup.ID]:
		return g.change(sup)
	}
	return otpEvent{Op: pick(g, "terminate_child", "restart_child", "restart_child", "delete_child"), Sup: sup.ID, Child: kid}
}

// whyFor avoids what OTP itself leaves open: in which order a crushed supervisor and supervisors below it end.
func (g *gardener) whyFor(id, why string) string {
	if why != "kill" {
		return why
	}
	for _, s := range g.sups {
		if s.ID == id && (id == "top" || slices.ContainsFunc(s.Children, func(n otpNode) bool { return n.Type != "" })) {
			return "crash"
		}
	}
	return why
}

func (g *gardener) startChild(sup *otpNode) otpEvent {
	g.extra++
	id := fmt.Sprintf("x%d", g.extra)
	if g.pools[sup.ID] {
		g.leafs[sup.ID] = append(g.leafs[sup.ID], id)
		return otpEvent{Op: "start_child", Sup: sup.ID, Child: id}
	}
	if kids := g.leafs[sup.ID]; len(kids) > 0 && g.one(3) {
		id = pick(g, kids...)
	} else {
		g.leafs[sup.ID] = append(kids, id)
	}
	n := g.leaf(id, pick(g, sup.AutoShutdown, "any_significant"))
	return otpEvent{Op: "start_child", Sup: sup.ID, Spec: &n}
}

func (g *gardener) change(sup *otpNode) otpEvent {
	n := *sup
	intensity := g.rng.IntN(4)
	n.Intensity = &intensity
	n.Strategy = pick(g, tree.OneForOne, tree.OneForAll, tree.RestForOne)
	n.AutoShutdown = pick(g, sup.AutoShutdown, sup.AutoShutdown, "", "any_significant")
	n.Children = slices.Clone(sup.Children)
	g.rng.Shuffle(len(n.Children), func(i, j int) { n.Children[i], n.Children[j] = n.Children[j], n.Children[i] })
	if len(n.Children) > 0 && g.one(2) {
		n.Children = n.Children[1:]
	}
	if g.one(2) {
		g.extra++
		id := fmt.Sprintf("y%d", g.extra)
		g.leafs[sup.ID] = append(g.leafs[sup.ID], id)
		n.Children = append(n.Children, g.leaf(id, n.AutoShutdown))
	}
	return otpEvent{Op: "change_spec", Sup: sup.ID, Spec: &n}
}

func quote(s string) json.RawMessage { b, _ := json.Marshal(s); return b }

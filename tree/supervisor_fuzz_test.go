package tree

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// FuzzSupervisor feeds a supervisor histories, likely and unlikely ones, and holds every answer against the oracle.
func FuzzSupervisor(f *testing.F) {
	dice := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		f.Add(randomBytes(dice))
	}
	f.Fuzz(func(t *testing.T, data []byte) { tryHistory(t, data) })
}

// TestSupervisorRandom is the same with more histories than a corpus should hold.
func TestSupervisorRandom(t *testing.T) {
	n := 20000
	if testing.Short() {
		n = 2000
	}
	if s := os.Getenv("COPPICE_RANDOM_HISTORIES"); s != "" {
		fmt.Sscan(s, &n)
	}
	dice := rand.New(rand.NewPCG(5, 6))
	for range n {
		tryHistory(t, randomBytes(dice))
		if t.Failed() {
			return
		}
	}
}

func randomBytes(dice *rand.Rand) []byte {
	data := make([]byte, 20+dice.IntN(200))
	for i := range data {
		data[i] = byte(dice.Uint32())
	}
	return data
}

// tryHistory plays a history twice; the second time for promise 9: same history, same orders.
func tryHistory(t testing.TB, data []byte) {
	t.Helper()
	a, b := play(data), play(data)
	trouble := a.watch.trouble
	if trouble == "" && !reflect.DeepEqual(a.orders, b.orders) {
		trouble = "promise 9 is broken: the same history gave other orders"
	}
	if trouble == "" {
		return
	}
	file := filepath.Join(t.TempDir(), "history.txt")
	if dir := os.Getenv("COPPICE_HISTORIES"); dir != "" {
		file = filepath.Join(dir, "history.txt")
	}
	if err := os.WriteFile(file, []byte(a.story()), 0o600); err != nil {
		t.Log(err)
	}
	t.Errorf("%s\n%s", trouble, a.story())
}

// host is all that surrounds one supervisor in a history made of bytes.
type host struct {
	data   []byte
	spec   Spec
	s      *Supervisor
	watch  *oracle
	now    time.Time
	last   time.Time
	seq    Seq
	lines  []string
	orders []Order
	wakes  []pending
	admin  bool // things happened after which OTP leaves children down
	extra  int
	budget int
}

type pending struct {
	at    time.Time
	token uint64
}

func (h *host) byte() int {
	if len(h.data) == 0 {
		return 0
	}
	b := h.data[0]
	h.data = h.data[1:]
	return int(b)
}

func (h *host) pick(n int) int { return h.byte() % n }

func play(data []byte) *host {
	h := &host{data: data, now: time.Unix(0, 0), budget: 4000}
	h.last = h.now
	h.grow()
	h.watch = newOracle(h.spec)
	h.s = NewSupervisor(h.spec, Past{}, loaded(0.5))
	h.tell(Boot{Seq: h.next()})
	for len(h.data) > 0 && h.watch.trouble == "" {
		h.act()
	}
	h.calm()
	h.allWanted()
	h.tell(Halt{Seq: h.next()})
	h.calm()
	if !h.watch.quit {
		h.watch.say(6, "no Quit after everything ended")
	}
	h.tell(Halt{Kill: true, Seq: h.next()})
	return h
}

// grow makes a spec.
func (h *host) grow() {
	a, b := h.byte(), h.byte()
	p := &Supervise{Strategy: []Strategy{OneForOne, OneForOne, OneForAll, RestForOne, RestForOne, SimpleOneForOne}[a%6],
		Start:        []StartMode{Ordered, Together, ""}[a/6%3],
		First:        []FirstStart{InitRetries, InitRetries, InitFails}[a/18%3],
		AutoShutdown: []AutoShutdown{AutoNever, AutoNever, AutoAny, AutoAll}[b%4]}
	if b/4%2 == 0 {
		p.Intensity = &Intensity{Restarts: b / 8 % 6, Period: 1000 * time.Hour}
	}
	if b/64 == 3 {
		p.Quorum = 1
	}
	h.spec = Spec{Name: "app", Kind: KindApp, Supervise: p}
	n := 1 + h.pick(5)
	if p.StrategyOr() == SimpleOneForOne {
		n = 1
	}
	for i := range n {
		c := h.child(string(rune('a'+i)), p)
		if k := h.byte(); i > 0 && k%3 == 0 {
			c.After = []string{string(rune('a' + k/3%i))}
		}
		h.spec.Children = append(h.spec.Children, c)
	}
}

func (h *host) child(name string, p *Supervise) Spec {
	a, b := h.byte(), h.byte()
	c := Spec{Name: name, Kind: KindWorker, Disabled: a%16 == 15}
	c.Restart.Policy = []Policy{Permanent, Permanent, Transient, Temporary}[a/16%4]
	if b%2 == 0 {
		c.Restart.Backoff, c.Restart.Factor, c.Restart.Cap = time.Second, 2, 5*time.Second
		c.Restart.Jitter, c.Restart.ResetAfter = 0.5, 10*time.Second
	}
	if b/2%4 == 0 {
		c.Restart.Limit, c.Restart.Within = 3, time.Minute
		c.Restart.OnLimit = []OnLimit{OnLimitSlow, OnLimitStop, OnLimitEscalate}[b/8%3]
	}
	c.Significant = p.AutoShutdown != AutoNever && c.Restart.Policy != Permanent && b/64%2 == 0
	return c
}

func (h *host) next() Seq { h.seq++; return h.seq }

// tell gives the machine a fact, and lets the oracle and the story have it too.
func (h *host) tell(fact Fact) {
	if h.watch.trouble != "" {
		return
	}
	h.lines = append(h.lines, fmt.Sprintf("[%d] +%s %s", h.seq, h.now.Sub(h.last), printFact(fact)))
	h.last = h.now
	orders := h.s.Step(h.now, fact)
	h.watch.see(h.now, fact, orders)
	for _, o := range orders {
		h.orders = append(h.orders, o)
		h.lines[len(h.lines)-1] += "\n        " + printOrder(o)
		if w, ok := o.(WakeAfter); ok {
			h.wakes = append(h.wakes, pending{h.now.Add(w.After), w.Token})
		}
	}
}

func (h *host) story() string {
	return printSpec(&h.spec) + "dice 0.5\n" + strings.Join(h.lines, "\n") + "\n"
}

// some returns a child for which it holds, starting to look anywhere.
func (h *host) some(holds func(w *watched) bool) (string, *watched) {
	from := h.byte()
	for i := range h.watch.order {
		name := h.watch.order[(from+i)%len(h.watch.order)]
		if w := h.watch.kids[name]; w != nil && holds(w) {
			return name, w
		}
	}
	return "", nil
}

func (h *host) any() string {
	if len(h.watch.order) == 0 {
		return "nobody"
	}
	return h.watch.order[h.pick(len(h.watch.order))]
}

// act lets one thing happen.
func (h *host) act() {
	switch k := h.byte() % 32; {
	case k < 9:
		if name, w := h.some(func(w *watched) bool { return w.alive && !w.up && !w.stopping }); w != nil {
			h.tell(Up{Child: name, Inc: w.inc, Seq: h.next()})
		}
	case k < 15:
		if name, w := h.some(func(w *watched) bool { return w.alive }); w != nil {
			h.down(name, w)
		}
	case k < 19:
		if name, w := h.some(func(w *watched) bool { return w.alive && w.stopping }); w != nil {
			h.down(name, w)
		}
	case k < 22:
		h.pass(time.Duration(h.byte()) * 100 * time.Millisecond)
	case k == 22:
		if name, w := h.some(func(w *watched) bool { return w.alive && !w.up }); w != nil && !(w.stopping && w.ready) {
			h.tell(Ignored{Child: name, Inc: w.inc, Seq: h.next()})
		}
	case k == 23:
		if name, w := h.some(func(w *watched) bool { return w.up }); w != nil {
			h.tell(Unready{Child: name, Inc: w.inc, Reason: "slow", Seq: h.next()})
			if h.byte()%2 == 0 {
				h.tell(Up{Child: name, Inc: w.inc, Seq: h.next()})
			}
		}
	case k < 30:
		h.operate(k)
	case k == 30:
		h.administer()
	default:
		h.odd()
	}
}

func (h *host) down(name string, w *watched) {
	r := []Reason{{Crash, "exit 1"}, {Crash, "signal KILL"}, {Normal, "exit 0"}, {Shutdown, "told to go"}}[h.pick(4)]
	h.tell(Down{Child: name, Inc: w.inc, Reason: r, Seq: h.next()})
}

func (h *host) operate(k int) {
	switch name := h.any(); k {
	case 24:
		h.tell(Hold{Child: name, Reason: "stopped by op", Seq: h.next()})
	case 25, 26:
		h.tell(Release{Child: name, Reason: "started by op", Seq: h.next()})
	case 27, 28:
		h.tell(Bounce{Child: name, Reason: "restarted by op", Seq: h.next()})
	case 29:
		h.tell(Roll{Reason: "restarted by op", Seq: h.next()})
	}
}

func (h *host) administer() {
	h.extra++
	name, seq := h.any(), h.next()
	switch h.pick(7) {
	case 0, 1:
		c := h.child(fmt.Sprintf("x%d", h.extra%3), h.spec.Supervise)
		c.Disabled = false
		h.tell(StartChild{Spec: c, Call: uint64(seq), Seq: seq})
	case 2:
		h.admin = true
		h.tell(TerminateChild{Child: name, Call: uint64(seq), Seq: seq})
	case 3:
		h.admin = true
		h.tell(RestartChild{Child: name, Call: uint64(seq), Seq: seq})
	case 4:
		h.tell(DeleteChild{Child: name, Call: uint64(seq), Seq: seq})
	case 5:
		h.tell(WhichChildren{Call: uint64(seq)})
	case 6:
		h.tell(CountChildren{Call: uint64(seq)})
	}
}

// odd lets happen what should not: old incarnations, unknown names, forgotten tokens, a second Boot, a Halt in between.
func (h *host) odd() {
	switch name := h.any(); h.pick(12) {
	case 0:
		h.tell(Halt{Seq: h.next()})
	case 1:
		h.tell(Halt{Kill: true, Seq: h.next()})
	case 2:
		h.tell(Down{Child: name, Inc: 0, Reason: Reason{Crash, "old"}, Seq: h.next()})
	case 3:
		h.tell(Up{Child: name, Inc: 99, Seq: h.next()})
	case 4:
		h.tell(Down{Child: "nobody", Inc: 1, Reason: Reason{Crash, "old"}, Seq: h.next()})
	case 5:
		h.tell(Wake{Token: uint64(h.byte()), Seq: h.next()})
	case 6:
		h.tell(Hold{Child: "nobody", Reason: "stopped by op", Seq: h.next()})
	}
}

// pass lets time go by and the wake-ups come that fall into it.
func (h *host) pass(d time.Duration) {
	end := h.now.Add(d)
	for {
		first := -1
		for i, w := range h.wakes {
			if !w.at.After(end) && (first < 0 || w.at.Before(h.wakes[first].at)) {
				first = i
			}
		}
		if first < 0 || h.watch.trouble != "" {
			h.now = end
			return
		}
		w := h.wakes[first]
		h.wakes = append(h.wakes[:first], h.wakes[first+1:]...)
		h.now = w.at
		h.tell(Wake{Token: w.token, Seq: h.next()})
	}
}

// calm lets everything go well until nothing happens any more.
func (h *host) calm() {
	for ; h.budget > 0 && h.watch.trouble == ""; h.budget-- {
		if name, w := h.some(func(w *watched) bool { return w.alive && w.stopping }); w != nil {
			h.tell(Down{Child: name, Inc: w.inc, Reason: Reason{Shutdown, "shutdown"}, Seq: h.next()})
		} else if name, w := h.some(func(w *watched) bool { return w.alive && !w.ready }); w != nil {
			h.tell(Up{Child: name, Inc: w.inc, Seq: h.next()})
		} else if len(h.wakes) > 0 {
			h.pass(time.Hour)
		} else {
			return
		}
	}
	if h.watch.trouble == "" {
		h.watch.say(6, "it never comes to rest")
	}
}

// allWanted looks, at rest, whether a child is down that nothing keeps down: a restart that was lost.
func (h *host) allWanted() {
	if n := len(h.watch.calls); n > 0 && !h.watch.quitting && !h.watch.quit {
		h.watch.say(7, "%d calls are not answered", n)
	}
	if h.watch.quitting || h.watch.quit || h.admin || h.watch.trouble != "" {
		return
	}
	for _, name := range h.watch.order {
		w := h.watch.kids[name]
		if w == nil || w.alive || w.held || w.failed || w.ignored || w.spec.Restart.PolicyOr() != Permanent {
			continue
		}
		gated := false
		for _, a := range w.spec.After {
			if k := h.watch.kids[a]; k != nil && !k.ready && !k.ignored {
				gated = true
			}
		}
		if !gated {
			h.watch.say(4, "%s is permanent, down, and nothing will bring it back", name)
		}
	}
}

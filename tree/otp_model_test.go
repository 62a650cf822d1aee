package tree_test

import (
	"fmt"
	"slices"
	"strings"
)

// The model below is OTP's supervisor once more, written from its rules as straight-line code: a start and a stop are
// calls that return when they are done, as in the original. It shares nothing with the machine, so a mistake would have
// to be made twice. Everything in it takes no time.
type model struct {
	trace  []string
	starts map[string]int
	newest map[string]*modelProc
	posts  []modelPost
	now    int // milliseconds
}

type modelProc struct {
	node   *otpNode
	sup    *modelSup
	parent *modelSup
	gone   bool
}

// modelSup is the state of one supervisor process. Its flags and children can change.
type modelSup struct {
	proc  *modelProc
	flags otpNode
	kids  []*modelKid
	times []int
}

type modelKid struct {
	node  *otpNode
	proc  *modelProc // nil: undefined
	again bool       // restarting
}

// modelPost is one message in a supervisor's mailbox.
type modelPost struct {
	to    *modelSup
	exit  *modelProc
	why   string
	retry string
	op    *otpEvent
	stop  string
}

func (m *model) log(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

func newModel() *model { return &model{starts: map[string]int{}, newest: map[string]*modelProc{}} }

// start returns the process, nil for ignore, and whether it worked.
func (m *model) start(n *otpNode, parent *modelSup) (*modelProc, bool) {
	p := &modelProc{node: n, parent: parent}
	m.newest[n.ID] = p
	if n.Type != "supervisor" {
		outcome := "ok"
		if len(n.Starts) > 0 {
			outcome = n.Starts[min(m.starts[n.ID], len(n.Starts)-1)]
		}
		m.starts[n.ID]++
		switch outcome {
		case "error":
			p.gone = true
			m.log("fail %s", n.ID)
			return nil, false
		case "ignore":
			p.gone = true
			m.log("ignore %s", n.ID)
			return nil, true
		}
		m.log("start %s", n.ID)
		return p, true
	}
	m.log("start %s", n.ID)
	s := &modelSup{proc: p, flags: *n}
	p.sup = s
	if n.Strategy != "simple_one_for_one" {
		for i := range n.Children {
			s.kids = append(s.kids, &modelKid{node: &n.Children[i]})
		}
	}
	if m.startKids(s, slices.Clone(s.kids)) != nil {
		m.stopKids(s, s.kids)
		p.gone = true
		m.log("fail %s", n.ID)
		return nil, false
	}
	m.log("ready %s", n.ID)
	return p, true
}

// startKids starts in order; it returns the one that failed.
func (m *model) startKids(s *modelSup, kids []*modelKid) *modelKid {
	for _, k := range kids {
		p, ok := m.start(k.node, s)
		if !ok {
			return k
		}
		k.proc = p
		if p == nil && k.node.Restart == "temporary" {
			s.drop(k)
		}
	}
	return nil
}

// stopKids stops in reverse; temporary ones are dropped.
func (m *model) stopKids(s *modelSup, kids []*modelKid) {
	for _, k := range slices.Backward(slices.Clone(kids)) {
		m.stop(k.proc, "shutdown")
		k.proc, k.again = nil, false
		if k.node.Restart == "temporary" {
			s.drop(k)
		}
	}
}

func (m *model) stop(p *modelProc, why string) {
	if p == nil || p.gone {
		return
	}
	if p.sup != nil {
		m.stopKids(p.sup, p.sup.kids)
	} else if string(p.node.Shutdown) == `"brutal_kill"` {
		why = "killed"
	}
	p.gone = true
	m.log("exit %s %s", p.node.ID, why)
}

func (s *modelSup) drop(k *modelKid) {
	s.kids = slices.DeleteFunc(s.kids, func(e *modelKid) bool { return e == k })
}

func (s *modelSup) find(id string) *modelKid {
	for _, k := range s.kids {
		if k.node.ID == id {
			return k
		}
	}
	return nil
}

// run handles every message there is, oldest first.
func (m *model) run() {
	for len(m.posts) > 0 {
		post := m.posts[0]
		m.posts = m.posts[1:]
		if post.to.proc.gone {
			continue
		}
		m.handle(post.to, post)
	}
}

func (m *model) handle(s *modelSup, post modelPost) {
	switch {
	case post.stop != "":
		m.leave(s, post.stop)
	case post.op != nil:
		m.admin(s, post.op)
	case post.retry != "":
		if k := s.find(post.retry); k != nil && k.again {
			m.restart(s, k)
		}
	default:
		for _, k := range s.kids {
			if k.proc == post.exit {
				m.exited(s, k, post.why)
				return
			}
		}
	}
}

// leave stops a supervisor from within.
func (m *model) leave(s *modelSup, why string) {
	m.stop(s.proc, why)
	if s.proc.parent != nil {
		m.posts = append(m.posts, modelPost{to: s.proc.parent, exit: s.proc, why: why})
	}
}

func (m *model) exited(s *modelSup, k *modelKid, why string) {
	k.proc = nil
	orderly := why == "normal" || why == "shutdown" || why == "shutdown_term"
	policy := or(string(k.node.Restart), "permanent")
	if policy == "permanent" || policy == "transient" && !orderly {
		m.restart(s, k)
		return
	}
	if policy == "temporary" || s.flags.Strategy == "simple_one_for_one" {
		s.drop(k)
	}
	if !k.node.Significant {
		return
	}
	switch s.flags.AutoShutdown {
	case "any_significant":
		m.leave(s, "shutdown")
	case "all_significant":
		for _, o := range s.kids {
			if o.node.Significant && (o.proc != nil || o.again) {
				return
			}
		}
		m.leave(s, "shutdown")
	}
}

func (m *model) restart(s *modelSup, k *modelKid) {
	intensity, period := 1, 5000
	if s.flags.Intensity != nil {
		intensity = *s.flags.Intensity
	}
	if s.flags.PeriodS != nil {
		period = int(*s.flags.PeriodS * 1000)
	}
	s.times = slices.DeleteFunc(append(s.times, m.now), func(at int) bool { return m.now-at > period })
	if len(s.times) > intensity {
		k.again = false
		m.log("escalate %s", s.proc.node.ID)
		m.leave(s, "shutdown")
		return
	}
	group := []*modelKid{k}
	at := slices.Index(s.kids, k)
	switch s.flags.Strategy {
	case "one_for_all":
		group = slices.Clone(s.kids)
	case "rest_for_one":
		group = slices.Clone(s.kids[at:])
	}
	k.again = false
	m.stopKids(s, slices.DeleteFunc(slices.Clone(group), func(e *modelKid) bool { return e == k }))
	group = slices.DeleteFunc(group, func(e *modelKid) bool { return s.find(e.node.ID) != e })
	if failed := m.startKids(s, group); failed != nil {
		failed.again = true
		m.posts = append(m.posts, modelPost{to: s, retry: failed.node.ID})
	} else if k.proc == nil && s.flags.Strategy == "simple_one_for_one" {
		s.drop(k)
	}
}

// event applies one event of a scenario.
func (m *model) event(e *otpEvent, ids []string, top string) {
	m.now = e.AtMS
	switch {
	case e.Op == "stop":
		m.posts = append(m.posts, modelPost{to: m.newest[top].sup, stop: "shutdown"})
	case e.Op != "":
		p := m.newest[e.Sup]
		if p == nil || p.gone {
			m.log("%s", strings.Join(strings.Fields(fmt.Sprint("reply ", e.Op, " ", e.Sup, " ", e.Child, " noproc")), " "))
			return
		}
		m.posts = append(m.posts, modelPost{to: p.sup, op: e})
	default:
		for _, id := range ids {
			m.killed(id, e.Reason)
		}
	}
	m.run()
}

func (m *model) killed(id, why string) {
	p := m.newest[id]
	if p == nil || p.gone {
		m.log("miss %s", id)
		return
	}
	text := why
	if why == "kill" {
		text = "killed"
	}
	if p.sup != nil && why != "kill" {
		m.posts = append(m.posts, modelPost{to: p.sup, stop: text})
		return
	}
	p.gone = true
	m.log("exit %s %s", id, text)
	if p.sup != nil {
		for _, k := range p.sup.kids {
			if k.proc != nil && !k.proc.gone {
				k.proc.gone = true
				m.log("exit %s killed", k.node.ID)
			}
		}
	}
	if p.parent != nil {
		m.posts = append(m.posts, modelPost{to: p.parent, exit: p, why: text})
	}
}

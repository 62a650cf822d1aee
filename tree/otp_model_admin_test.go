package tree_test

import (
	"fmt"
	"slices"
	"strings"
)

// This file holds the administrative calls of the model.

func (m *model) bad(flags *otpNode, specs ...otpNode) bool {
	for _, n := range specs {
		never := flags.AutoShutdown == "" || flags.AutoShutdown == "never"
		if n.Significant && (never || or(string(n.Restart), "permanent") == "permanent") {
			return true
		}
	}
	return false
}

func (m *model) admin(s *modelSup, e *otpEvent) {
	m.log("%s", strings.Join(strings.Fields(fmt.Sprint("reply ", e.Op, " ", e.Sup, " ", e.Child, " ", m.answer(s, e))), " "))
}

func (m *model) answer(s *modelSup, e *otpEvent) string {
	simple := s.flags.Strategy == "simple_one_for_one"
	k := s.find(e.Child)
	switch e.Op {
	case "start_child":
		return m.startChild(s, e)
	case "terminate_child":
		if k == nil {
			return "error not_found"
		}
		m.stop(k.proc, "shutdown")
		k.proc, k.again = nil, false
		if k.node.Restart == "temporary" || simple {
			s.drop(k)
		}
		return "ok"
	case "restart_child", "delete_child":
		switch {
		case simple:
			return "error simple_one_for_one"
		case k == nil:
			return "error not_found"
		case k.proc != nil:
			return "error running"
		case k.again:
			return "error restarting"
		case e.Op == "delete_child":
			s.drop(k)
			return "ok"
		}
		p, ok := m.start(k.node, s)
		k.proc = p
		return started(p, ok)
	case "which_children":
		var lines []string
		for _, k := range slices.Backward(s.kids) {
			state := "undefined"
			if k.again {
				state = "restarting"
			} else if k.proc != nil {
				state = "up"
			}
			lines = append(lines, k.node.ID+":"+state)
		}
		return or(strings.Join(lines, ","), "-")
	case "count_children":
		specs, active, sups := len(s.kids), 0, 0
		for _, k := range s.kids {
			if k.proc != nil && !k.proc.gone {
				active++
			}
			if k.node.Type == "supervisor" {
				sups++
			}
		}
		workers := specs - sups
		if simple {
			specs = 1
		}
		return fmt.Sprintf("specs=%d active=%d supervisors=%d workers=%d", specs, active, sups, workers)
	case "change_spec":
		return m.change(s, e.Spec)
	}
	panic(e.Op)
}

func (m *model) startChild(s *modelSup, e *otpEvent) string {
	n := e.Spec
	if s.flags.Strategy == "simple_one_for_one" {
		template := s.flags.Children[0]
		template.ID = e.Child
		n = &template
	}
	if m.bad(&s.flags, *n) {
		return "error bad_combination"
	}
	if k := s.find(n.ID); k != nil {
		if k.proc != nil {
			return "error already_started"
		}
		return "error already_present"
	}
	p, ok := m.start(n, s)
	if ok && (p != nil || n.Restart != "temporary" && s.flags.Strategy != "simple_one_for_one") {
		s.kids = append(s.kids, &modelKid{node: n, proc: p})
	}
	return started(p, ok)
}

func started(p *modelProc, ok bool) string {
	switch {
	case !ok:
		return "error start_failed"
	case p == nil:
		return "ok undefined"
	}
	return "ok"
}

func (m *model) change(s *modelSup, n *otpNode) string {
	if m.bad(n, n.Children...) {
		return "error bad_combination"
	}
	s.flags = *n
	var kids []*modelKid
	for i := range n.Children {
		k := s.find(n.Children[i].ID)
		if k == nil {
			k = &modelKid{}
		}
		k.node = &n.Children[i]
		kids = append(kids, k)
	}
	for _, k := range s.kids {
		if !slices.Contains(kids, k) {
			kids = append(kids, k)
		}
	}
	s.kids = kids
	return "ok"
}

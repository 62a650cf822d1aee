package tree

// refuse says what is wrong with significant children under an auto-shutdown mode, "" if nothing is.
func (s *Supervisor) refuse(mode AutoShutdown, specs []*Spec) string {
	for _, spec := range specs {
		if !spec.Significant {
			continue
		}
		if mode == AutoNever {
			return spec.Name + " is significant, but the supervisor never shuts down by itself"
		}
		if spec.Restart.PolicyOr() == Permanent {
			return spec.Name + " is significant and permanent"
		}
	}
	return ""
}

// known returns a child that OTP would know by that name.
func (s *Supervisor) known(name string) *child {
	if c := s.byName[name]; c != nil && !c.dropped {
		return c
	}
	return nil
}

func (s *Supervisor) fail(call uint64, why string) { s.emit(Reply{Call: call, Error: why}) }

func (s *Supervisor) startChild(f StartChild) {
	spec := f.Spec
	if s.simple() {
		if s.template == nil {
			s.fail(f.Call, "not_found")
			return
		}
		spec = *s.template
		spec.Name = f.Spec.Name
	}
	if s.refuse(s.policy.AutoShutdown, []*Spec{&spec}) != "" {
		s.fail(f.Call, "bad_combination")
		return
	}
	if c := s.known(spec.Name); c != nil {
		if c.phase != down {
			s.fail(f.Call, "already_started")
		} else {
			s.fail(f.Call, "already_present")
		}
		return
	}
	if c := s.byName[spec.Name]; c != nil {
		s.remove(c)
	}
	c := s.adopt(&spec)
	c.dynamic = true
	if len(spec.After) > 0 {
		s.link()
	}
	s.want(c, ticket{reason: "start", cause: s.seq, asked: true, fresh: true, call: f.Call})
}

// askedStartFailed answers a caller whose start failed; nothing is retried.
func (s *Supervisor) askedStartFailed(c *child, r Reason) {
	c.running.asked = false
	s.fail(c.running.call, "start_failed")
	if c.running.fresh {
		s.remove(c)
		return
	}
	s.rest(c, StateStopped, idleStopped, r.Text)
}

func (s *Supervisor) terminateChild(f TerminateChild) {
	c := s.known(f.Child)
	if c == nil {
		s.fail(f.Call, "not_found")
		return
	}
	c.calls = append(c.calls, f.Call)
	s.rolled(c, true)
	if c.phase != down {
		s.forgetPlans(c)
		s.markStop(c, "terminated")
		return
	}
	s.terminated(c)
}

// terminated settles a child that TerminateChild wanted down: its spec stays, unless it is temporary or an instance.
// Those that waited behind it in a group stay down too, as in OTP; those that waited to boot go on.
func (s *Supervisor) terminated(c *child) {
	calls := c.calls
	c.calls = nil
	s.forgetPlans(c)
	for _, w := range c.waiters {
		if w.lead == c && !w.boot {
			s.forgetPlans(w)
			s.tell(w, StateStopped, "sibling "+c.spec.Name)
		}
	}
	s.free(c)
	switch {
	case s.simple():
		s.rest(c, StateStopped, idleStopped, "terminated")
		s.remove(c)
	case c.temporary():
		s.drop(c, "terminated")
	case c.held:
		s.rest(c, StateStopped, idleStopped, c.why)
	default:
		s.rest(c, StateStopped, idleStopped, "terminated")
	}
	for _, call := range calls {
		s.emit(Reply{Call: call})
	}
}

func (s *Supervisor) restartChild(f RestartChild) {
	c := s.known(f.Child)
	switch {
	case s.simple():
		s.fail(f.Call, "simple_one_for_one")
	case c == nil:
		s.fail(f.Call, "not_found")
	case c.phase != down:
		s.fail(f.Call, "running")
	case c.idle == idleRestarting:
		s.fail(f.Call, "restarting")
	case c.held:
		s.fail(f.Call, "held")
	default:
		c.clean()
		s.want(c, ticket{reason: "start", cause: s.seq, asked: true, call: f.Call})
	}
}

func (s *Supervisor) deleteChild(f DeleteChild) {
	c := s.known(f.Child)
	switch {
	case s.simple():
		s.fail(f.Call, "simple_one_for_one")
	case c == nil:
		s.fail(f.Call, "not_found")
	case c.phase != down:
		s.fail(f.Call, "running")
	case c.idle == idleRestarting:
		s.fail(f.Call, "restarting")
	default:
		s.rolled(c, true)
		s.remove(c)
		s.emit(Reply{Call: f.Call})
	}
}

func (s *Supervisor) whichChildren(f WhichChildren) {
	r := Reply{Call: f.Call}
	for i := len(s.kids) - 1; i >= 0; i-- {
		c := s.kids[i]
		if c.dropped {
			continue
		}
		line := ChildStatus{Child: c.spec.Name, Supervisor: c.spec.IsSupervisor(),
			Restarting: c.phase == down && c.idle == idleRestarting}
		if c.phase != down {
			line.Inc = c.inc
		}
		r.Children = append(r.Children, line)
	}
	s.emit(r)
}

func (s *Supervisor) countChildren(f CountChildren) {
	r := Reply{Call: f.Call}
	for _, c := range s.kids {
		if c.dropped {
			continue
		}
		r.Counts.Specs++
		if c.phase != down && !c.dead {
			r.Counts.Active++
		}
		if c.spec.IsSupervisor() {
			r.Counts.Supervisors++
		} else {
			r.Counts.Workers++
		}
	}
	if s.simple() {
		r.Counts.Specs = 1
	}
	s.emit(r)
}

// changeSpec takes on new flags and a new child list without touching a process: new children are recorded and not
// started, removed ones run on, last in start order.
func (s *Supervisor) changeSpec(f ChangeSpec) {
	p := f.Spec.Supervise
	if p == nil || (p.StrategyOr() == SimpleOneForOne) != s.simple() || !unique(f.Spec.Children) {
		s.fail(f.Call, "bad_combination")
		return
	}
	specs := make([]*Spec, len(f.Spec.Children))
	for i := range specs {
		specs[i] = &f.Spec.Children[i]
	}
	if s.refuse(p.AutoShutdown, specs) != "" {
		s.fail(f.Call, "bad_combination")
		return
	}
	s.policy = *p
	if s.simple() {
		s.changeTemplate(specs)
	} else {
		s.changeChildren(specs)
	}
	s.emit(Reply{Call: f.Call})
}

func unique(specs []Spec) bool {
	seen := make(map[string]bool, len(specs))
	for i := range specs {
		if seen[specs[i].Name] {
			return false
		}
		seen[specs[i].Name] = true
	}
	return true
}

func (s *Supervisor) changeTemplate(specs []*Spec) {
	if len(specs) == 0 {
		return
	}
	s.template = specs[0]
	for _, c := range s.kids {
		spec := *s.template
		spec.Name = c.spec.Name
		c.spec = &spec
	}
}

func (s *Supervisor) changeChildren(specs []*Spec) {
	old := s.kids
	s.kids = make([]*child, 0, len(specs))
	listed := make(map[*child]bool, len(specs))
	for _, spec := range specs {
		c := s.byName[spec.Name]
		if c == nil {
			c = s.adopt(spec)
			why := "not started"
			if spec.Disabled {
				c.held, c.why, why = true, "not enabled", "not enabled"
			}
			s.rest(c, StateStopped, idleStopped, why)
		} else {
			c.spec, c.index, c.dynamic = spec, len(s.kids), false
			if c.dropped {
				c.dropped = false
				s.place(c, c.phase, idleStopped)
			}
			s.kids = append(s.kids, c)
		}
		listed[c] = true
	}
	var ended []*child
	for _, c := range old {
		if !listed[c] {
			c.index = len(s.kids)
			s.kids = append(s.kids, c)
			if c.dropped && c.phase == down {
				ended = append(ended, c)
			}
		}
	}
	s.link()
	for _, c := range ended {
		s.remove(c) // OTP does not know it any more, and now nobody lists it
	}
}

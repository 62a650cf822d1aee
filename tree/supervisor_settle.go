package tree

// settle compares what is with what should be and gives the next orders: stops first, right to left; then starts, left
// to right; then the facts that waited; then a roll goes on.
func (s *Supervisor) settle() {
	for s.life == living || s.life == quitting {
		if s.ordered() && !(s.simple() && s.life == quitting) {
			s.settleOrdered()
		} else {
			s.settleTogether()
		}
		if s.life == quitting {
			if s.alive == 0 {
				s.life = over
				s.emit(Quit{Reason: s.final, Cause: s.seq})
			}
			return
		}
		s.report()
		if s.awaited > 0 || s.starting != nil || len(s.starts) > 0 {
			if s.ordered() {
				return
			}
		}
		switch {
		case !s.queue.empty():
			s.serveItem(s.queue.pop())
		case s.rollOn():
		default:
			return
		}
	}
}

// settleOrdered does one thing at a time.
func (s *Supervisor) settleOrdered() {
	for s.life != over {
		if s.kill || s.awaited > len(s.stops) {
			return // one that was told to go is still there
		}
		if n := len(s.stops); n > 0 {
			c := s.stops[n-1]
			s.stops = s.stops[:n-1]
			s.orderStop(c, false)
			return
		}
		if s.starting != nil || len(s.starts) == 0 {
			return
		}
		c := s.starts[0]
		s.starts = s.starts[1:]
		if c.ticket == nil || !c.queued {
			c.queued = false
			continue
		}
		if c.phase == stopping {
			s.starts = insert(s.starts, c)
			return
		}
		c.queued = false
		if c.phase != down {
			c.ticket = nil
			continue
		}
		if s.pass(c) {
			s.starting = c
		}
	}
}

// settleTogether does at once all that does not have to wait for another child.
func (s *Supervisor) settleTogether() {
	if s.kill {
		return
	}
	kept := len(s.stops)
	for i := len(s.stops) - 1; i >= 0; i-- {
		c := s.stops[i]
		if c.blocked() && !s.simple() {
			kept--
			s.stops[kept] = c
			continue
		}
		s.orderStop(c, false)
	}
	s.stops = append(s.stops[:0], s.stops[kept:]...)
	if len(s.stops) > 0 && s.leaving == 0 {
		// A circle of After cannot be honoured; stopping must still end.
		n := len(s.stops) - 1
		c := s.stops[n]
		s.stops = s.stops[:n]
		s.orderStop(c, false)
	}
	if s.awaited > 0 && s.policy.StrategyOr() != OneForOne {
		return
	}
	for progress := true; progress && len(s.starts) > 0; {
		progress = s.startTogether()
	}
}

// startTogether starts all that are down, and tells whether any left the list: that may have put others into it.
func (s *Supervisor) startTogether() (progress bool) {
	waiting := s.starts
	s.starts = nil
	for _, c := range waiting {
		if c.ticket == nil || !c.queued {
			c.queued = false
			continue
		}
		if c.phase != down {
			s.starts = append(s.starts, c)
			continue
		}
		c.queued, progress = false, true
		s.pass(c)
	}
	if s.starts == nil {
		s.starts = waiting[:0]
	}
	return progress
}

// blocked tells whether a child that comes after this one, and must go too, is still there.
func (c *child) blocked() bool {
	for _, d := range c.dependents {
		if d != c && d.phase != down && (d.toStop || d.phase == stopping) {
			return true
		}
	}
	return false
}

// pass starts a child whose turn has come, or lets it wait at its gate.
func (s *Supervisor) pass(c *child) bool {
	if c.open() {
		s.orderStart(c)
		return true
	}
	c.gated = true
	if s.starting == c {
		s.starting = nil // a sequence never waits for a gate: what opens it may be in the queue
	}
	s.free(c)
	s.tell(c, StateWaiting, "after "+c.gate())
	if t := c.ticket; t.asked {
		// The caller gets its answer; from here on the child is wanted like any other.
		s.emit(Reply{Call: t.call, Value: "undefined"})
		t.asked, t.fresh = false, false
	}
	return false
}

// orderStart begins the next incarnation of a child that is down and has a ticket.
func (s *Supervisor) orderStart(c *child) {
	t := c.ticket
	c.running, c.ticket, c.gated, c.lead, c.queued = *t, nil, false, nil, false
	s.cancelDelay(c)
	c.inc++
	s.used[c.spec.Name] = c.inc
	c.dropped, c.born = false, true
	s.place(c, starting, idleWaiting)
	s.emit(Start{Child: c.spec.Name, Inc: c.inc, Spec: c.spec, Restart: t.restart, Attempt: t.attempt,
		Reason: t.reason, Cause: t.cause})
}

// orderStop asks a child to go.
func (s *Supervisor) orderStop(c *child, kill bool) {
	c.toStop, c.killed = false, c.killed || kill
	s.place(c, stopping, c.idle)
	s.emit(Stop{Child: c.spec.Name, Inc: c.inc, Kill: kill, Reason: c.leaveWhy, Cause: c.leaveSeq})
}

// markStop puts a child into the sequence to be stopped; the sequence goes on when it is gone.
func (s *Supervisor) markStop(c *child, why string) {
	if c.phase == down {
		return
	}
	if c.dead {
		c.leaveWhy = why
		s.gone(c, why)
		return
	}
	c.leaveWhy, c.leaveSeq = why, s.seq
	if !c.awaited {
		c.awaited = true
		s.awaited++
	}
	if c.phase != stopping && !c.toStop {
		c.toStop = true
		s.stops = insert(s.stops, c)
	}
}

// stopNow stops a child outside every sequence.
func (s *Supervisor) stopNow(c *child, why string) {
	c.leaveWhy, c.leaveSeq = why, s.seq
	if c.toStop {
		s.stops = without(s.stops, c)
	}
	s.orderStop(c, false)
}

// killAll tells every child that is still there to go at once.
func (s *Supervisor) killAll() {
	s.stops = s.stops[:0]
	for i := len(s.kids) - 1; i >= 0; i-- {
		if c := s.kids[i]; c.phase != down && !c.killed {
			c.leaveWhy, c.leaveSeq = s.stopWhy, s.seq
			s.orderStop(c, true)
		}
	}
}

// want puts a child that is down, or will be when the stops are done, into the sequence to be started.
func (s *Supervisor) want(c *child, t ticket) {
	s.tear(c, false)
	c.ticket, c.gated, c.lead = &t, false, nil
	if !c.queued {
		c.queued = true
		s.starts = insert(s.starts, c)
	}
	if c.phase == down {
		s.place(c, down, idleWaiting)
	}
}

// tear gives up a start that is wanted. A caller who asked for it hears that it failed, or that the child is now wanted
// like any other and will start when its turn comes.
func (s *Supervisor) tear(c *child, failed bool) {
	t := c.ticket
	c.ticket = nil
	if t == nil || !t.asked || s.life != living {
		return
	}
	if failed {
		s.fail(t.call, "start_failed")
		return
	}
	s.emit(Reply{Call: t.call, Value: "undefined"})
}

func without(list []*child, c *child) []*child {
	for i, e := range list {
		if e == c {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

// report tells the parent when the supervisor becomes up, and, under a quorum, when it no longer is.
func (s *Supervisor) report() {
	need := min(s.policy.Quorum, s.wanted)
	enough := s.unmet == 0 || (need > 0 && s.serving >= need)
	switch {
	case !s.reported && enough:
		s.reported = true
		s.emit(ReportUp{Cause: s.seq})
	case s.reported && s.policy.Quorum > 0 && s.serving < need:
		s.reported = false
		s.emit(ReportUnready{Reason: "not enough children are up", Cause: s.seq})
	}
}

package tree

// up records that a child is ready, or is ready again.
func (s *Supervisor) up(c *child) {
	switch {
	case c.phase == up && c.lapsed:
		c.lapsed = false
		s.recount(c)
		s.recheck(c.dependents)
	case c.phase == starting:
		c.upAt, c.boot = s.now, false
		s.place(c, up, idleWaiting)
		s.started(c, "")
	}
}

// started ends a start that succeeded: whoever waited for it goes on.
func (s *Supervisor) started(c *child, value string) {
	if s.starting == c {
		s.starting = nil
	}
	if c.running.asked {
		c.running.asked = false
		s.emit(Reply{Call: c.running.call, Value: value})
	}
	s.rolled(c, true)
	s.free(c)
	s.recheck(c.dependents)
}

// unready records that a child cannot serve for now; it still counts as alive.
func (s *Supervisor) unready(c *child) {
	if c.phase == up && !c.lapsed {
		c.lapsed = true
		s.recount(c)
	}
}

// ignored records that a child had nothing to run, which is a success.
func (s *Supervisor) ignored(c *child) {
	c.boot = false
	s.place(c, down, idleIgnored)
	kept := c.running.asked && !c.running.fresh // RestartChild keeps even a temporary child's spec
	c.dropped = s.simple() || c.temporary() && !kept
	s.recount(c)
	s.tell(c, StateDone, "nothing to run")
	s.started(c, "undefined")
	if c.dropped && c.dynamic {
		s.remove(c)
	}
}

// gone ends a stop that was asked for: it never triggers or counts anything.
func (s *Supervisor) gone(c *child, text string) {
	if c.awaited {
		c.awaited = false
		s.awaited--
	}
	if c.toStop {
		c.toStop = false
		s.stops = without(s.stops, c)
	}
	if c.running.asked {
		c.running.asked = false
		s.emit(Reply{Call: c.running.call, Error: "start_failed"})
	}
	s.place(c, down, idleStopped)
	if s.starting == c && c.ticket == nil {
		s.starting = nil
	}
	switch {
	case s.life == quitting:
		s.tell(c, StateStopped, c.leaveWhy)
	case len(c.calls) > 0:
		s.terminated(c)
	case c.held:
		s.rest(c, StateStopped, idleStopped, c.why)
		s.free(c)
	case c.ticket != nil && c.ticket.manual:
		s.startManual(c, *c.ticket)
	case c.ticket != nil || c.lead != nil:
		s.rest(c, StateWaiting, idleWaiting, c.leaveWhy)
	case c.temporary():
		s.drop(c, c.leaveWhy)
	default:
		s.tell(c, StateStopped, c.leaveWhy)
	}
}

// ended handles the end of a child that nobody asked for, by its policy: one clause per rule.
func (s *Supervisor) ended(c *child, r Reason) {
	ran := s.now.Sub(c.upAt)
	s.place(c, down, idleStopped)
	c.lastWhy, c.lastSeq = r.Text, s.seq
	if ran >= c.spec.Restart.ResetAfter {
		c.attempt = 0
		if c.slow {
			c.clean()
		}
	}
	switch policy := c.spec.Restart.PolicyOr(); {
	case policy == Temporary:
		s.drop(c, r.Text)
		s.autoShutdown(c)
	case policy == Transient && !r.Abnormal():
		s.finish(c, r.Text)
		s.autoShutdown(c)
	default:
		s.decide(c)
	}
}

// finish rests a transient child that wants no more. An instance of a simple supervisor leaves nothing behind.
func (s *Supervisor) finish(c *child, why string) {
	s.rest(c, StateDone, idleDone, why)
	s.free(c)
	if s.simple() {
		s.remove(c)
	}
}

// startFailed handles a Down before Up.
func (s *Supervisor) startFailed(c *child, r Reason) {
	if s.starting == c {
		s.starting = nil
	}
	s.place(c, down, idleStopped)
	c.lastWhy, c.lastSeq = r.Text, s.seq
	s.rolled(c, false)
	switch policy := c.spec.Restart.PolicyOr(); {
	case c.running.asked:
		s.askedStartFailed(c, r)
	case c.boot && s.policy.First == InitFails:
		why := "cannot start: " + c.spec.Name + ": " + r.Text
		s.rest(c, StateStopped, idleStopped, r.Text)
		s.stopAll(Reason{Class: Crash, Text: why}, why)
	case policy == Temporary:
		s.drop(c, r.Text)
		s.autoShutdown(c)
	case policy == Transient && !r.Abnormal():
		s.finish(c, r.Text)
		s.autoShutdown(c)
	default:
		s.park(c)
		s.place(c, down, idleRestarting)
		s.cancelDelay(c)
		s.queue.push(item{child: c, why: r.Text, seq: s.seq})
	}
}

// park takes those out of the sequence that cannot go on before this child is settled: the members of its group, and
// while the supervisor boots in order, the ones after it.
func (s *Supervisor) park(c *child) {
	boot := c.boot && s.ordered() && s.policy.StrategyOr() == OneForOne
	rest := s.starts[:0:0]
	for _, w := range s.starts {
		if w == c || w.ticket == nil || !w.queued || w.ticket.asked {
			rest = append(rest, w)
			continue
		}
		switch {
		case boot && w.boot:
			s.wait(w, c, "after "+c.label())
		case !boot && s.affects(c, w):
			s.wait(w, c, "sibling "+c.spec.Name)
		default:
			rest = append(rest, w)
		}
	}
	s.starts = rest
}

// wait makes a child wait for its lead: it goes on when the lead is up, or gives up.
func (s *Supervisor) wait(w, lead *child, why string) {
	w.queued, w.gated, w.lead = false, false, lead
	s.cancelDelay(w)
	lead.waiters = append(lead.waiters, w)
	if w.phase == down {
		s.rest(w, StateWaiting, idleWaiting, why)
	}
}

// free lets those go on that waited for a child.
func (s *Supervisor) free(c *child) {
	waiters := c.waiters
	c.waiters = nil
	if s.life != living {
		return
	}
	for _, w := range waiters {
		if w.lead != c {
			continue
		}
		t := w.ticket
		if t == nil {
			t = &ticket{reason: "sibling " + c.spec.Name, cause: s.seq, restart: w.born}
		}
		s.want(w, *t)
	}
}

// recheck starts those whose gate has opened.
func (s *Supervisor) recheck(dependents []*child) {
	if s.life != living {
		return
	}
	for _, d := range dependents {
		if !d.gated || d.phase != down || !d.open() {
			continue
		}
		t := *d.ticket
		t.cause = s.seq
		if t.manual {
			s.startManual(d, t)
			continue
		}
		s.want(d, t)
	}
}

// autoShutdown ends the supervisor when the end of a significant child asks for it.
func (s *Supervisor) autoShutdown(c *child) {
	if !c.spec.Significant || s.life != living {
		return
	}
	switch s.policy.AutoShutdown {
	case AutoAny:
	case AutoAll:
		for _, k := range s.kids {
			if k.spec.Significant && !k.removed && (k.phase != down || k.idle == idleRestarting) {
				return
			}
		}
	default:
		return
	}
	why := "significant child " + c.spec.Name + " ended"
	s.stopAll(Reason{Class: Shutdown, Text: why}, why)
}

// wake ends a delay.
func (s *Supervisor) wake(f Wake) {
	c := s.tokens[f.Token]
	if c == nil || s.life != living {
		return
	}
	delete(s.tokens, f.Token)
	c.token = 0
	if f.Seq == 0 {
		s.seq = c.lastSeq
	}
	i := item{child: c, why: c.lastWhy, seq: s.seq, round: c.round, delay: true}
	if s.busy() {
		s.queue.push(i)
		return
	}
	s.serveItem(i)
}

// serveItem handles what waited in the queue, if it still matters.
func (s *Supervisor) serveItem(i item) {
	switch c := i.child; {
	case i.fact != nil:
		s.serve(i.fact)
	case c.removed || c.phase != down || c.idle != idleRestarting:
	case i.delay && c.round == i.round:
		s.seq = i.seq
		s.regroup(c)
	case !i.delay:
		s.seq = i.seq
		s.decide(c)
	}
}

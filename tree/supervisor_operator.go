package tree

// hold stops a child and keeps it stopped, whatever its siblings do.
func (s *Supervisor) hold(f Hold) {
	c := s.byName[f.Child]
	if c == nil || s.life != living {
		return
	}
	c.held, c.why, c.boot = true, f.Reason, false
	s.recount(c)
	s.forgetPlans(c)
	s.rolled(c, true)
	switch {
	case c.phase == down || c.dead:
		if c.dead {
			c.leaveWhy, c.leaveSeq = f.Reason, s.seq
			s.gone(c, f.Reason)
			return
		}
		s.rest(c, StateStopped, idleStopped, f.Reason)
		s.free(c)
	case c.phase == stopping:
		c.leaveWhy = f.Reason
	default:
		s.stopNow(c, f.Reason)
	}
}

// release starts a child that is down for whatever reason, with clean counts.
func (s *Supervisor) release(f Release) {
	c := s.byName[f.Child]
	if c == nil || s.life != living {
		return
	}
	c.held, c.why = false, ""
	c.clean()
	s.recount(c)
	t := ticket{reason: f.Reason, cause: s.seq, manual: true}
	switch {
	case c.toStop || (c.phase == stopping && c.ticket != nil):
		// It will be started again anyway.
	case c.dead:
		c.leaveWhy, c.leaveSeq = f.Reason, s.seq
		c.ticket = &t
		s.gone(c, f.Reason)
	case c.phase == stopping:
		c.ticket = &t
	case c.phase == down:
		s.startManual(c, t)
	}
}

// bounce stops a child and starts it again, with clean counts.
func (s *Supervisor) bounce(c *child, why string) {
	if s.life != living {
		return
	}
	if (c.phase == starting || c.phase == up) && !c.dead && !c.toStop {
		c.held, c.why = false, ""
		c.clean()
		c.ticket = &ticket{reason: why, cause: s.seq, manual: true}
		s.recount(c)
		s.stopNow(c, why)
		return
	}
	s.release(Release{Child: c.spec.Name, Reason: why, Seq: s.seq})
}

// startManual starts a child that is down at once, outside every sequence; only its gate can make it wait.
func (s *Supervisor) startManual(c *child, t ticket) {
	s.tear(c, false)
	c.ticket, c.lead, c.queued = &t, nil, false
	s.cancelDelay(c)
	s.place(c, down, idleWaiting)
	s.pass(c)
}

// roll bounces all children, one after the other.
type roll struct {
	on   bool
	left []*child
	at   *child
	why  string
	seq  Seq
}

func (s *Supervisor) beginRoll(f Roll) {
	s.roll = roll{on: true, why: f.Reason, seq: f.Seq, left: append([]*child(nil), s.kids...)}
}

// rollOn bounces the next child that there is something of, once the one before is up.
func (s *Supervisor) rollOn() bool {
	for s.roll.on && s.roll.at == nil {
		if len(s.roll.left) == 0 {
			s.roll = roll{}
			return false
		}
		c := s.roll.left[0]
		s.roll.left = s.roll.left[1:]
		resting := c.phase == down && (c.idle == idleDone || c.idle == idleIgnored || c.idle == idleStopped)
		if c.removed || c.held || c.dropped || resting {
			continue
		}
		s.roll.at, s.seq = c, s.roll.seq
		s.bounce(c, s.roll.why)
		return true
	}
	return false
}

// rolled tells the roll that the child it waits for is settled.
func (s *Supervisor) rolled(c *child, ok bool) {
	if s.roll.at != c {
		return
	}
	s.roll.at = nil
	if !ok {
		s.roll = roll{}
	}
}

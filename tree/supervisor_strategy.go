package tree

import (
	"math"
	"slices"
	"time"
)

// affected is what a strategy is: the range of children that a failed one takes with it.
func (s *Supervisor) affected(k int) (from, to int) {
	switch s.policy.StrategyOr() {
	case OneForAll:
		return 0, len(s.kids)
	case RestForOne:
		return k, len(s.kids)
	}
	return k, k + 1
}

// affects tells whether the failure of c takes w with it.
func (s *Supervisor) affects(c, w *child) bool {
	from, to := s.affected(c.index)
	return from <= w.index && w.index < to
}

// decide is what follows the end of a child that its policy wants back: count, then restart it at once, after a delay, or
// not at all.
func (s *Supervisor) decide(c *child) {
	limited := c.atLimit(s.now)
	switch {
	case limited && c.spec.Restart.OnLimit == OnLimitStop:
		s.cancelDelay(c)
		s.place(c, down, idleFailed)
		s.emit(Rest{Child: c.spec.Name, Inc: c.inc, State: StateFailed, Attempt: c.attempt + 1, Reason: c.lastWhy, Cause: s.seq})
		s.free(c)
		return
	case limited && c.spec.Restart.OnLimit == OnLimitEscalate:
		s.escalate(c)
		return
	case s.policy.Intensity != nil && s.restarts.exceeds(s.now, *s.policy.Intensity):
		s.escalate(c)
		return
	case limited:
		c.slow = true
	}
	c.attempt++
	delay := c.delay(s.dice)
	lead := s.delayed(c)
	if lead == nil && delay == 0 {
		s.regroup(c)
		return
	}
	if lead != nil && s.affects(lead, c) {
		s.joinDelay(c, lead, delay)
		return
	}
	from, to := s.affected(c.index)
	for i := from; i < to; i++ {
		if m := s.kids[i]; m != c && m.token != 0 {
			delay = max(delay, m.due.Sub(s.now))
			s.cancelDelay(m)
		}
	}
	s.await(c, delay)
	s.suspend(c)
}

// delayed returns the child whose delay a group waits for, if any: the ranges of a group strategy always nest, so there
// is one at most.
func (s *Supervisor) delayed(c *child) *child {
	if s.policy.StrategyOr() == OneForOne || s.simple() || len(s.tokens) == 0 {
		return nil
	}
	for _, k := range s.kids {
		if k.token != 0 && k != c && (s.affects(k, c) || s.affects(c, k)) {
			return k
		}
	}
	return nil
}

// joinDelay makes a child that failed while its group waits already wait with it, until the later of the two moments.
func (s *Supervisor) joinDelay(c, lead *child, delay time.Duration) {
	if s.now.Add(delay).After(lead.due) {
		s.await(lead, delay)
	}
	s.place(c, down, idleWaiting)
	c.ticket, c.lead = nil, lead
	lead.waiters = append(lead.waiters, c)
	s.emit(Backoff{Child: c.spec.Name, Inc: c.inc, Delay: lead.due.Sub(s.now), Attempt: c.attempt, Slow: c.slow,
		Reason: c.lastWhy, Cause: s.seq})
	s.suspend(lead)
}

// await begins or prolongs the delay of a child.
func (s *Supervisor) await(c *child, delay time.Duration) {
	s.cancelDelay(c)
	s.place(c, down, idleRestarting)
	s.token++
	c.token, c.due = s.token, s.now.Add(delay)
	s.tokens[c.token] = c
	s.emit(Backoff{Child: c.spec.Name, Inc: c.inc, Delay: delay, Attempt: c.attempt, Slow: c.slow, Reason: c.lastWhy,
		Cause: s.seq})
	s.emit(WakeAfter{After: delay, Token: c.token, Child: c.spec.Name, Cause: s.seq})
}

// suspend stops the group of a child that waits for its delay; the siblings wait with it.
func (s *Supervisor) suspend(lead *child) {
	from, to := s.affected(lead.index)
	for i := to - 1; i >= from; i-- {
		m := s.kids[i]
		if m == lead || m.removed {
			continue
		}
		alive := m.phase != down
		waits := m.lead == lead
		s.leave(m, lead)
		switch {
		case m.lead == lead && !waits:
			lead.waiters = append(lead.waiters, m)
		case waits || !m.startable() || m.temporary() && (m.born || alive):
		case m.phase == down && (m.idle == idleDone || m.idle == idleIgnored || m.idle == idleStopped):
			// It rests; the group start will take it along as OTP does.
		default:
			s.tear(m, false)
			s.wait(m, lead, "sibling "+lead.spec.Name)
		}
	}
}

// regroup restarts a child and what its strategy takes with it: stops from the right, starts from the left.
func (s *Supervisor) regroup(c *child) {
	why := "sibling " + c.spec.Name
	from, to := s.affected(c.index)
	for i := to - 1; i >= from; i-- {
		if i < len(s.kids) && s.kids[i] != c {
			s.leave(s.kids[i], c)
		}
	}
	from, to = s.affected(c.index)
	for i := from; i < to; i++ {
		m := s.kids[i]
		switch {
		case m == c:
			s.cancelDelay(c)
			s.want(c, ticket{reason: c.lastWhy, cause: s.seq, restart: true, attempt: c.attempt})
		case !m.startable() || m.temporary() && m.born:
		case !m.born:
			s.cancelDelay(m)
			s.want(m, ticket{reason: "start", cause: s.seq})
		default:
			s.cancelDelay(m)
			s.want(m, ticket{reason: why, cause: s.seq, restart: true})
		}
	}
	c.waiters = slices.DeleteFunc(c.waiters, func(w *child) bool { return w.lead != c })
}

// leave takes one member of a group down. A temporary one is dropped, even if it never ran, but for one whose first start
// is still to come.
func (s *Supervisor) leave(m, lead *child) {
	why := "sibling " + lead.spec.Name
	switch {
	case m.phase != down:
		m.lead = nil
		if !m.temporary() {
			s.tear(m, false)
			m.queued = false
			if m.startable() {
				m.lead = lead
			}
		}
		s.markStop(m, why)
	case m.temporary() && !m.dropped && !m.held && !m.boot && m.ticket == nil:
		s.drop(m, why)
	}
}

// atLimit counts an end that needs a restart, and tells whether it is one too many.
func (c *child) atLimit(now time.Time) bool {
	r := &c.spec.Restart
	if r.Limit <= 0 {
		return false
	}
	if c.slow {
		return true
	}
	for len(c.ends) > 0 && r.Within > 0 && now.Sub(c.ends[0]) > r.Within {
		c.ends = c.ends[1:]
	}
	c.ends = append(c.ends, now)
	return len(c.ends) >= r.Limit
}

// delay is how long the next restart of the child has to wait.
func (c *child) delay(dice Dice) time.Duration {
	r := &c.spec.Restart
	d := float64(r.Backoff)
	if c.slow && r.Cap > 0 {
		d = float64(r.Cap)
	} else if r.Factor > 0 {
		d *= math.Pow(r.Factor, float64(c.attempt-1))
	}
	if r.Cap > 0 {
		d = min(d, float64(r.Cap))
	}
	if dice != nil && r.Jitter > 0 {
		d += d * r.Jitter * dice.Float64()
	}
	return time.Duration(min(d, float64(Forever/4)))
}

// window remembers when a supervisor restarted children.
type window struct{ times []time.Time }

// exceeds counts one more restart and tells whether it is one too many.
func (w *window) exceeds(now time.Time, i Intensity) bool {
	n := 0
	for n < len(w.times) && now.Sub(w.times[n]) > i.Period {
		n++
	}
	w.times = append(w.times[n:], now)
	return len(w.times) > i.Restarts
}

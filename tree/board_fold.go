package tree

import "time"

// This file is the fold: what one journal entry or observation changes. Status has no other source.

// Apply takes on one journal entry. Entries come in order of their number. One of an unknown path changes nothing, except
// that the start of a dynamic child makes it known.
func (b *Board) Apply(ev Event) {
	if b.began.IsZero() {
		b.began = ev.Time
	}
	e := b.find(&ev)
	if e == nil {
		return
	}
	if ev.Kind == EventExited {
		e.leaf.LastExit = lastExit(&ev)
	}
	if ev.Incarnation != 0 && ev.Incarnation < e.inc {
		return // of one that was replaced and is on its way out
	}
	if ev.Kind == EventStarting {
		b.starting(e, &ev)
		return
	}
	e.apply(&ev)
	for ; e != nil && e.origin == leaving && !e.alive(); e = e.parent {
		b.Forget(e.path)
	}
}

// starting begins an incarnation. Whatever is above has begun by that, and what is below has not.
func (b *Board) starting(e *entry, ev *Event) {
	e.become(StateStarting, "", ev.Time)
	if ev.Incarnation > 0 {
		e.inc = ev.Incarnation
	}
	if again, _ := ev.Data["restart"].(bool); again {
		e.restarts++
	}
	e.leaf = Leaf{LastExit: e.leaf.LastExit, Dropped: e.leaf.Dropped}
	for _, child := range e.children {
		child.renew()
	}
	for p := e.parent; p != nil; p = p.parent {
		if p.state == StateStarting || p.state == StateWaiting {
			p.become(StateRunning, "", ev.Time)
		}
	}
}

// renew makes an entry fresh because its supervisor was started again; what an operator stopped stays stopped.
func (e *entry) renew() {
	if e.state != StateStopped || e.intent != "stopped" {
		e.refresh()
	}
	for _, child := range e.children {
		child.renew()
	}
}

// become changes the state; a state that goes on keeps the time of its beginning.
func (e *entry) become(state State, reason string, at time.Time) {
	if e.fresh || e.state != state {
		e.since = at
	}
	e.fresh, e.state, e.reason, e.nextAt = false, state, reason, nil
	if state != StateRunning {
		e.leaf.Ready = false
	}
}

// apply is one row per kind of entry.
func (e *entry) apply(ev *Event) {
	switch ev.Kind {
	case EventReady:
		e.become(StateRunning, "", ev.Time)
		e.leaf.Ready = true
		e.pid(ev)
	case EventAdopted:
		e.become(StateStarting, "", ev.Time)
		e.inc = max(e.inc, ev.Incarnation)
		e.pid(ev)
	case EventUnready:
		e.leaf.Ready, e.reason = false, ev.Reason
	case EventStopping, EventEscalated:
		e.become(StateStopping, ev.Reason, ev.Time)
	case EventExited:
		e.exited(ev)
	case EventBackoff:
		e.rest(StateBackoff, ev)
		e.next(ev)
	case EventFailed:
		e.rest(StateFailed, ev)
		e.next(ev)
	case EventStopped:
		e.rest(StateStopped, ev)
	case EventDone:
		e.rest(StateDone, ev)
	case EventRunStarted:
		e.become(StateRunning, "", ev.Time)
	case EventRunEnded, EventRunSkipped:
		next := e.nextAt
		e.become(StateWaiting, orElse(ev.Reason, "between runs"), ev.Time)
		e.nextAt = next
	case EventIntent:
		if intent, ok := ev.Data["intent"].(string); ok {
			e.intent = intent
		}
	}
}

// exited: the process is gone, its group may not be; until the supervisor decides, the node is on its way out.
func (e *entry) exited(ev *Event) {
	if e.state == StateStarting || e.state == StateRunning {
		e.become(StateStopping, ev.Reason, ev.Time)
	}
	e.leaf.PID, e.leaf.Ready = 0, false
}

// rest is a state without a process.
func (e *entry) rest(state State, ev *Event) {
	e.become(state, orElse(ev.Reason, string(state)), ev.Time)
	e.leaf.PID = 0
}

// pid takes the process from an entry that names it, for a board that is folded from a journal alone.
func (e *entry) pid(ev *Event) {
	if pid, ok := number(ev.Data["pid"]); ok {
		e.leaf.PID = int(pid)
	}
}

func (e *entry) next(ev *Event) {
	if delay, ok := number(ev.Data["delay"]); ok {
		at := ev.Time.Add(time.Duration(delay * float64(time.Second)))
		e.nextAt = &at
	}
}

func lastExit(ev *Event) *LastExit {
	last := LastExit{Reason: ev.Reason, At: ev.Time}
	if code, ok := number(ev.Data["code"]); ok {
		last.Code = int(code)
	}
	if signal, _ := ev.Data["signal"].(string); signal != "" {
		last.Signal, last.Code = signal, -1
	}
	return &last
}

// number reads a number from the data of an entry, which may have been through JSON.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// Observe takes on what is true of an incarnation now. One of an older incarnation than the newest is dropped; 0 means
// whichever is there.
func (b *Board) Observe(ref Ref, o Observation) {
	if b.began.IsZero() {
		b.began = o.At
	}
	e := b.byPath[ref.Path]
	if e == nil || (ref.Inc != 0 && ref.Inc < e.inc) {
		return
	}
	set(&e.leaf.PID, o.PID)
	set(&e.leaf.Socket, o.Socket)
	set(&e.leaf.Port, o.Port)
	set(&e.leaf.Status, o.Status)
	set(&e.leaf.Dropped, o.Dropped)
	set(&e.intent, o.Intent)
	if o.Health != nil {
		pulse := *o.Health
		e.leaf.Health = &pulse
	}
	if o.Waiting != nil {
		e.become(StateWaiting, orElse(*o.Waiting, "waiting"), o.At)
		e.leaf.PID = 0
	}
	if o.NextAt != nil {
		e.nextAt = nil
		if !o.NextAt.IsZero() {
			at := *o.NextAt
			e.nextAt = &at
		}
	}
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

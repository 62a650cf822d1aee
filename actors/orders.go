package actors

import (
	"time"

	"github.com/coppice-run/coppice/tree"
)

// step hands one fact to the machine and carries out what it orders. Every order that changes a child is one event, and the
// number of the event travels with what follows from it.
func (s *supervisor) step(fact tree.Fact) {
	orders := s.core.Step(time.Now(), fact)
	// A wake-up that ends a child's backoff is caused by the backoff, wherever the two stand in the list.
	var backoffs map[string]tree.Seq
	for _, order := range orders {
		if b, ok := order.(tree.Backoff); ok {
			if backoffs == nil {
				backoffs = map[string]tree.Seq{}
			}
			backoffs[b.Child] = s.recordBackoff(b)
		}
	}
	for _, order := range orders {
		s.carry(order, backoffs)
	}
}

func (s *supervisor) carry(order tree.Order, backoffs map[string]tree.Seq) {
	switch o := order.(type) {
	case tree.Start:
		s.start(o)
	case tree.Stop:
		s.stop(o)
	case tree.Rest:
		s.rest(o)
	case tree.Forget:
		s.house.journal.Forget(s.pathOf(o.Child))
	case tree.WakeAfter:
		seq := o.Cause
		if b := backoffs[o.Child]; b != 0 {
			seq = b
		}
		wake := tree.Wake{Token: o.Token, Seq: seq}
		s.timers.set(o.Token, o.After, func() { s.shell.PostUserMessage(wake) })
	case tree.Escalate:
		s.gaveUp = s.record(tree.EventEscalated, o.Reason, o.Cause, map[string]any{"child": o.Child})
		if s.ref.Path == "" && !s.top {
			s.house.gaveUp.Store(true)
		}
	case tree.ReportUp:
		seq := s.record(tree.EventReady, "", o.Cause, nil)
		s.shell.tell(tree.Up{Child: s.shell.name, Inc: s.ref.Inc, Seq: seq})
	case tree.ReportUnready:
		seq := s.record(tree.EventUnready, o.Reason, o.Cause, nil)
		s.shell.tell(tree.Unready{Child: s.shell.name, Inc: s.ref.Inc, Reason: o.Reason, Seq: seq})
	case tree.ReportIgnored:
		s.shell.tell(tree.Ignored{Child: s.shell.name, Inc: s.ref.Inc, Seq: o.Cause})
		s.leave()
	case tree.Quit:
		seq := o.Cause
		if s.gaveUp != 0 {
			seq = s.gaveUp
		}
		s.end(o.Reason, seq)
	case tree.Reply:
		if answer := s.calls[o.Call]; answer != nil {
			delete(s.calls, o.Call)
			answer(o)
		}
	}
}

func (s *supervisor) start(o tree.Start) {
	path := s.pathOf(o.Child)
	if path == "" { // the host: that it starts is the daemon's event, and that it is ready its own
		s.adopt(o, path, o.Cause)
		return
	}
	var data map[string]any
	if o.Restart || o.Attempt != 0 {
		data = map[string]any{"restart": o.Restart, "attempt": o.Attempt}
	}
	seq := s.house.journal.Append(tree.Event{Path: path, Incarnation: o.Inc, Kind: tree.EventStarting,
		Reason: o.Reason, Cause: o.Cause, Data: data})
	s.adopt(o, path, seq)
}

func (s *supervisor) stop(o tree.Stop) {
	k := s.kids[o.Child]
	if k == nil || k.inc != o.Inc {
		return // its Down is in our mailbox already
	}
	if k.path == "" { // that it stops is the daemon's event
		k.halt(tree.Halt{Reason: tree.Reason{Class: tree.Shutdown, Text: o.Reason}, Kill: o.Kill, Seq: o.Cause})
		return
	}
	seq := s.house.journal.Append(tree.Event{Path: k.path, Incarnation: o.Inc, Kind: tree.EventStopping,
		Reason: o.Reason, Cause: o.Cause})
	k.halt(tree.Halt{Reason: tree.Reason{Class: tree.Shutdown, Text: o.Reason}, Kill: o.Kill, Seq: seq, Wait: s.house.patient})
}

func (s *supervisor) recordBackoff(o tree.Backoff) tree.Seq {
	kind := tree.EventBackoff
	data := map[string]any{"delay": o.Delay.Seconds(), "attempt": o.Attempt}
	if o.Slow {
		kind = tree.EventFailed
		s.limitData(o.Child, data)
	}
	return s.house.journal.Append(tree.Event{Path: s.pathOf(o.Child), Incarnation: o.Inc, Kind: kind,
		Reason: o.Reason, Cause: o.Cause, Data: data})
}

// limitData adds which limit was hit, for people.
func (s *supervisor) limitData(child string, data map[string]any) {
	for i := range s.spec.Children {
		if r := &s.spec.Children[i].Restart; s.spec.Children[i].Name == child && r.Limit > 0 {
			data["limit"], data["within"] = r.Limit, r.Within.Seconds()
		}
	}
}

func (s *supervisor) rest(o tree.Rest) {
	path := s.pathOf(o.Child)
	event := tree.Event{Path: path, Incarnation: o.Inc, Reason: o.Reason, Cause: o.Cause}
	switch o.State {
	case tree.StateWaiting:
		s.house.journal.Observe(path, o.Inc, tree.Observation{Waiting: &o.Reason, At: time.Now()})
		return
	case tree.StateDone:
		event.Kind = tree.EventDone
	case tree.StateFailed:
		// The delay is null: it is not tried again by itself.
		event.Kind, event.Data = tree.EventFailed, map[string]any{"delay": nil, "attempt": o.Attempt}
		s.limitData(o.Child, event.Data)
	default:
		event.Kind = tree.EventStopped
	}
	s.house.journal.Append(event)
}

// record appends an event of the supervisor's own.
func (s *supervisor) record(kind tree.EventKind, reason string, cause tree.Seq, data map[string]any) tree.Seq {
	if s.top {
		return cause
	}
	return s.house.journal.Append(tree.Event{Path: s.ref.Path, Incarnation: s.ref.Inc, Kind: kind,
		Reason: reason, Cause: cause, Data: data})
}

package sim

import (
	"time"

	"github.com/coppice-run/coppice/tree"
)

// entry is one entry of the simulated journal. Without a kind it is something true that is no entry: a state, or that a
// start has failed.
type entry struct {
	seq, cause tree.Seq
	at         time.Duration
	lane       *lane
	inc        int
	kind       tree.EventKind
	state      tree.State
	reason     string
	delay      time.Duration
	attempt    int
	restart    bool
	own        bool // nothing but the node itself is to blame
	exit       *tree.Exit
}

// record numbers an entry and lets whoever listens hear it.
func (w *World) record(e *entry) tree.Seq {
	w.seq++
	e.seq, e.at = w.seq, w.clock.now
	if w.tally != nil {
		w.tally.see(e)
	}
	if w.opt.Event != nil {
		w.opt.Event(e.event(w.begin))
	}
	return e.seq
}

// event is the entry as a journal has it.
func (e *entry) event(begin time.Time) tree.Event {
	ev := tree.Event{Seq: e.seq, Time: begin.Add(e.at), Path: e.lane.path, Incarnation: e.inc, Kind: e.kind, Cause: e.cause,
		Reason: e.reason, Data: map[string]any{}}
	switch e.kind {
	case tree.EventStarting:
		if e.restart || e.attempt != 0 {
			ev.Data["restart"], ev.Data["attempt"] = e.restart, e.attempt
		}
	case tree.EventBackoff:
		ev.Data["delay"], ev.Data["attempt"] = e.delay.Seconds(), e.attempt
	case tree.EventFailed:
		ev.Data["delay"], ev.Data["attempt"] = any(nil), e.attempt
		if e.delay > 0 {
			ev.Data["delay"] = e.delay.Seconds()
		}
	case tree.EventExited:
		if e.exit != nil {
			ev.Data["code"], ev.Data["signal"], ev.Data["ran"] = e.exit.Code, e.exit.Signal, e.exit.Ran.Seconds()
		}
	}
	return ev
}

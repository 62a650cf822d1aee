package tree

import "strings"

// Asked is what an operator asked for and waits on.
type Asked string

// What can be asked for.
const (
	AskedStart   Asked = "start"
	AskedStop    Asked = "stop"
	AskedRestart Asked = "restart"
)

// Outcome says how far something that was asked for has come. Done and Failed are never both set; neither means that
// it is still under way, and Path then names what is waited for. After Failed, Path and Reason say what failed first.
type Outcome struct {
	Done   bool
	Failed bool
	Path   string
	Reason string
}

// Judge says how far a request has come. target is the path that was asked about, nodes are the board's at and under it
// (in its order), events are the journal's entries about them after the request, in order.
//
// A start or restart is done when all that is wanted at or under target is ready, or has ended as it should, and has
// failed with the first start that failed after the request: it ended, or was told to, before it was ready. A restart
// also needs a new start of everything but what has ended for good. A node under target that an operator stopped by its own name, or that is not enabled, is not wanted. A stop is done
// when nothing runs and nothing would start by itself, and has failed when something cannot be killed.
func Judge(asked Asked, target string, nodes []Node, events []Event) Outcome {
	if asked == AskedStop {
		return judgeStop(target, nodes, events)
	}
	j := judge{asked: asked, target: target, paths: map[string]*attempt{}}
	for i := range events {
		ev := &events[i]
		if !Under(target, ev.Path) {
			continue
		}
		if reason := j.event(ev); reason != "" {
			return Outcome{Failed: true, Path: ev.Path, Reason: reason}
		}
	}
	return j.nodes(nodes)
}

type judge struct {
	asked  Asked
	target string
	paths  map[string]*attempt // of what has begun after the request
}

// attempt is the newest incarnation of a path that began after the request.
type attempt struct {
	inc     int
	pending bool   // neither ready nor ended
	why     string // why it ends, if that has begun: the first cause
	bad     bool   // and that was no exit 0 of its own
	done    bool
}

// event takes on one entry and returns the reason of a start that has failed by it, "" for none.
func (j *judge) event(ev *Event) string {
	a := j.paths[ev.Path]
	if ev.Kind == EventStarting {
		again, _ := ev.Data["restart"].(bool)
		j.paths[ev.Path] = &attempt{inc: ev.Incarnation, pending: true}
		if a != nil && a.pending && again && !strings.HasPrefix(a.why, "sibling ") {
			return orElse(a.why, ev.Reason)
		}
		return ""
	}
	if a == nil || !a.pending || (ev.Incarnation != 0 && ev.Incarnation != a.inc) {
		return ""
	}
	switch ev.Kind {
	case EventReady:
		a.pending = false
	case EventStopping:
		why := ev.Reason
		if detail, _ := ev.Data["detail"].(string); detail != "" {
			why += ": " + detail
		}
		a.why, a.bad = orElse(a.why, why), true
	case EventExited:
		code, _ := number(ev.Data["code"])
		signal, _ := ev.Data["signal"].(string)
		a.why, a.bad = orElse(a.why, ev.Reason), a.bad || code != 0 || signal != ""
	case EventBackoff, EventFailed, EventStopped:
		if ev.Reason != "" && strings.HasPrefix(a.why, ev.Reason) {
			return a.why // says the same and more
		}
		return orElse(ev.Reason, string(ev.Kind))
	case EventDone:
		a.pending, a.done = false, true
		if a.bad || strings.HasPrefix(ev.Reason, "cannot start") {
			return orElse(ev.Reason, a.why)
		}
	}
	return ""
}

func (j *judge) nodes(nodes []Node) Outcome {
	skip := "/" // the subtree that is not wanted; no path begins so
	for i := range nodes {
		n := &nodes[i]
		if !Under(j.target, n.Path) || Under(skip, n.Path) {
			continue
		}
		if n.Path != j.target && unwanted(n) {
			skip = n.Path
			continue
		}
		if n.Leaf == nil || j.there(n) {
			continue
		}
		// The supervisor gave up before it said anything about this one.
		if a := j.paths[n.Path]; a != nil && a.pending && a.why != "" && n.State == StateStopped {
			return Outcome{Failed: true, Path: n.Path, Reason: a.why}
		}
		return Outcome{Path: n.Path, Reason: n.Reason}
	}
	return Outcome{Done: true}
}

// unwanted tells what somebody keeps down for itself.
func unwanted(n *Node) bool {
	return n.State == StateStopped && (n.Intent == "stopped" || n.Reason == "not enabled")
}

// there tells whether a leaf has arrived where the request wants it.
func (j *judge) there(n *Node) bool {
	a := j.paths[n.Path]
	switch {
	case n.Kind == KindSchedule:
		return n.State == StateRunning || n.State == StateWaiting
	case n.State == StateDone:
		return n.Path != j.target || (a != nil && a.done)
	case j.asked == AskedRestart && a == nil:
		return false
	}
	return n.State == StateRunning && n.Ready
}

func judgeStop(target string, nodes []Node, events []Event) Outcome {
	for i := range events {
		if ev := &events[i]; ev.Kind == EventKilled && ev.Data["left"] != nil && Under(target, ev.Path) {
			return Outcome{Failed: true, Path: ev.Path, Reason: orElse(ev.Reason, "cannot be killed")}
		}
	}
	for i := range nodes {
		n := &nodes[i]
		if Under(target, n.Path) && !atRest(n) {
			return Outcome{Path: n.Path, Reason: n.Reason}
		}
	}
	return Outcome{Done: true}
}

// atRest tells whether nothing of a node runs and nothing will by itself.
func atRest(n *Node) bool {
	switch n.State {
	case StateStopped, StateDone:
	case StateFailed, StateWaiting:
		return n.NextAt == nil && (n.Leaf == nil || n.PID == 0)
	default:
		return false
	}
	return n.Leaf == nil || n.PID == 0
}

package tree

import (
	"fmt"
	"slices"
	"strings"
)

// longestChain bounds a chain of causes; one that is longer tells of a loop and not of a cause.
const longestChain = 100

// Why returns the chain of causes that led to the present state of a node, newest first: the first entry made the state,
// each further one caused the one before it, across nodes where they did. A chain begins with what happened by itself:
// what an operator said, or an end that nobody asked for. events are what is kept of the journal in order of their
// numbers, node is how the board shows the node. The note is not empty where the chain breaks off, because an entry is
// no longer kept, or where there is none at all.
func Why(events []Event, node Node) (chain []Event, note string) {
	ev, ok := newestState(events, node)
	if !ok {
		return nil, "nothing is kept that explains it"
	}
	for {
		chain = append(chain, ev)
		if ev.Cause == 0 {
			return chain, ""
		}
		if len(chain) == longestChain {
			return chain, fmt.Sprintf("the chain goes on at entry %d", ev.Cause)
		}
		cause, ok := entryAt(events, ev.Cause)
		if !ok || ev.Cause >= ev.Seq {
			return chain, fmt.Sprintf("entry %d, the cause of entry %d, is no longer kept", ev.Cause, ev.Seq)
		}
		if unasked(ev, cause) {
			return chain, ""
		}
		ev = cause
	}
}

// unasked tells an end by itself: what it points to is the life that it ended, and not what ended it.
func unasked(ev, cause Event) bool {
	if ev.Kind != EventExited || ev.Path != cause.Path || ev.Incarnation != cause.Incarnation {
		return false
	}
	return cause.Kind == EventStarting || cause.Kind == EventReady || cause.Kind == EventUnready || cause.Kind == EventAdopted
}

func entryAt(events []Event, seq Seq) (Event, bool) {
	i, ok := slices.BinarySearchFunc(events, seq, func(e Event, seq Seq) int {
		switch {
		case e.Seq < seq:
			return -1
		case e.Seq > seq:
			return 1
		}
		return 0
	})
	if !ok {
		return Event{}, false
	}
	return events[i], true
}

// newestState finds the entry that made the state of a node: the newest about itself if that explains what is shown,
// else the newest about the nearest node above, whose state then is the node's.
func newestState(events []Event, node Node) (Event, bool) {
	if ev, ok := gateOf(events, node); ok {
		return ev, true
	}
	var own *Event
	for path, first := node.Path, true; ; first = false {
		if i := newestOf(events, path); i >= 0 {
			ev := &events[i]
			switch made := stateMade(ev.Kind); {
			case first:
				own = ev
				if made == node.State || node.State == StateRunning || (made == StateStopping && node.State != StateStopped) {
					return *ev, true
				}
			case made != StateRunning && made != StateStarting:
				return *ev, true
			}
		}
		if path == "" {
			break
		}
		path = above(path, first)
	}
	if own == nil {
		return Event{}, false
	}
	return *own, true
}

// gateOf finds what a sibling did last for which the node waits ("after db"): waiting makes no entry of its own.
func gateOf(events []Event, node Node) (Event, bool) {
	name, ok := strings.CutPrefix(node.Reason, "after ")
	if !ok || node.State != StateWaiting {
		return Event{}, false
	}
	sibling := node.Path[:strings.LastIndexByte(node.Path, '/')+1] + name
	for _, path := range [...]string{sibling, sibling + ".0"} {
		if i := newestOf(events, path); i >= 0 {
			return events[i], true
		}
	}
	return Event{}, false
}

// above returns the path of the node above; of a replica first the pool's.
func above(path string, first bool) string {
	if p := pool(path); first && p != path {
		return p
	}
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)]
}

func newestOf(events []Event, path string) int {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Path == path && stateMade(events[i].Kind) != "" {
			return i
		}
	}
	return -1
}

// stateMade is the state that an entry of a kind puts its node into, "" for none.
func stateMade(kind EventKind) State {
	switch kind {
	case EventStarting, EventAdopted:
		return StateStarting
	case EventReady, EventUnready, EventRunStarted:
		return StateRunning
	case EventStopping, EventEscalated, EventExited:
		return StateStopping
	case EventBackoff:
		return StateBackoff
	case EventFailed:
		return StateFailed
	case EventStopped:
		return StateStopped
	case EventDone:
		return StateDone
	case EventRunEnded, EventRunSkipped:
		return StateWaiting
	}
	return ""
}

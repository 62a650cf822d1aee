package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Ask is what an operator says with a request.
type Ask struct {
	By      string        // who; required
	Reason  string        // why, in their words
	Wait    bool          // until it is done
	Timeout time.Duration // of the wait; 0: only ctx bounds it
}

// Errors of the operations. Each may be wrapped in an error with more words.
var (
	ErrNotFound = errors.New("no such path")
	ErrTimeout  = errors.New("timed out waiting")      // it was asked for, and is not done yet
	ErrConflict = errors.New("conflict")               // it contradicts what holds, and nothing was done
	ErrStopping = errors.New("the daemon is stopping") // nothing was done
)

// conflict is an ErrConflict whose text says what to do first.
type conflict string

// Error is the text.
func (c conflict) Error() string { return string(c) }

// Is makes errors.Is find ErrConflict.
func (c conflict) Is(target error) bool { return target == ErrConflict }

// place is where a node stands.
type place struct {
	spec   *tree.Spec
	path   string
	name   string   // under which its supervisor knows it
	parent string   // path of that supervisor
	above  []string // paths of all supervisors above, the host's left out, topmost first
}

// find walks down the specification.
func (h *Host) find(path string) (place, error) {
	if h.Stopping() {
		return place{}, ErrStopping
	}
	at, spec := "", &h.root
	var above []string
next:
	for path != "" {
		for i := range spec.Children {
			child := &spec.Children[i]
			p := tree.ChildPath(at, spec.Kind, child.Name)
			if p == path {
				return place{spec: child, path: p, name: child.Name, parent: h.actorOf(at, p), above: above}, nil
			}
			if child.IsSupervisor() && tree.Under(p, path) {
				above = append(above, p)
				at, spec = p, child
				continue next
			}
		}
		break
	}
	return place{}, ErrNotFound
}

// actorOf is the path of the actor that looks after a child of the node at parent: only the parts' node hangs elsewhere.
func (h *Host) actorOf(parent, child string) string {
	if child == PartsPath {
		return topActorPath
	}
	return parent
}

// Halt takes the node at path down, and keeps it down until a Start or Restart, whatever happens meanwhile. The note is not
// empty if there was nothing to do. It waits, if asked to, until nothing of the node runs. Errors: ErrNotFound,
// ErrConflict, ErrTimeout, ErrStopping, ctx's.
func (h *Host) Halt(ctx context.Context, path string, ask Ask) (note string, err error) {
	n, err := h.find(path)
	if err != nil {
		return "", err
	}
	if tree.Under(PartsPath, path) {
		return "", conflict("it is a part of the daemon")
	}
	if old, ok := h.house.ledger.intent(path); ok && old.Stopped && h.resting(path) {
		return "already " + old.reason(), nil
	}
	in := Intent{Path: path, Stopped: true, By: ask.By, Why: ask.Reason, At: time.Now()}
	in.Seq = h.decided(path, in.reason(), in.word(), ask)
	h.house.ledger.set(in)
	if !h.tell(n.parent, tree.Hold{Child: n.name, Reason: in.reason(), Seq: in.Seq}) {
		return "was not running", nil
	}
	if !ask.Wait {
		return "", nil
	}
	return "", h.await(ctx, tree.AskedStop, path, ask, nil, in.Seq)
}

// Start brings the node at path up and takes back the stops at it and below it; what failed or waits for a retry is started
// at once, with clean counts. A node that is not enabled starts only if it is named exactly. The note is not empty if there
// was nothing to do. It waits, if asked to, until all that it started is up, or the first of it failed. Errors:
// those of Halt, and one that names the node that failed and its reason.
func (h *Host) Start(ctx context.Context, path string, ask Ask) (note string, err error) {
	n, err := h.find(path)
	if err != nil {
		return "", err
	}
	if err := h.reachable(n); err != nil {
		return "", err
	}
	lifted := h.lift(path)
	targets := h.toStart(n, lifted, true)
	if len(targets) == 0 && len(lifted) == 0 {
		return "already running", nil
	}
	in := Intent{Path: path, By: ask.By, Why: ask.Reason, At: time.Now()}
	word := ""
	if n.spec.Disabled {
		word = in.word()
	}
	begun := h.underWay(path)
	in.Seq = h.decided(path, in.reason(), word, ask)
	if n.spec.Disabled {
		h.house.ledger.set(in)
	}
	for _, t := range targets {
		h.tell(t.parent, tree.Release{Child: t.name, Reason: in.reason(), Seq: in.Seq})
	}
	if !ask.Wait {
		return "", nil
	}
	return "", h.await(ctx, tree.AskedStart, path, ask, begun, in.Seq)
}

// Restart stops the node at path and starts it again, with clean counts; a pool goes one replica at a time. It takes back the
// stops at path and below it. It waits as Start does, with the same errors.
func (h *Host) Restart(ctx context.Context, path string, ask Ask) (note string, err error) {
	n, err := h.find(path)
	if err != nil {
		return "", err
	}
	if path == PartsPath {
		return "", conflict("name one of its parts")
	}
	if err := h.reachable(n); err != nil {
		return "", err
	}
	h.lift(path)
	reason := "restarted by " + ask.By
	word := ""
	if n.spec.Disabled {
		word = "started"
	}
	seq := h.decided(path, reason, word, ask)
	if n.spec.Disabled {
		h.house.ledger.set(Intent{Path: path, By: ask.By, Why: ask.Reason, At: time.Now(), Seq: seq})
	}
	if n.spec.Kind != tree.KindPool || !h.tell(path, tree.Roll{Reason: reason, Seq: seq}) {
		h.tell(n.parent, tree.Bounce{Child: n.name, Reason: reason, Seq: seq})
	}
	if !ask.Wait {
		return "", nil
	}
	return "", h.await(ctx, tree.AskedRestart, path, ask, nil, seq)
}

// Intents is what operators have said and still holds, by path.
func (h *Host) Intents() []Intent { return h.house.ledger.all() }

// decided records what an operator asked for. It is the cause of all that follows.
func (h *Host) decided(path, reason, word string, ask Ask) tree.Seq {
	data := map[string]any{"intent": word, "by": ask.By}
	if ask.Reason != "" {
		data["why"] = ask.Reason
	}
	return h.options.Journal.Append(tree.Event{Path: path, Kind: tree.EventIntent, Reason: reason, Data: data})
}

// lift takes back the stops at path and below, in status too.
func (h *Host) lift(path string) map[string]bool {
	lifted := map[string]bool{}
	for _, in := range h.house.ledger.lift(path) {
		lifted[in.Path] = true
		if in.Path != path { // the event of the decision tells it of path itself
			h.options.Journal.Observe(in.Path, 0, tree.Observation{Intent: new(string), At: time.Now()})
		}
	}
	return lifted
}

// reachable tells why a node cannot be started by itself: something above it is not there.
func (h *Host) reachable(n place) error {
	for _, at := range n.above {
		why := ""
		if in, ok := h.house.ledger.intent(at); ok && in.Stopped {
			why = in.reason()
		} else if h.house.ledger.supervisor(at) == nil {
			why = "not running"
			if node, ok := h.options.Journal.Node(at); ok {
				why = "in state " + string(node.State)
			}
		}
		if why != "" {
			return conflict(fmt.Sprintf("%s is %s: start %s first", at, why, at))
		}
	}
	return nil
}

// toStart lists what has to be released so that the node and all below it run, topmost first.
func (h *Host) toStart(n place, lifted map[string]bool, named bool) []place {
	in, said := h.house.ledger.intent(n.path)
	if n.spec.Disabled && !named && !(said && !in.Stopped) && !lifted[n.path] {
		return nil
	}
	node, ok := h.options.Journal.Node(n.path)
	if !ok {
		return nil
	}
	switch node.State {
	case tree.StateStopped, tree.StateFailed, tree.StateBackoff:
		return []place{n}
	case tree.StateDone, tree.StateWaiting, tree.StateStopping, tree.StateStarting:
		if named || lifted[n.path] {
			return []place{n}
		}
	}
	var list []place
	for _, child := range h.childrenOf(n) {
		list = append(list, h.toStart(child, lifted, false)...)
	}
	return list
}

func (h *Host) childrenOf(n place) []place {
	var list []place
	for i := range n.spec.Children {
		child := &n.spec.Children[i]
		list = append(list, place{spec: child, name: child.Name, parent: n.path,
			path: tree.ChildPath(n.path, n.spec.Kind, child.Name)})
	}
	return list
}

// resting tells whether nothing of a node runs and nothing will.
func (h *Host) resting(path string) bool {
	node, ok := h.options.Journal.Node(path)
	return ok && (node.State == tree.StateStopped || node.State == tree.StateDone)
}

// tell posts a fact to the actor of the supervisor at path, if one runs.
func (h *Host) tell(path string, fact tree.Fact) bool {
	s := h.house.ledger.supervisor(path)
	if s == nil {
		return false
	}
	s.PostUserMessage(fact)
	return true
}

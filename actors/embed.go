package actors

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// Tree is a supervision tree to be mounted in an actor system of one's own. Spec is required; the others have useful zero
// values. A Tree is a value; it may be mounted any number of times.
type Tree struct {
	// Spec is a supervisor: see the function Supervisor, and its neighbours for children. Its name begins every path.
	Spec     tree.Spec
	Launcher Launcher     // of processes; runtime/launch has one. nil: there are none
	Log      hclog.Logger // nil: nothing is logged
	Slots    int          // spawns of processes at once; 0: 2
	Dice     tree.Dice    // of jitter; nil: none
	// Patient makes a stop wait its turn behind an ordered sequence of starts, as in OTP.
	Patient bool
}

// Mount starts the tree below whoever spawns: system.Root, or the Context of an actor, which must be the one that runs. It
// does not wait: see Mounted.Up. The error says what is wrong with the Spec, or is actor.ErrNameExists. The actor's name is
// the Spec's.
//
// Everything that happens is published on the ActorSystem's EventStream as a tree.Event, in order, on a goroutine that no
// supervisor waits for. Data of a tree.EventExited holds the Stack of a panic under "stack". Nobody may change an event's Data.
func (t Tree) Mount(under actor.SpawnerContext) (*Mounted, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	t.fill()
	m := t.mount(under.ActorSystem())
	pid, err := under.SpawnNamed(propsOf(m.shell), t.Spec.Name)
	if err != nil {
		return nil, err
	}
	m.pid = pid
	return m, nil
}

// Props mounts the tree where an actor's Props are wanted: whoever spawns them owns it. The owner gets as messages tree.Up
// once the tree is up, tree.Ignored or tree.Down when it has ended, with the spec's name as Child; then the actor is gone.
// The actor takes tree.Halt, and tree.StartChild, TerminateChild, RestartChild, DeleteChild, WhichChildren, CountChildren
// and ChangeSpec; who sends one of these as a request gets a tree.Reply. A Stop or PoisonPill from anywhere, the end of
// the owner included, is an ordered stop too. The props never restart by protoactor's supervision and may be spawned any
// number of times. The error says what is wrong with the Spec. Events are published as Mount says.
func (t Tree) Props() (*actor.Props, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	t.fill()
	unused := func() actor.Actor { return nil } // every spawn has a shell of its own, which is mailbox and actor
	return actor.PropsFromProducer(unused, actor.WithSpawnFunc(
		func(system *actor.ActorSystem, id string, _ *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
			m := t.mount(system)
			heard, owner := m.shell.tell, parent.Self()
			m.shell.tell = func(f tree.Fact) {
				heard(f)
				if owner != nil {
					system.Root.Send(owner, f)
				}
			}
			return actor.DefaultSpawner(system, id, propsOf(m.shell), parent)
		})), nil
}

func (t *Tree) check() error {
	if !t.Spec.IsSupervisor() {
		return errors.New(t.Spec.Name + ": the root of a tree is a supervisor")
	}
	return check(t.Spec.Name, &t.Spec, t.Launcher != nil)
}

func (t *Tree) fill() {
	if t.Log == nil {
		t.Log = hclog.NewNullLogger()
	}
	if t.Slots <= 0 {
		t.Slots = 2
	}
}

// mount makes one tree. It boots when its actor has started.
func (t Tree) mount(system *actor.ActorSystem) *Mounted {
	c := newChronicle(t.Spec, system.EventStream, t.Log)
	h := &house{system: system, journal: c, launcher: t.Launcher, spawns: newSpawner(t.Slots), dice: lockDice(t.Dice),
		log: t.Log, ledger: newLedger(), patient: t.Patient}
	m := &Mounted{house: h, chronicle: c, name: t.Spec.Name, up: make(chan struct{}), done: make(chan struct{})}
	spec := t.Spec
	m.shell = newSupervisor(h, tree.Ref{Path: spec.Name, Inc: 1}, &spec, spec.Name, m.heard)
	begin := m.shell.onStart
	m.shell.onStart = func() {
		begin()
		m.shell.PostUserMessage(tree.Boot{Seq: c.Append(tree.Event{Path: spec.Name, Incarnation: 1,
			Kind: tree.EventStarting, Reason: "start"})})
	}
	m.shell.onStop = m.ended
	return m
}

// withCall returns an administrative fact with another number, and the number that it had. ok is false for other facts.
func withCall(fact tree.Fact, call uint64) (changed tree.Fact, was uint64, ok bool) {
	switch f := fact.(type) {
	case tree.StartChild:
		was, f.Call = f.Call, call
		return f, was, true
	case tree.TerminateChild:
		was, f.Call = f.Call, call
		return f, was, true
	case tree.RestartChild:
		was, f.Call = f.Call, call
		return f, was, true
	case tree.DeleteChild:
		was, f.Call = f.Call, call
		return f, was, true
	case tree.WhichChildren:
		was, f.Call = f.Call, call
		return f, was, true
	case tree.CountChildren:
		was, f.Call = f.Call, call
		return f, was, true
	case tree.ChangeSpec:
		was, f.Call = f.Call, call
		return f, was, true
	}
	return nil, 0, false
}

// asked turns an administrative fact that came as a request into one whose Reply goes to the sender.
func asked(fact tree.Fact, sender *actor.PID, system *actor.ActorSystem) (r request, ok bool) {
	_, was, ok := withCall(fact, 0)
	if !ok || sender == nil {
		return request{}, false
	}
	return request{
		fact: func(call uint64) tree.Fact {
			changed, _, _ := withCall(fact, call)
			return changed
		},
		answer: func(reply tree.Reply) {
			reply.Call = was
			system.Root.Send(sender, reply)
		},
	}, true
}

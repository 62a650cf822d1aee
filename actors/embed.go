package actors

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// Tree is a supervision tree to be mounted under an actor of one's own. Spec is required; the others have useful zero
// values.
type Tree struct {
	// Spec is a supervisor. Its leaves have a Func, Service or Actor as Body, or a Run, which needs a Launcher.
	Spec     tree.Spec
	Launcher Launcher
	Journal  Journal // nil: nothing is recorded
	Log      hclog.Logger
	Slots    int       // spawns of processes at once; 0: 2
	Dice     tree.Dice // of jitter; nil: none
	// Patient makes a stop wait its turn behind an ordered sequence of starts, as in OTP.
	Patient bool
}

// Props mounts the tree: whoever spawns the props is its owner. The owner gets as messages tree.Up once the tree is up,
// tree.Ignored or tree.Down when it has ended, with the spec's name as Child; then the actor is gone. The actor takes
// tree.Halt, and tree.StartChild, TerminateChild, RestartChild, DeleteChild, WhichChildren, CountChildren and ChangeSpec; who
// sends one of these as a request gets a tree.Reply. A Stop or PoisonPill from anywhere, the end of the owner included, is an
// ordered stop too. The props never restart by protoactor's supervision and may be spawned any number of times.
func (t Tree) Props() *actor.Props {
	t.fill()
	unused := func() actor.Actor { return nil } // every spawn has a shell of its own, which is mailbox and actor
	return actor.PropsFromProducer(unused, actor.WithSpawnFunc(
		func(system *actor.ActorSystem, id string, _ *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
			return actor.DefaultSpawner(system, id, propsOf(t.mount()), parent)
		}))
}

func (t *Tree) fill() {
	if t.Journal == nil {
		t.Journal = noJournal{}
	}
	if t.Log == nil {
		t.Log = hclog.NewNullLogger()
	}
	if t.Slots <= 0 {
		t.Slots = 2
	}
}

// mount makes one tree. It boots when its actor has started.
func (t Tree) mount() *shell {
	h := &house{journal: t.Journal, launcher: t.Launcher, spawns: newSpawner(t.Slots), dice: lockDice(t.Dice), log: t.Log,
		ledger: newLedger(), patient: t.Patient}
	spec := t.Spec
	s := newSupervisor(h, tree.Ref{Path: spec.Name, Inc: 1}, &spec, spec.Name, nil)
	begin := s.onStart
	s.onStart = func() {
		owner, system := s.ctx.Parent(), s.ctx.ActorSystem()
		s.tell = func(f tree.Fact) {
			if owner != nil {
				system.Root.Send(owner, f)
			}
		}
		begin()
		s.PostUserMessage(tree.Boot{Seq: h.journal.Append(tree.Event{Path: spec.Name, Incarnation: 1,
			Kind: tree.EventStarting, Reason: "start"})})
	}
	return s
}

// noJournal records nothing.
type noJournal struct{}

func (noJournal) Append(tree.Event) tree.Seq            { return 0 }
func (noJournal) Observe(string, int, tree.Observation) {}
func (noJournal) Add(string, tree.Spec)                 {}
func (noJournal) Forget(string)                         {}
func (noJournal) Node(string) (node tree.Node, ok bool) { return node, false }
func (noJournal) Nodes() []tree.Node                    { return nil }
func (noJournal) Next(ctx context.Context, _ tree.Seq) ([]tree.Event, error) {
	<-ctx.Done()
	return nil, ctx.Err()
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

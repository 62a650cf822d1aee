package actors

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// ErrIntensity is what Run returns after the host's own supervisor exceeded its intensity and everything was stopped.
var ErrIntensity = errors.New("the host's intensity was exceeded")

// PartsPath is the node above the daemon's own parts.
const PartsPath = "_host"

const (
	hostName     = "host" // under which the top knows the supervisor of the tenants
	topActorPath = "_top" // of the top itself, which is no node
)

// Options are what a Host is made of. Spec, Journal and Log are required, and Launcher if any worker has a process.
type Options struct {
	Spec     tree.Spec   // of the host
	Parts    []tree.Spec // the daemon's own long-running functions, as KindPart
	Launcher Launcher
	Journal  Journal // made over Root(Spec, Parts)
	Log      hclog.Logger
	Slots    int       // spawns at once; 0: 2
	Dice     tree.Dice // of jitter; nil: none
	// DrainTimeout is how long a stop of everything may take; what is left then is killed. 0: no bound.
	DrainTimeout time.Duration
	Intents      []Intent // what operators said in an earlier life of the daemon
}

// Root is the specification of all nodes of a Host, for the journal's status: the host with its parts beside the tenants.
func Root(host tree.Spec, parts []tree.Spec) tree.Spec {
	if len(parts) > 0 {
		host.Children = append([]tree.Spec{partsSpec(parts)}, host.Children...)
	}
	return host
}

func partsSpec(parts []tree.Spec) tree.Spec {
	restart := tree.DefaultRestart()
	restart.Limit = 0
	return tree.Spec{Name: PartsPath, Kind: tree.KindPart, Children: parts, Restart: restart,
		// Tenants start once a part is up: one that cannot come up, such as a gateway whose port is taken, must not keep them down.
		Supervise: &tree.Supervise{Strategy: tree.OneForOne, Quorum: 1}}
}

// topSpec is the root of the actors: parts first, then the tenants, and back in the other order. When the tenants'
// supervisor gives up, so does the top; when it breaks, it is started again.
func (o *Options) topSpec() tree.Spec {
	host := o.Spec
	host.Name = hostName
	host.Restart = tree.DefaultRestart()
	host.Restart.Policy, host.Restart.Limit, host.Significant = tree.Transient, 0, true
	children := []tree.Spec{host}
	if len(o.Parts) > 0 {
		children = []tree.Spec{partsSpec(o.Parts), host}
	}
	return tree.Spec{Name: "coppice", Kind: tree.KindGroup, Children: children,
		Supervise: &tree.Supervise{Start: tree.Ordered, AutoShutdown: tree.AutoAny}}
}

// topPath is the path of a child of the top.
func topPath(child string) string {
	if child == hostName {
		return ""
	}
	return child
}

// Host runs a whole tree: the tenants of one machine and the daemon's own parts.
type Host struct {
	options Options
	root    tree.Spec
	house   *house
	top     *shell
	down    chan tree.Down
	stopped chan struct{} // the top's actor is gone
	stops   chan stopCall
	leaving atomic.Bool
}

type stopCall struct {
	kill  bool
	cause tree.Seq
}

// NewHost returns a host that runs nothing yet.
func NewHost(o Options) *Host {
	if o.Slots <= 0 {
		o.Slots = 2
	}
	h := &Host{options: o, root: Root(o.Spec, o.Parts), down: make(chan tree.Down, 1), stopped: make(chan struct{}),
		stops: make(chan stopCall, 16)}
	h.house = &house{journal: o.Journal, launcher: o.Launcher, spawns: newSpawner(o.Slots), dice: lockDice(o.Dice),
		log: o.Log, ledger: newLedger()}
	for _, i := range o.Intents {
		h.house.ledger.set(i)
	}
	return h
}

// Run starts the tree and returns when all of it is down: nil after Stop, ErrIntensity if the host gave up. born is the
// number of the daemon_started event, the cause of all that starts. It is called once.
func (h *Host) Run(born tree.Seq) error {
	if err := h.spawn(); err != nil {
		return err
	}
	h.top.PostUserMessage(tree.Boot{Seq: born})
	down := h.wait()
	h.cleanUp()
	if h.house.gaveUp.Load() {
		return ErrIntensity
	}
	if down.Reason.Abnormal() {
		return errors.New("the tree broke: " + down.Reason.Text)
	}
	return nil
}

func (h *Host) spawn() error {
	h.house.system = NewSystem(h.options.Log)
	spec := h.options.topSpec()
	tell := func(f tree.Fact) {
		if d, ok := f.(tree.Down); ok {
			h.down <- d
		}
	}
	h.top = newSupervisor(h.house, tree.Ref{Path: topActorPath, Inc: 1}, &spec, spec.Name, tell)
	h.top.body.(*supervisor).top = true
	h.top.onStop = func() { close(h.stopped) }
	_, err := h.house.system.Root.SpawnNamed(propsOf(h.top), spec.Name)
	return err
}

// propsOf is for a shell that is spawned on its own.
func propsOf(s *shell) *actor.Props {
	return actor.PropsFromProducer(func() actor.Actor { return s }, actor.WithMailbox(s.newMailbox),
		actor.WithDispatcher(dispatcher{}))
}

// wait passes stops on until the top is down.
func (h *Host) wait() tree.Down {
	var drain <-chan time.Time
	var first *stopCall
	for {
		select {
		case down := <-h.down:
			return down
		case call := <-h.stops:
			if first == nil {
				first = &call
				if h.options.DrainTimeout > 0 {
					timer := time.NewTimer(h.options.DrainTimeout)
					defer timer.Stop()
					drain = timer.C
				}
			}
			h.halt(call)
		case <-drain:
			h.halt(stopCall{kill: true, cause: first.cause})
		}
	}
}

func (h *Host) halt(call stopCall) {
	h.top.PostUserMessage(tree.Halt{Reason: tree.Reason{Class: tree.Shutdown, Text: "shutdown"}, Kill: call.kill, Seq: call.cause})
}

// Stop asks for the end of everything: tenants first, then parts, in order. With kill nothing is waited for; that may come
// after a Stop without. cause is the number of the daemon_stopping event. Stop returns at once, Run when it is done.
func (h *Host) Stop(kill bool, cause tree.Seq) {
	h.leaving.Store(true)
	h.house.spawns.close() // a process that is spawned from here on would only be killed again
	select {
	case h.stops <- stopCall{kill: kill, cause: cause}:
	default: // sixteen of them wait already
	}
}

// Stopping tells whether Stop was called.
func (h *Host) Stopping() bool { return h.leaving.Load() }

// cleanPatience is how long Run waits for what works outside of mailboxes.
const cleanPatience = 5 * time.Second

// cleanUp waits for the last mailboxes, for instances that are being closed and for spawns that were cancelled.
func (h *Host) cleanUp() {
	done := make(chan struct{})
	go func() {
		<-h.stopped
		h.house.spawns.wait()
		h.house.loose.Wait()
		close(done)
	}()
	patience := time.NewTimer(cleanPatience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		h.options.Log.Warn("left behind what does not end", "after", cleanPatience)
	}
}

// Abandoned is how many children did not end in time and could not be killed, because they are code of this program.
func (h *Host) Abandoned() int { return int(h.house.abandoned.Load()) }

// Spawning is how many spawns wait for a slot.
func (h *Host) Spawning() int { return h.house.spawns.waiting() }

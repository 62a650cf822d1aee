package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/coppice-run/coppice/tree"
)

// Mounted is a tree that was mounted. Its methods may be called from any goroutine. Those with a ctx block until they are
// answered, and must not be called by a child that the answer waits for; in an actor's Receive, prefer requests to PID.
// Paths are those of events and status: names from the root's on, "mine/inner/cache".
type Mounted struct {
	house     *house
	shell     *shell
	pid       *actor.PID
	chronicle *chronicle
	name      string
	up        chan struct{}
	done      chan struct{}
	down      tree.Down // set before done is closed
}

// Refused is the word of OTP for why a supervisor did not do what it was asked: already_started, already_present, running,
// restarting, not_found, simple_one_for_one, start_failed, bad_combination, or noproc if there is no such supervisor. Find
// it by errors.Is(err, Refused("not_found")).
type Refused string

// Error is the word.
func (r Refused) Error() string { return string(r) }

// heard takes what the root tells. It runs in the root's mailbox.
func (m *Mounted) heard(f tree.Fact) {
	switch f := f.(type) {
	case tree.Down:
		m.down = f
	case tree.Ignored:
		m.down = tree.Down{Reason: tree.Reason{Class: tree.Normal, Text: "nothing to run"}}
	case tree.Up:
		select {
		case <-m.up:
		default:
			close(m.up)
		}
	}
}

// ended runs when the root's actor has ended.
func (m *Mounted) ended() {
	m.house.spawns.close()
	go func() {
		m.house.spawns.wait()
		m.house.loose.Wait()
		m.house.directory.close(m.house.system)
		m.chronicle.whenIdle(func() { close(m.done) })
	}()
}

// PID is the tree's own actor; it stays the same for the life of the tree. See Tree.Props for what it takes.
func (m *Mounted) PID() *actor.PID { return m.pid }

// Address is a PID that stays valid over restarts of the child at path, an Actor or a supervisor. What is sent to it goes to
// the incarnation that is there, and is a dead letter if none is: a request then fails at once, and nothing is kept for the
// next. The child need not exist yet. A Stop of it ends the incarnation; who watches it hears Terminated when the tree has
// ended. It does not block.
func (m *Mounted) Address(path string) *actor.PID {
	if path == m.name {
		return m.pid
	}
	return m.house.directory.address(m.house, path, m.pid.Id+strings.TrimPrefix(path, m.name))
}

// Up waits until the tree is up for the first time. The error is ctx's, or says why the tree has ended instead.
func (m *Mounted) Up(ctx context.Context) error {
	select {
	case <-m.up:
		return nil
	default:
	}
	select {
	case <-m.up:
		return nil
	case <-m.done:
		return fmt.Errorf("%s did not come up: %s", m.name, m.down.Reason.Text)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop takes the tree down in order, the last child first, each with its own Shutdown, and returns when nothing of it runs and
// all its events are published. When ctx ends first, what is left is killed, or abandoned if it is a function, and the
// error is ctx's. A tree that has ended is no error. A child must not call it; an actor above may stop PID instead.
func (m *Mounted) Stop(ctx context.Context) error {
	reason := tree.Reason{Class: tree.Shutdown, Text: "shutdown"}
	m.shell.halt(tree.Halt{Reason: reason, Wait: m.house.patient})
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
	}
	m.shell.halt(tree.Halt{Reason: reason, Kill: true})
	<-m.done
	return context.Cause(ctx)
}

// Done is closed when the tree has ended, for whatever reason, and all its events are published.
func (m *Mounted) Done() <-chan struct{} { return m.done }

// Err is nil while the tree runs and after an end that was normal or asked for; else an Ended whose text goes down to what
// was one too many: "intensity exceeded by inner: intensity exceeded by cache: panic: no memory".
func (m *Mounted) Err() error {
	select {
	case <-m.done:
	default:
		return nil
	}
	r := m.down.Reason
	if why := m.chronicle.why(m.name); strings.HasPrefix(why, r.Text) && r.Text != "" {
		r.Text = why
	} else if !r.Abnormal() {
		return nil
	}
	return Ended{Reason: r}
}

// Abandoned is how many functions did not return in time after they were asked to stop, and were given up.
func (m *Mounted) Abandoned() int { return int(m.house.abandoned.Load()) }

// StartChild adds a child to the supervisor at the path under, last in its order, and starts it; it returns when the child is up or has
// had nothing to run. Below SimpleOneForOne the spec needs only a Name.
func (m *Mounted) StartChild(ctx context.Context, under string, spec tree.Spec) error {
	s := m.house.ledger.supervisor(under)
	if s == nil {
		return fmt.Errorf("%s: %w", under, Refused(errNoProc))
	}
	if s.body.(*supervisor).spec.Supervise.StrategyOr() != tree.SimpleOneForOne {
		if err := check(under+"/"+spec.Name, &spec, m.house.launcher != nil); err != nil {
			return err
		}
	}
	_, err := m.ask(ctx, under, under+"/"+spec.Name, tree.StartChild{Spec: spec})
	return err
}

// TerminateChild stops the child at path and returns when it has ended. Its supervisor remembers it, unless it is temporary.
func (m *Mounted) TerminateChild(ctx context.Context, path string) error {
	return m.about(ctx, path, func(child string) tree.Fact { return tree.TerminateChild{Child: child} })
}

// RestartChild starts a child that was terminated, or has ended for good; it returns as StartChild does.
func (m *Mounted) RestartChild(ctx context.Context, path string) error {
	return m.about(ctx, path, func(child string) tree.Fact { return tree.RestartChild{Child: child} })
}

// DeleteChild makes the supervisor forget a child that does not run.
func (m *Mounted) DeleteChild(ctx context.Context, path string) error {
	return m.about(ctx, path, func(child string) tree.Fact { return tree.DeleteChild{Child: child} })
}

// WhichChildren lists the children of the supervisor at path, the newest first, as OTP does.
func (m *Mounted) WhichChildren(ctx context.Context, path string) ([]tree.ChildStatus, error) {
	reply, err := m.ask(ctx, path, path, tree.WhichChildren{})
	return reply.Children, err
}

// CountChildren counts the children of the supervisor at path.
func (m *Mounted) CountChildren(ctx context.Context, path string) (tree.Counts, error) {
	reply, err := m.ask(ctx, path, path, tree.CountChildren{})
	return reply.Counts, err
}

// Status is every node of the tree as it is now, the root first, parents before their children. It asks no actor and does not
// wait for any.
func (m *Mounted) Status() []tree.Node { return m.chronicle.Nodes() }

// Node is one of them.
func (m *Mounted) Node(path string) (node tree.Node, ok bool) { return m.chronicle.Node(path) }

func (m *Mounted) about(ctx context.Context, path string, fact func(child string) tree.Fact) error {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return fmt.Errorf("%s: it is no child", path)
	}
	_, err := m.ask(ctx, path[:i], path, fact(path[i+1:]))
	return err
}

// errUnanswered is wrapped by ctx's error.
var errUnanswered = errors.New("not answered in time")

func (m *Mounted) ask(ctx context.Context, supervisor, about string, fact tree.Fact) (tree.Reply, error) {
	reply := tree.Reply{Error: errNoProc}
	if s := m.house.ledger.supervisor(supervisor); s != nil {
		answered := make(chan tree.Reply, 1)
		s.PostUserMessage(request{
			fact: func(call uint64) tree.Fact {
				changed, _, _ := withCall(fact, call)
				return changed
			},
			answer: func(r tree.Reply) { answered <- r },
		})
		select {
		case reply = <-answered:
		case <-ctx.Done():
			return tree.Reply{}, fmt.Errorf("%s: %w: %w", about, errUnanswered, context.Cause(ctx))
		}
	}
	if reply.Error != "" {
		return tree.Reply{}, fmt.Errorf("%s: %w", about, Refused(reply.Error))
	}
	return reply, nil
}

package actors

import (
	"context"

	"github.com/coppice-run/coppice/tree"
)

// Launcher makes the operating-system processes of workers. The program hands one in; tests hand in a fake.
type Launcher interface {
	// Launch starts one incarnation and returns once its program is executed; the error says which step failed. It may
	// block: it runs in a slot of the spawn queue, never in a mailbox. Cancelling ctx asks it to give up; what it has
	// started by then it still returns.
	//
	// tell carries what happens to the process (Checked, HealthResult, Beat, Stale, Exited, Gone). It may be called from any
	// goroutine, during Launch too, until Close has returned; it never blocks. Every launched process ends in one Exited
	// and, after it, one Gone.
	Launch(ctx context.Context, ref tree.Ref, spec *tree.Spec, tell func(tree.Fact)) (Instance, error)
}

// Instance is one launched process and all that belongs to it. It is an alias so that a package which does not import this
// one can have a Launcher.
type Instance = interface {
	PID() int
	Socket() string // "" without one
	Port() int      // 0 without one
	// Do carries out one order of the worker machine: Probe, Monitor, Unprobe, StopFile, Signal or Kill. It never blocks;
	// results come as facts.
	Do(order tree.Order)
	// Close releases folders, pipes and cgroup. It is called once, after Gone, may block a little, and is never called in a
	// mailbox.
	Close()
}

// Journal takes what happened. Append and Observe are called in mailboxes and must not wait for anything.
type Journal interface {
	// Append records one event and returns its number. Seq and Time are the journal's to fill in.
	Append(event tree.Event) tree.Seq
	// Observe notes what is true of one incarnation of a node now and is not history.
	Observe(path string, inc int, seen tree.Observation)
	// Add makes a child known that an embedder added to the node at parent, and Forget removes one that is known no longer.
	Add(parent string, child tree.Spec)
	Forget(path string)
	// Node is the node as an observer sees it, Nodes are all of them.
	Node(path string) (tree.Node, bool)
	Nodes() []tree.Node
	// Next waits for events after the given number and returns them, oldest first. It returns early with ctx's error.
	// Events that are no longer kept are left out.
	Next(ctx context.Context, after tree.Seq) ([]tree.Event, error)
}

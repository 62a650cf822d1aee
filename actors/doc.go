// Package actors carries facts and orders between the pure machines of package tree and the world. It gives each node of the
// tree a mailbox and a place to live, and decides nothing: what restarts, in which order, when and why is the machines'.
//
// The facts of tree are the messages of the actors. A supervisor (supervisor.go, orders.go) is the actor around a
// tree.Supervisor, one and the same for host, tenant, app, pool and an embedder's group. A worker (worker.go) is the actor
// around a tree.Worker and owns one process, which hangs on a handle of its own (handle.go). A leaf (leaf.go, foreign.go) is
// the actor of a child that is code of this program: a function, or an embedder's actor.
//
// # The life of one exit, in five hops
//
//  1. The launcher (behind doors.go) learns that a process ended, and that nothing of it runs, and tells the handle Exited
//     and Gone: handle.go, tell.
//  2. The worker's actor steps its machine, writes the exited event, and tells its parent Down, with the event's number:
//     worker.go, receive and quit.
//  3. The supervisor's actor steps its machine: supervisor.go, receive; orders.go, step.
//  4. It carries out the order Start: writes the starting event, whose cause is the exit, and spawns the actor of the next
//     incarnation: orders.go, start; supervisor.go, adopt.
//  5. That one's machine orders Spawn; the launch waits its turn in the host-wide queue (queue.go), and the launcher spawns.
//
// With a backoff, hop 3 ends in a timer, and the Wake that it posts carries the number of the backoff event.
//
// # Identity
//
// Every incarnation has an actor of its own, named "child#incarnation" below its supervisor's, and a mailbox of its own.
// What arrives for one that is gone is dropped with its mailbox. Incarnations are counted across restarts of everything above
// (ledger.go).
//
// # Protoactor
//
// protoactor gives mailboxes, names and a tree of actors that end together. Its supervision is never reached: shell.go stands
// between it and every actor of ours, makes an ordered end of any Stop, and a reason of any panic.
package actors

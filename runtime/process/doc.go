// Package process starts, watches, signals and ends the operating-system processes of workers. It is the only room
// that forks.
//
// # How a start works
//
// The plain path is one clone and exec straight from the Go runtime: into a session of its own, with a pidfd taken at
// birth and, where there is a cgroup v2 leaf, born inside it. Go's child code has no place for rlimits, for a variable
// that holds the child's own pid, or for waiting until somebody has moved it into a cgroup: for these three, and only
// for them, the program executes itself once more as a shim (see [Shim]), which does the rest and then becomes the
// worker. Either way a failure names its step: see [StartError].
//
// # How an end is learnt
//
// The pidfd sits in Go's network poller, one parked goroutine and no thread per process. The end of the leader is
// known at once, whoever else holds its pipes. Afterwards the same goroutine waits, again without polling, for the
// rest: it parks on the pidfd of one survivor, looks again when that one has ended, and so on until nothing is left.
//
// # What belongs to a worker
//
// Everything in its cgroup, where there is one. Without one: its session and group; every descendant that parent links
// reach, whatever session it made for itself; and every orphan that came to the daemon, which is a child subreaper, and
// that carries the worker's session, group or marks (see [Command].Marks) in the environment it was executed with. What
// escapes without a cgroup is only a process that did all of this: left the session, lost its parents, and was executed
// with a cleared environment, before anybody looked. An orphan is never signalled by number alone: it is held by a
// pidfd, and looked at again through it.
//
// Linux 5.4 or later is needed (waiting on pidfds), with /proc/PID/task/TID/children, as every distribution builds it.
package process

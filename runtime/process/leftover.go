package process

// Trace is what is known of something that a dead daemon started: an incarnation, or a check's command.
type Trace struct {
	// PID and Started are the leader's pid and start time (clock ticks since boot), in this boot; 0: not known.
	PID     int
	Started uint64

	UID   uint32   // that it runs as
	Marks []string // entries of its environment
	Keyed bool     // nobody else's process has all these marks
	Pipes []uint64 // inodes of the pipes that it printed to

	Group  Group  // its cgroup; nil: none
	Signal string // that asks it to stop; "": KILL at once
}

// Remains is what was found of a trace and what became of it.
type Remains struct {
	Found  []int   // pids that were proven to be its, the leader first if it was alive
	Killed []int   // those of them that KILL was sent to
	Left   []int   // those that run still
	Doubts []Doubt // processes that may be its, and were left alone
}

// Doubt is a process that was left alone, and why.
type Doubt struct {
	PID int
	Why string
}

package tree

import "time"

// Order is what a machine wants done. Every order that changes a child carries a reason and the number of the fact that
// caused it.
type Order interface{ order() }

// Orders of every machine.
type (
	// WakeAfter asks for Wake{Token} after a delay on the monotonic clock. Child is the one it is for, "" for itself.
	WakeAfter struct {
		After time.Duration
		Token uint64
		Child string
		Cause Seq
	}
	// ReportUp tells the parent that this node is up; ReportUnready that it no longer is, though it has not ended.
	ReportUp      struct{ Cause Seq }
	ReportUnready struct {
		Reason string
		Cause  Seq
	}
	// ReportIgnored tells the parent that there is nothing to run; no other order follows.
	ReportIgnored struct{ Cause Seq }
	// Quit is the last order: nothing below runs any more, tell the parent Down with Reason.
	Quit struct {
		Reason Reason
		Cause  Seq
	}
)

// Orders of a supervisor about one child.
type (
	// Start begins incarnation Inc of a child. Restart marks an automatic one (it counts in status); Attempt is which
	// restart in a row it is, 0 for a first or asked-for start.
	Start struct {
		Child   string
		Inc     int
		Spec    *Spec
		Restart bool
		Attempt int
		Reason  string // why: "start", "exit 1", "sibling db", "started by NAME"
		Cause   Seq
	}
	// Stop asks the child to end; it answers Down in bounded time. Kill: at once, without asking first.
	Stop struct {
		Child  string
		Inc    int
		Kill   bool
		Reason string // "sibling db", "stopped by NAME", "shutdown", ...
		Cause  Seq
	}
	// Backoff says that the child will be restarted after Delay. Slow: it reached its limit (Limit ends within Within) and is
	// shown as failed meanwhile.
	Backoff struct {
		Child   string
		Inc     int // the incarnation that ended
		Delay   time.Duration
		Attempt int
		Slow    bool
		Reason  string
		Cause   Seq
	}
	// Rest says that the child is down and what it rests as: StateWaiting (until something else happens: "after db",
	// "sibling db"), StateStopped, StateDone (ended and its policy wants no more) or StateFailed (until an operator starts it).
	Rest struct {
		Child string
		Inc   int
		State State
		// Attempt is, for StateFailed, the number of the restart in a row that is not made.
		Attempt int
		Reason  string
		Cause   Seq
	}
	// Forget says that the supervisor no longer knows the child.
	Forget struct {
		Child string
		Cause Seq
	}
	// Escalate says that the supervisor gives up because of Child and begins to stop what it has.
	Escalate struct {
		Child  string
		Reason string // "intensity exceeded by CHILD"
		Cause  Seq
	}
	// Reply answers an administrative fact. Error is "" or one of OTP's: already_started, already_present, running,
	// restarting, not_found, simple_one_for_one, start_failed, bad_combination; or "held", when RestartChild meets a child
	// that an operator keeps down. Value is "undefined" after an ignored start, or
	// what WhichChildren and CountChildren ask for.
	Reply struct {
		Call     uint64
		Error    string
		Value    string
		Children []ChildStatus // of WhichChildren, newest first
		Counts   Counts
	}
)

// ChildStatus is one line of WhichChildren.
type ChildStatus struct {
	Child      string
	Inc        int  // 0 without one that runs
	Restarting bool // a retry is pending
	Supervisor bool
}

// Counts answers CountChildren.
type Counts struct{ Specs, Active, Supervisors, Workers int }

// Orders of a worker.
type (
	// Spawn executes the program. The answer is Spawned or SpawnFailed.
	Spawn struct{ Cause Seq }
	// Probe begins the readiness checks; the answer is Checked. Monitor begins the health check, heartbeat and watchdog
	// that the Run asks for. Both end with the incarnation; a new Probe never begins before the old one ended.
	Probe   struct{ Cause Seq }
	Monitor struct{ Cause Seq }
	// Unprobe ends the readiness and health checks: the worker is on its way out.
	Unprobe struct{ Cause Seq }
	// StopFile writes the stop file.
	StopFile struct {
		Reason string
		Cause  Seq
	}
	// Signal reaches the whole group and all that belongs to the worker. Kill is KILL to all of it until nothing is left.
	Signal struct {
		Name   string
		Reason string
		Cause  Seq
	}
	Kill struct {
		Reason string
		Cause  Seq
	}
	// Record writes a journal entry that only this machine can know: exited, killed, and stopping when the machine itself
	// ends the incarnation. Data is what the entry says beside Reason. Only the writer knows the number of the entry; Cause
	// 0 in a later order of the same worker, Quit's too, means that number.
	Record struct {
		Kind   EventKind
		Reason string
		Exit   *Exit
		Data   map[string]any
		Cause  Seq
	}
)

func (WakeAfter) order()     {}
func (ReportUp) order()      {}
func (ReportUnready) order() {}
func (ReportIgnored) order() {}
func (Quit) order()          {}
func (Start) order()         {}
func (Stop) order()          {}
func (Backoff) order()       {}
func (Rest) order()          {}
func (Forget) order()        {}
func (Escalate) order()      {}
func (Reply) order()         {}
func (Spawn) order()         {}
func (Probe) order()         {}
func (Monitor) order()       {}
func (Unprobe) order()       {}
func (StopFile) order()      {}
func (Signal) order()        {}
func (Kill) order()          {}
func (Record) order()        {}

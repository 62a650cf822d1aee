package tree

import "time"

// Seq is the number of a journal entry. A fact carries the number under which it was recorded, and an order the number
// of the fact that caused it, so that a chain of causes can be walked back. 0: none.
type Seq uint64

// Ref names one incarnation of one node. Whatever arrives for an older incarnation is dropped. Incarnations of a path
// count from 1 and are never used twice, not even when the supervisor above was itself restarted.
type Ref struct {
	Path string
	Inc  int
}

// Class folds the many ways to end into the three that a restart policy distinguishes, as OTP does.
type Class string

// The classes.
const (
	Normal   Class = "normal"   // it ended by itself, as it should
	Shutdown Class = "shutdown" // it was told to go
	Crash    Class = "crash"    // anything else
)

// Reason says why something ended: the class decides, the text is for people ("exit 1", "signal KILL", "watchdog").
type Reason struct {
	Class Class
	Text  string
}

// Abnormal tells whether a transient child is restarted after this end.
func (r Reason) Abnormal() bool { return r.Class != Normal && r.Class != Shutdown }

// Exit is how an operating-system process ended. Code is -1 after a signal; a code and a signal are never mixed.
type Exit struct {
	Code   int
	Signal string // without SIG: "KILL"; "" after an exit by itself
	Core   bool
	OOM    bool // the kernel killed it, or a member of its group, for want of memory
	Ran    time.Duration
}

// Fact is something that happened. Facts are what the actors send one another: there is no second vocabulary.
type Fact interface{ fact() }

// Facts for every machine.
type (
	// Boot asks a machine to begin. It is the first fact and comes once.
	Boot struct{ Seq Seq }
	// Halt asks it to take down what it has, in order, and to quit. It overtakes everything. Kill means at once: no
	// signal first, no waiting in line. A second Halt with Kill hastens a first one without. Reason becomes the machine's
	// own reason to quit; the zero Reason is class shutdown, text "shutdown". With Wait it takes its turn behind an ordered
	// sequence that runs and behind the facts that wait already, as in OTP's mailbox.
	Halt struct {
		Reason Reason
		Kill   bool
		Wait   bool
		Seq    Seq
	}
	// Wake is a wake-up that a machine asked for by WakeAfter. A token that is no longer awaited is ignored.
	Wake struct {
		Token uint64
		Seq   Seq
	}
)

// Facts for a supervisor about its children. Child is the child's name.
type (
	// Up: the child is ready (a supervisor: all its wanted children, or its quorum, are).
	Up struct {
		Child string
		Inc   int
		Seq   Seq
	}
	// Unready: a child that was up cannot serve for now but has not ended. It still counts as alive.
	Unready struct {
		Child  string
		Inc    int
		Reason string
		Seq    Seq
	}
	// Ignored: the child had nothing to run, which counts as a success (OTP's ignore).
	Ignored struct {
		Child string
		Inc   int
		Seq   Seq
	}
	// Down: nothing of the child runs any more. Before Up it is a start failure.
	Down struct {
		Child  string
		Inc    int
		Reason Reason
		Seq    Seq
	}
)

// Facts that an operator causes. They take effect at once, also while an ordered sequence runs, and outrank all automatic
// logic until they are taken back.
type (
	// Hold stops the child and keeps it stopped, whatever its siblings do.
	Hold struct {
		Child  string
		Reason string // "stopped by NAME"
		Seq    Seq
	}
	// Release ends a Hold (or a disabled child's rest, a backoff, a failed or done state): the child starts now, with
	// clean counts.
	Release struct {
		Child  string
		Reason string // "started by NAME"
		Seq    Seq
	}
	// Bounce restarts one child by request: stop, then start, with clean counts, and never counted. It ends a Hold too.
	Bounce struct {
		Child  string
		Reason string // "restarted by NAME"
		Seq    Seq
	}
	// Roll bounces all children, one after the other, each waiting until the one before is up again; it ends at the first
	// that fails to start.
	Roll struct {
		Reason string
		Seq    Seq
	}
)

// Facts of administration, with OTP's meaning and OTP's answers (see Reply). They wait their turn as in OTP's mailbox.
// Call is any number of the caller's choice; the Reply carries it back.
type (
	StartChild struct { // appended last; of a SimpleOneForOne supervisor Spec needs only a Name
		Spec Spec
		Call uint64
		Seq  Seq
	}
	TerminateChild struct {
		Child string
		Call  uint64
		Seq   Seq
	}
	RestartChild struct {
		Child string
		Call  uint64
		Seq   Seq
	}
	DeleteChild struct {
		Child string
		Call  uint64
		Seq   Seq
	}
	WhichChildren struct{ Call uint64 }
	CountChildren struct{ Call uint64 }
	// ChangeSpec takes on the flags and child list of Spec without touching a process (OTP's code_change).
	ChangeSpec struct {
		Spec Spec
		Call uint64
		Seq  Seq
	}
)

// Facts for a worker about its process.
type (
	// Spawned: the program is executed.
	Spawned struct {
		PID int
		Seq Seq
	}
	// SpawnFailed: there is no process. Text names the step: "cannot start: working directory /x: no such file or directory".
	SpawnFailed struct {
		Text string
		Seq  Seq
	}
	// Checked: every readiness check that Probe started holds now (OK), or the worker said itself by other means that it
	// is ready. With OK false: Detail is the newest trouble, kept for the reason of a timeout.
	Checked struct {
		OK     bool
		Detail string
		Seq    Seq
	}
	// Health: one result of the health check.
	HealthResult struct {
		OK     bool
		Detail string
		Seq    Seq
	}
	// Beat: WATCHDOG=1 came.
	Beat struct{}
	// Stale: the heartbeat file has not moved for Heartbeat.Stale.
	Stale struct{ Seq Seq }
	// Exited: the process that was spawned has ended. Others of its group may still run.
	Exited struct {
		Exit Exit
		Seq  Seq
	}
	// Gone: nothing of the worker runs any more. Killed counts those that KILL had to reach; Left names what escaped.
	Gone struct {
		Killed int
		Left   []int
		Seq    Seq
	}
)

func (Boot) fact()           {}
func (Halt) fact()           {}
func (Wake) fact()           {}
func (Up) fact()             {}
func (Unready) fact()        {}
func (Ignored) fact()        {}
func (Down) fact()           {}
func (Hold) fact()           {}
func (Release) fact()        {}
func (Bounce) fact()         {}
func (Roll) fact()           {}
func (StartChild) fact()     {}
func (TerminateChild) fact() {}
func (RestartChild) fact()   {}
func (DeleteChild) fact()    {}
func (WhichChildren) fact()  {}
func (CountChildren) fact()  {}
func (ChangeSpec) fact()     {}
func (Spawned) fact()        {}
func (SpawnFailed) fact()    {}
func (Checked) fact()        {}
func (HealthResult) fact()   {}
func (Beat) fact()           {}
func (Stale) fact()          {}
func (Exited) fact()         {}
func (Gone) fact()           {}

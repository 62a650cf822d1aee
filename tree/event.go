package tree

import "time"

// EventKind names what a journal entry tells.
type EventKind string

// The kinds of journal entries.
const (
	EventStarting       EventKind = "starting"
	EventReady          EventKind = "ready"
	EventUnready        EventKind = "unready"
	EventExited         EventKind = "exited"
	EventBackoff        EventKind = "backoff"
	EventFailed         EventKind = "failed"
	EventEscalated      EventKind = "escalated"
	EventStopping       EventKind = "stopping"
	EventStopped        EventKind = "stopped"
	EventKilled         EventKind = "killed"
	EventDone           EventKind = "done"
	EventAdopted        EventKind = "adopted"
	EventLimitDropped   EventKind = "limit_dropped"
	EventApplied        EventKind = "applied"
	EventRejected       EventKind = "rejected"
	EventScaled         EventKind = "scaled"
	EventRunStarted     EventKind = "run_started"
	EventRunEnded       EventKind = "run_ended"
	EventRunSkipped     EventKind = "run_skipped"
	EventIntent         EventKind = "intent"
	EventDaemonStarted  EventKind = "daemon_started"
	EventDaemonStopping EventKind = "daemon_stopping"
	EventUpgraded       EventKind = "upgraded"
)

// Event is one entry of the journal: the one source of status, history, causes and metrics. The JSON form is the
// contract's.
type Event struct {
	Seq         Seq            `json:"seq"`
	Time        time.Time      `json:"time"`
	Path        string         `json:"path"`
	Incarnation int            `json:"incarnation"`
	Kind        EventKind      `json:"kind"`
	Cause       Seq            `json:"cause"`
	Reason      string         `json:"reason"`
	Data        map[string]any `json:"data"` // the journal makes it never nil
}

// State is what a node is doing, in the words that users see everywhere.
type State string

// The states.
const (
	StateWaiting  State = "waiting"
	StateStarting State = "starting"
	StateRunning  State = "running"
	StateStopping State = "stopping"
	StateBackoff  State = "backoff"
	StateFailed   State = "failed"
	StateStopped  State = "stopped"
	StateDone     State = "done"
)

// Node is one node as an observer sees it. The JSON form is the contract's for `status --json`.
type Node struct {
	Path     string    `json:"path"`
	Kind     Kind      `json:"kind"`
	Strategy Strategy  `json:"strategy,omitempty"` // of a supervisor
	State    State     `json:"state"`
	Degraded bool      `json:"degraded,omitempty"` // some of its children are not as wanted
	Since    time.Time `json:"since"`
	Restarts int       `json:"restarts"` // its own automatic restarts since the daemon first started it
	Reason   string    `json:"reason"`
	// NextAt is when something will happen by itself.
	NextAt *time.Time `json:"next_at"`
	Intent string     `json:"intent"`
	// Leaf is nil for a supervisor; its fields stand beside the others.
	*Leaf
}

// Leaf is what a worker, schedule or part shows beside what every node shows.
type Leaf struct {
	Ready       bool      `json:"ready"`
	PID         int       `json:"pid"` // 0 without a process
	Incarnation int       `json:"incarnation"`
	Socket      string    `json:"socket"`
	Port        int       `json:"port"`
	LastExit    *LastExit `json:"last_exit"`
	Status      string    `json:"status,omitempty"`  // the worker's own words (STATUS=), unescaped
	Health      *Pulse    `json:"health,omitempty"`  // of the newest health check
	Dropped     int64     `json:"dropped,omitempty"` // log lines over the rate
}

// LastExit is how the last incarnation that ended did so. Code is -1 after a signal.
type LastExit struct {
	Code   int       `json:"code"`
	Signal string    `json:"signal"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// Pulse is the newest result of a health check.
type Pulse struct {
	OK       bool      `json:"ok"`
	Detail   string    `json:"detail,omitempty"`
	At       time.Time `json:"at"`
	Failures int       `json:"failures"` // in a row
}

package tree

import (
	"strings"
	"time"
)

// Kind says what a node of the tree is. The words are the ones that users see.
type Kind string

// The kinds of node. A host, tenant, app and pool is a supervisor; a worker, schedule and part is a leaf. Group is
// a supervisor of an embedder's own tree, which has none of the daemon's nouns.
const (
	KindHost     Kind = "host"
	KindTenant   Kind = "tenant"
	KindApp      Kind = "app"
	KindPool     Kind = "pool"
	KindWorker   Kind = "worker"
	KindSchedule Kind = "schedule"
	KindPart     Kind = "part"
	KindGroup    Kind = "supervisor"
)

// Spec declares one node: what it is, how its parent brings it back, and, for a supervisor, what is below it. A Spec
// is a value that nothing changes once a machine has it.
type Spec struct {
	Name     string
	Kind     Kind
	Disabled bool     // starts only when an operator says so (reason "not enabled")
	After    []string // siblings that must be up before this one starts

	Restart Restart // how the parent treats its ends
	// Significant makes an end that is not followed by a restart count for the parent's AutoShutdown, as in OTP.
	Significant bool
	// Shutdown is how long a leaf may take to stop before it is killed; 0 kills it at once, Forever waits. A supervisor
	// waits for its children whatever this says. For a process Run.Stop decides instead.
	Shutdown time.Duration

	Supervise *Supervise // non-nil makes this node a supervisor
	Children  []Spec     // in start order

	Run    *Run   // the operating-system process of a worker
	Limits Limits // of a tenant or app: shared by all below it, by cgroup
	Body   any    // what an embedder's leaf runs; only the one that starts it looks inside
}

// Forever is a Shutdown without a bound.
const Forever time.Duration = 1<<63 - 1

// IsSupervisor tells whether the node has children of its own to look after.
func (s *Spec) IsSupervisor() bool { return s.Supervise != nil }

// ChildPath is the path of the child called name of the node at parent. The host's own path is "". A pool's replicas
// carry the pool's name already ("web.0"), so they stand where the pool stands.
func ChildPath(parent string, kind Kind, name string) string {
	if kind == KindPool {
		if i := strings.LastIndexByte(parent, '/'); i >= 0 {
			return parent[:i+1] + name
		}
		return name
	}
	if parent == "" {
		return name
	}
	return parent + "/" + name
}

// Strategy says which siblings a failed child takes with it: OTP's three, with OTP's meaning.
type Strategy string

// The strategies.
const (
	OneForOne  Strategy = "one_for_one"
	OneForAll  Strategy = "one_for_all"
	RestForOne Strategy = "rest_for_one"
	// SimpleOneForOne is OTP's pool of like children made from one template (the only entry of Children); instances come
	// by StartChild, stop together, and cannot be deleted or restarted by hand. Configuration files do not offer it.
	SimpleOneForOne Strategy = "simple_one_for_one"
)

// StartMode says whether siblings wait for one another.
type StartMode string

// The start modes. The zero value is Together for one_for_one and Ordered for the others.
const (
	Ordered  StartMode = "ordered"
	Together StartMode = "together"
)

// FirstStart says what a start failure means while the supervisor itself is starting.
type FirstStart string

// The zero value treats it like a crash: restart policy, backoff and limit apply and the supervisor goes on. InitFails
// is OTP's rule: the started ones are stopped again in reverse and the supervisor's own start has failed.
const (
	InitRetries FirstStart = ""
	InitFails   FirstStart = "fail"
)

// AutoShutdown is OTP's: whether the end of significant children ends the supervisor.
type AutoShutdown string

// The zero value is OTP's never.
const (
	AutoNever AutoShutdown = ""
	AutoAny   AutoShutdown = "any_significant"
	AutoAll   AutoShutdown = "all_significant"
)

// Intensity bounds how often a supervisor restarts children: more than Restarts within Period and it gives up.
type Intensity struct {
	Restarts int
	Period   time.Duration
}

// Supervise is the policy of one supervisor.
type Supervise struct {
	Strategy     Strategy   // zero: one_for_one
	Intensity    *Intensity // nil: never gives up
	Start        StartMode  // zero: see StartMode
	First        FirstStart
	AutoShutdown AutoShutdown
	// Quorum is how many children must be up for the supervisor itself to count as up; 0 means all that are wanted. A pool
	// has 1.
	Quorum int
}

// StrategyOr returns the strategy with the default filled in.
func (s *Supervise) StrategyOr() Strategy {
	if s.Strategy == "" {
		return OneForOne
	}
	return s.Strategy
}

// StartOr returns the start mode with the default filled in.
func (s *Supervise) StartOr() StartMode {
	switch {
	case s.Start != "":
		return s.Start
	case s.StrategyOr() == OneForOne:
		return Together
	}
	return Ordered
}

// Policy says which ends of a child are followed by a restart.
type Policy string

// The policies, with OTP's meaning. The zero value is permanent.
const (
	Permanent Policy = "permanent"
	Transient Policy = "transient"
	Temporary Policy = "temporary"
)

// OnLimit says what becomes of a child that reached its limit.
type OnLimit string

// The zero value is OnLimitSlow.
const (
	OnLimitSlow     OnLimit = "slow"
	OnLimitStop     OnLimit = "stop"
	OnLimitEscalate OnLimit = "escalate"
)

// Restart is how a parent treats the ends of one child. The zero value is OTP's: permanent, at once, without a limit of
// its own. DefaultRestart is what a configuration file gets.
type Restart struct {
	Policy Policy
	// The n-th restart in a row waits Backoff·Factor^(n-1), at most Cap, then up to Jitter (a part of it, 0 to 1) more.
	Backoff, Cap time.Duration
	Factor       float64
	Jitter       float64
	ResetAfter   time.Duration // up for this long: n starts again from 1, and a slow child is well again
	// The Limit-th unasked end that needs a restart within Within marks the child failed; 0: never.
	Limit       int
	Within      time.Duration
	OnLimit     OnLimit
	NormalExits []int // exit statuses that count as a normal end; for a process
}

// DefaultRestart is the restart block that a configuration file starts from.
func DefaultRestart() Restart {
	return Restart{
		Policy: Permanent, Backoff: 500 * time.Millisecond, Cap: 30 * time.Second, Factor: 2, Jitter: 0.1,
		ResetAfter: time.Minute, Limit: 5, Within: time.Minute, OnLimit: OnLimitSlow, NormalExits: []int{0},
	}
}

// PolicyOr returns the policy with the default filled in.
func (r *Restart) PolicyOr() Policy {
	if r.Policy == "" {
		return Permanent
	}
	return r.Policy
}

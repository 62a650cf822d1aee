package tree

import "time"

// Run is the run specification of a worker: everything that makes its process what it is. Two equal Runs make
// processes that cannot be told apart but by their incarnation.
type Run struct {
	Tenant, App, Worker string // the names; Worker without the replica's number
	Index               int    // the replica's number, from 0
	Prefix              string // of the variables that Coppice sets ("COPPICE")

	Command     []string          // argv, no shell
	Env         map[string]string // of tenant, app and worker united, nearest first
	Directory   string            // absolute
	User, Group string            // "": the daemon's own

	Listen    Listen
	Ready     Ready
	Health    *Health
	Watchdog  time.Duration // 0: none
	Heartbeat *Heartbeat
	Stop      StopRule
	Logs      Logs
	Limits    Limits
}

// ListenMode says who opens the worker's socket, and of what family.
type ListenMode string

// The listen modes. The zero value is ListenNone.
const (
	ListenNone    ListenMode = "none"
	ListenUnix    ListenMode = "unix"
	ListenTCP     ListenMode = "tcp"
	ListenInherit ListenMode = "inherit"
)

// Listen is where a worker accepts connections. Address is only for ListenInherit: "127.0.0.1:8081", or "" for the
// worker's Unix socket.
type Listen struct {
	Mode    ListenMode
	Address string
}

// Ready lists the checks that must all hold before a worker counts as up. None: it is up once its program is executed.
type Ready struct {
	Socket  bool
	HTTP    string // path
	Notify  bool
	Command []string
	Log     string // regular expression, matched against one line of either stream
	Timeout time.Duration
}

// None tells whether there is nothing to wait for.
func (r *Ready) None() bool {
	return !r.Socket && r.HTTP == "" && !r.Notify && len(r.Command) == 0 && r.Log == ""
}

// Health is the check that goes on after a worker is up. One of HTTP, Command and Socket is set.
type Health struct {
	HTTP              string
	Command           []string
	Socket            bool
	Interval, Timeout time.Duration
	Failures          int
	Unroute           bool // at that many failures in a row: no traffic; else restart
}

// Heartbeat is a file whose modification time is the worker's pulse. File is "" for one in the incarnation's own folder.
type Heartbeat struct {
	File  string
	Stale time.Duration
}

// StopRule is how a worker is asked to leave.
type StopRule struct {
	Signal  string        // without SIG: "TERM"
	Timeout time.Duration // from the signal to KILL
	File    bool          // first write the stop file, and give the worker Grace to leave on its own
	Grace   time.Duration
	Drain   time.Duration // how long routed requests get to finish
}

// Logs is how the output of a worker is captured.
type Logs struct {
	Rate, Burst int    // lines per second and at once, per instance; excess is dropped and counted
	MaxLine     int64  // bytes; a longer line is cut and marked
	Keep        int64  // bytes of the ring in memory
	To          string // "stdout", "file", "both" or "none"
	MaxSize     int64  // bytes of one file
	MaxFiles    int
}

// Unlimited is the value of a limit that is lifted.
const Unlimited int64 = -1

// Limits bounds what a worker, app or tenant may use. Zero values and nil: no limit from here.
type Limits struct {
	// By cgroup.
	Memory int64   // bytes
	CPUs   float64 // cores
	Tasks  int64
	// Soft and hard rlimit, of workers only.
	OpenFiles int64
	FileSize  *int64 // bytes or Unlimited
	Core      *int64 // bytes or Unlimited
}

// Cgroup tells whether enforcing these limits needs a cgroup.
func (l *Limits) Cgroup() bool { return l.Memory != 0 || l.CPUs != 0 || l.Tasks != 0 }

// Rlimits tells whether enforcing these limits needs rlimits.
func (l *Limits) Rlimits() bool { return l.OpenFiles != 0 || l.FileSize != nil || l.Core != nil }

// DefaultRun holds the defaults of the contract for all that a worker block leaves out.
func DefaultRun() Run {
	return Run{
		Prefix: "COPPICE", Directory: "/",
		Listen: Listen{Mode: ListenNone},
		Ready:  Ready{Timeout: 30 * time.Second},
		Stop:   StopRule{Signal: "TERM", Timeout: 10 * time.Second, Grace: 30 * time.Second, Drain: 5 * time.Second},
		Logs: Logs{Rate: 100, Burst: 200, MaxLine: 8 << 10, Keep: 256 << 10, To: "stdout",
			MaxSize: 50 << 20, MaxFiles: 5},
	}
}

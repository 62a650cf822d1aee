package process

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// DefaultPath is the PATH of a worker whose configuration does not set one.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Surroundings are the values that only the one who starts an incarnation knows. An empty one is not passed on.
type Surroundings struct {
	Path        string // in the tree, with the replica's number
	Incarnation uint64

	Lang string // the daemon's own LANG; "": C.UTF-8
	Home string // the user's

	Socket        string // of listen "unix", and of "inherit" where it is a Unix socket
	Port          int    // of listen "tcp"
	StopFile      string
	HeartbeatFile string
	NotifySocket  string

	Scheduled *Scheduled // of a schedule's run; else nil
}

// Scheduled is what a schedule's run is told about itself.
type Scheduled struct {
	RunID string
	At    time.Time
	Limit int // 0: none
}

// Environ builds the whole environment of a worker, sorted by name, and the entries in it that no other worker has. It
// leaves LISTEN_FDS and its like to Start, which knows the pid. Run.Env wins over PATH, LANG and HOME, and over
// nothing else: a reserved name in it, which the configuration refuses, is ignored.
func Environ(run *tree.Run, s Surroundings) (env, marks []string) {
	vars := map[string]string{"PATH": DefaultPath, "LANG": s.Lang, "HOME": s.Home}
	if s.Lang == "" {
		vars["LANG"] = "C.UTF-8"
	}
	maps.Copy(vars, run.Env)
	for name := range vars {
		if Reserved(run.Prefix, name) {
			delete(vars, name)
		}
	}
	set := func(name, value string) {
		if value != "" {
			vars[run.Prefix+name] = value
		}
	}
	vars[run.Prefix+"_INDEX"] = strconv.Itoa(run.Index)
	vars[run.Prefix+"_INCARNATION"] = strconv.FormatUint(s.Incarnation, 10)
	set("_TENANT", run.Tenant)
	set("_APP", run.App)
	set("_WORKER", run.Worker)
	set("_PATH", s.Path)
	if run.Listen.Mode == tree.ListenUnix || run.Listen.Mode == tree.ListenInherit {
		set("_SOCKET", s.Socket)
	}
	if run.Stop.File {
		set("_STOP_FILE", s.StopFile)
	}
	if run.Heartbeat != nil {
		set("_HEARTBEAT_FILE", s.HeartbeatFile)
	}
	switch {
	case run.Listen.Mode == tree.ListenUnix && s.Socket != "":
		vars["PORT"] = s.Socket
	case run.Listen.Mode == tree.ListenTCP && s.Port != 0:
		vars["PORT"] = strconv.Itoa(s.Port)
	}
	if (run.Ready.Notify || run.Watchdog > 0) && s.NotifySocket != "" {
		vars["NOTIFY_SOCKET"] = s.NotifySocket
	}
	if run.Watchdog > 0 {
		vars["WATCHDOG_USEC"] = strconv.FormatInt(run.Watchdog.Microseconds(), 10)
	}
	if s.Scheduled != nil {
		set("_RUN_ID", s.Scheduled.RunID)
		set("_SCHEDULED_AT", s.Scheduled.At.UTC().Format(time.RFC3339))
		if s.Scheduled.Limit != 0 {
			set("_LIMIT", strconv.Itoa(s.Scheduled.Limit))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		entry := name + "=" + vars[name]
		env = append(env, entry)
		if name == run.Prefix+"_PATH" || name == run.Prefix+"_INCARNATION" {
			marks = append(marks, entry)
		}
	}
	return env, marks
}

// ours are the variables without a prefix that Coppice sets.
var ours = []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}

// prefixed are the variables that Coppice sets with the host's prefix.
var prefixed = []string{"_TENANT", "_APP", "_WORKER", "_INDEX", "_PATH", "_INCARNATION", "_SOCKET", "_STOP_FILE",
	"_HEARTBEAT_FILE", "_RUN_ID", "_SCHEDULED_AT", "_LIMIT"}

// Reserved tells whether a variable is one that Coppice sets and a configuration may not. PORT is reserved only where
// Coppice sets it, which the worker's listen mode decides: it then overrides.
func Reserved(prefix, name string) bool {
	if rest, found := strings.CutPrefix(name, prefix); found && slices.Contains(prefixed, rest) {
		return true
	}
	return slices.Contains(ours, name)
}

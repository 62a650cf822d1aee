package config

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/tree"
)

// The blocks inside a worker. Each one is decoded on top of what the worker has so far.
type (
	stopBlock      struct{ tree.StopRule }
	logsBlock      struct{ tree.Logs }
	limitsBlock    struct{ tree.Limits }
	heartbeatBlock struct{ tree.Heartbeat }
	readyBlock     struct {
		tree.Ready
		socket *bool // nil: not said
	}
	healthBlock struct {
		tree.Health
		then string
	}
)

// signals that a worker may be asked to leave with. STOP and its like would only freeze it.
var signals = []string{"TERM", "INT", "QUIT", "HUP", "KILL", "USR1", "USR2", "ABRT", "ALRM", "PIPE", "WINCH", "IO", "PWR",
	"TRAP", "VTALRM", "PROF", "URG", "CONT", "CHLD", "XCPU", "XFSZ", "BUS", "FPE", "ILL", "SEGV", "SYS", "STKFLT"}

func stopTable() schema[stopBlock] {
	return schema[stopBlock]{name: "stop", attrs: []attr[stopBlock]{
		{name: "signal", form: "signal", standard: `"TERM"`, class: Live, doc: "asks the worker's whole group to leave",
			set: func(s *stopBlock, v value) { v.signal(&s.Signal) }},
		{name: "timeout", form: "duration", standard: `"10s"`, class: Live, doc: "from the signal to SIGKILL for everything of it",
			set: func(s *stopBlock, v value) { v.duration(&s.Timeout, aboveZero) }},
		{name: "file", form: "yes or no", standard: `false`, class: Restarts, doc: "first write the stop file and let the worker leave on its own",
			set: func(s *stopBlock, v value) { v.truth(&s.File) }},
		{name: "grace", form: "duration", standard: `"30s"`, class: Live, doc: "how long it has for that before the signal",
			set: func(s *stopBlock, v value) { v.duration(&s.Grace, aboveZero) }},
		{name: "drain", form: "duration", standard: `"5s"`, class: Live, doc: "how long routed requests get to finish",
			set: func(s *stopBlock, v value) { v.duration(&s.Drain, orZero) }},
	}}
}

func (v value) signal(into *string) {
	var name string
	if !v.filled(&name) {
		return
	}
	bare := strings.TrimPrefix(name, "SIG")
	switch {
	case slices.Contains(signals, bare):
		*into = bare
	case bare == "STOP" || bare == "TSTP" || bare == "TTIN" || bare == "TTOU":
		v.fail("the signal "+quoted(bare)+" does not end a worker", "It only freezes it. Write \"TERM\", \"INT\", \"QUIT\" or \"HUP\".")
	default:
		v.fail(quoted(name)+" is not a signal that Coppice knows", guess(bare, signals)+"Signals: "+strings.Join(signals, ", ")+".")
	}
}

func logsTable() schema[logsBlock] {
	return schema[logsBlock]{name: "logs", attrs: []attr[logsBlock]{
		{name: "rate", form: "count", standard: `100`, class: Live, doc: "lines per second of an instance; what is above is dropped and counted",
			set: func(l *logsBlock, v value) { v.whole(&l.Rate, 1, math.MaxInt32) }},
		{name: "burst", form: "count", standard: `200`, class: Live, doc: "lines that may come at once",
			set: func(l *logsBlock, v value) { v.whole(&l.Burst, 1, math.MaxInt32) }},
		{name: "max_line", form: "size", standard: `"8KiB"`, class: Live, doc: "a longer line is cut and marked",
			set: func(l *logsBlock, v value) { v.size(&l.MaxLine, 1) }},
		{name: "keep", form: "size", standard: `"256KiB"`, class: Live, doc: "of the last output, in memory",
			set: func(l *logsBlock, v value) { v.size(&l.Keep, 0) }},
		{name: "to", form: "word", standard: `"stdout"`, class: Live, doc: "stdout, file (state_dir/logs/TENANT/APP/WORKER.N.log), both or none",
			set: func(l *logsBlock, v value) { word(v, &l.To, "stdout", "file", "both", "none") }},
		{name: "max_size", form: "size", standard: `"50MiB"`, class: Live, doc: "of one log file",
			set: func(l *logsBlock, v value) { v.size(&l.MaxSize, 1) }},
		{name: "max_files", form: "count", standard: `5`, class: Live, doc: "log files that are kept",
			set: func(l *logsBlock, v value) { v.whole(&l.MaxFiles, 1, 10_000) }},
	}}
}

func (d *decoder) logsBlock(into *tree.Logs, s section, sc scope) {
	b := logsBlock{*into}
	decode(d, &d.logs, s, &b, sc)
	*into = b.Logs
}

func limitsTable() schema[limitsBlock] {
	return schema[limitsBlock]{name: "limits", attrs: []attr[limitsBlock]{
		{name: "memory", form: "size", class: Restarts, doc: "by cgroup; of a tenant or app: shared by all below",
			set: func(l *limitsBlock, v value) { v.size(&l.Memory, 1) }},
		{name: "cpus", form: "number", class: Restarts, doc: "cores, by cgroup; of a tenant or app: shared by all below",
			set: func(l *limitsBlock, v value) {
				v.within(&l.CPUs, func(n float64) bool { return n >= 0.01 && n <= 10_000 }, "of cores, from 0.01")
			}},
		{name: "tasks", form: "count", class: Restarts, doc: "processes and threads, by cgroup; of a tenant or app: shared by all below",
			set: func(l *limitsBlock, v value) { v.whole64(&l.Tasks) }},
		{name: "open_files", form: "count", class: Restarts, doc: "soft and hard rlimit of each process",
			set: func(l *limitsBlock, v value) { v.whole64(&l.OpenFiles) }},
		{name: "file_size", form: "size", class: Restarts, doc: "largest file that a process may write, or \"unlimited\"; rlimit",
			set: func(l *limitsBlock, v value) { v.liftable(&l.FileSize) }},
		{name: "core", form: "size", class: Restarts, doc: "largest core dump, or \"unlimited\"; rlimit",
			set: func(l *limitsBlock, v value) { v.liftable(&l.Core) }},
	}}
}

func (v value) whole64(into *int64) {
	var n int
	if v.whole(&n, 1, 1<<31) {
		*into = int64(n)
	}
}

// liftable stores a size or "unlimited".
func (v value) liftable(into **int64) {
	if val, ok := literal(v.expr); ok && !val.IsNull() && isText(val) && plainText(val) == "unlimited" {
		lifted := tree.Unlimited
		*into = &lifted
		return
	}
	var size int64
	if v.size(&size, 0) {
		*into = &size
	}
}

func (d *decoder) limitsBlock(into *tree.Limits, s section, sc scope) {
	b := limitsBlock{*into}
	decode(d, &d.limits, s, &b, sc)
	*into = b.Limits
}

func readyTable() schema[readyBlock] {
	return schema[readyBlock]{name: "ready", attrs: []attr[readyBlock]{
		{name: "socket", form: "yes or no", class: Live, doc: "its socket accepts; true if listen is unix or tcp",
			set: func(r *readyBlock, v value) {
				var yes bool
				if v.truth(&yes) {
					r.socket = &yes
				}
			}},
		{name: "http", form: "path", class: Live, doc: "GET over its socket answers with a status below 500",
			set: func(r *readyBlock, v value) { v.urlPath(&r.HTTP) }},
		{name: "notify", form: "yes or no", standard: `false`, class: Restarts, doc: "READY=1 came on NOTIFY_SOCKET",
			set: func(r *readyBlock, v value) { v.truth(&r.Notify) }},
		{name: "command", form: "argv", class: Live, doc: "exits 0", set: func(r *readyBlock, v value) { v.argv(&r.Command) }},
		{name: "log", form: "regular expression", class: Live, doc: "matches a line of its output",
			set: func(r *readyBlock, v value) { v.pattern(&r.Log) }},
		{name: "timeout", form: "duration", standard: `"30s"`, class: Live, doc: "not ready by then is a failed start",
			set: func(r *readyBlock, v value) { v.duration(&r.Timeout, aboveZero) }},
	}}
}

// urlPath stores the path of a request.
func (v value) urlPath(into *string) {
	var path string
	if !v.filled(&path) {
		return
	}
	if path[0] != '/' || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == 0x7F }) {
		v.fail(quoted(path)+" is not the path of a request", "Write a path that starts with \"/\" and has no blanks: \"/healthz\".")
		return
	}
	*into = path
}

func (v value) pattern(into *string) {
	var text string
	if !v.filled(&text) {
		return
	}
	if _, err := regexp.Compile(text); err != nil {
		why := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		v.fail(quoted(text)+" is not a regular expression: "+why, "The syntax is Go's (RE2). In quotes a backslash is written twice.")
		return
	}
	*into = text
}

func healthTable() schema[healthBlock] {
	return schema[healthBlock]{name: "health", attrs: []attr[healthBlock]{
		{name: "http", form: "path", class: Live, doc: "GET over its socket answers with a status below 500",
			set: func(h *healthBlock, v value) { v.urlPath(&h.HTTP) }},
		{name: "command", form: "argv", class: Live, doc: "exits 0", set: func(h *healthBlock, v value) { v.argv(&h.Command) }},
		{name: "socket", form: "yes or no", class: Live, doc: "its socket accepts", set: func(h *healthBlock, v value) { v.truth(&h.Socket) }},
		{name: "interval", form: "duration", standard: `"10s"`, class: Live, doc: "between two checks",
			set: func(h *healthBlock, v value) { v.duration(&h.Interval, aboveZero) }},
		{name: "timeout", form: "duration", standard: `"2s"`, class: Live, doc: "a check that takes longer has failed",
			set: func(h *healthBlock, v value) { v.duration(&h.Timeout, aboveZero) }},
		{name: "failures", form: "count", standard: `3`, class: Live, doc: "failed checks in a row until something happens",
			set: func(h *healthBlock, v value) { v.whole(&h.Failures, 1, 1_000_000) }},
		{name: "then", form: "word", standard: `"restart"`, class: Live, doc: "what happens then: restart, or unroute (no traffic until it is well)",
			set: func(h *healthBlock, v value) { word(v, &h.then, "restart", "unroute") }},
	}}
}

func heartbeatTable() schema[heartbeatBlock] {
	return schema[heartbeatBlock]{name: "heartbeat", attrs: []attr[heartbeatBlock]{
		{name: "file", form: "path", class: Restarts, doc: "its modification time is the worker's pulse; not written: one in runtime_dir",
			set: func(h *heartbeatBlock, v value) { v.filled(&h.File) }},
		{name: "stale", form: "duration", standard: `"300s"`, class: Live, doc: "a pulse older than this is none",
			set: func(h *heartbeatBlock, v value) { v.duration(&h.Stale, aboveZero) }},
	}}
}

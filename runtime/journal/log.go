package journal

import (
	"context"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// Log writes the daemon's log: one line for each event, until ctx is done; what was recorded by then is still written. It is
// a reader like any other: where the log's writer is blocked, events wait in the journal, and those that fall out of it
// meanwhile are counted in one line.
func (j *Journal) Log(ctx context.Context, log hclog.Logger) {
	w := logWriter{log: log, nodes: map[string]*nodeLog{}, stopping: map[string]int{}}
	follower := j.Follow(Query{})
	for {
		events, missed, err := follower.Next(ctx)
		if err != nil {
			break
		}
		w.write(events, missed)
	}
	for {
		events, missed := follower.rest()
		if len(events) == 0 {
			return
		}
		w.write(events, missed)
	}
}

// rest returns what is there without waiting.
func (f *Follower) rest() (events []tree.Event, missed int) {
	events, _ = f.take(&missed)
	return events, missed
}

// logWriter turns events into lines.
type logWriter struct {
	log   hclog.Logger
	nodes map[string]*nodeLog
	// stopping is the incarnation of a node that was asked to stop.
	stopping map[string]int
}

// nodeLog is what the writer remembers of a node that ends again and again, to fold its lines.
type nodeLog struct {
	reason string
	cycles int  // ends in a row for this reason
	failed bool // the limit was told
}

// asked tells, and notes, whether an end was asked for: it is no trouble then.
func (w *logWriter) asked(ev *tree.Event) bool {
	switch ev.Kind {
	case tree.EventStopping:
		w.stopping[ev.Path] = ev.Incarnation
	case tree.EventExited:
		inc, ok := w.stopping[ev.Path]
		delete(w.stopping, ev.Path)
		return ok && inc == ev.Incarnation
	}
	return false
}

// plainCycles is how many ends in a row for the same reason are written in full. Then only the 8th, 16th, 32nd... are, each
// with the number.
const plainCycles = 4

func (w *logWriter) write(events []tree.Event, missed int) {
	if missed > 0 {
		w.log.Warn("missed events, because the log could not be written", "missed", missed)
	}
	for i := range events {
		w.line(&events[i])
	}
}

func (w *logWriter) line(ev *tree.Event) {
	level, text, args := describe(ev)
	if w.asked(ev) {
		level = hclog.Info
	}
	if ev.Kind == tree.EventDaemonStarted || ev.Kind == tree.EventDaemonStopping || ev.Path == "" {
		w.log.Log(level, text, args...)
		return
	}
	repeats, first := w.fold(ev)
	if ev.Kind == tree.EventFailed {
		text = w.failed(ev, first)
		args = append(args, "plan", plan(ev))
	}
	if repeats > plainCycles {
		if bits.OnesCount(uint(repeats)) != 1 {
			level = hclog.Debug
		}
		args = append(args, "repeats", repeats)
	}
	w.log.Log(level, text, args...)
}

// fold counts the node's ends in a row for one reason. first tells that the limit was not told yet.
func (w *logWriter) fold(ev *tree.Event) (repeats int, first bool) {
	n := w.nodes[ev.Path]
	switch ev.Kind {
	case tree.EventBackoff, tree.EventFailed:
		if n == nil {
			n = &nodeLog{}
			w.nodes[ev.Path] = n
		}
		if n.reason != ev.Reason {
			n.reason, n.cycles = ev.Reason, 0
		}
		n.cycles++
		first = ev.Kind == tree.EventFailed && !n.failed
		n.failed = n.failed || ev.Kind == tree.EventFailed
		if first {
			return 0, true // said in any case
		}
	case tree.EventIntent, tree.EventStopped, tree.EventDone:
		delete(w.nodes, ev.Path)
		return 0, false
	}
	if n == nil {
		return 0, first
	}
	return n.cycles, first
}

func (w *logWriter) failed(ev *tree.Event, first bool) string {
	limit, within := ev.Data["limit"], seconds(ev.Data["within"])
	if !first || limit == nil {
		return "failed"
	}
	return fmt.Sprintf("start limit %v/%s hit", limit, strconv.FormatFloat(within.Seconds(), 'f', -1, 64)+"s")
}

// plan says what happens next to a node that failed.
func plan(ev *tree.Event) string {
	if delay := seconds(ev.Data["delay"]); delay > 0 {
		return "retrying in " + delay.Round(time.Millisecond).String()
	}
	return "waiting for an operator"
}

// describe is one row for each kind: how loud, what, and the keys in their order.
func describe(ev *tree.Event) (level hclog.Level, text string, args []any) {
	args = []any{"path", ev.Path, "incarnation", ev.Incarnation}
	if ev.Path == "" {
		args = nil // the host
	}
	if ev.Reason != "" {
		args = append(args, "reason", oneLine(ev.Reason))
	}
	level = hclog.Info
	switch ev.Kind {
	case tree.EventStarting:
		text = "started"
		if again, _ := ev.Data["restart"].(bool); again {
			level = hclog.Debug // the line of its backoff, or of its exit, has told it
			args = append(args, "attempt", ev.Data["attempt"])
		}
	case tree.EventReady:
		text, args = "became ready", with(args, ev, "pid")
		if ev.Path == "" {
			text = "all became ready"
		}
	case tree.EventUnready:
		level, text = hclog.Warn, "became unready"
	case tree.EventExited:
		text, args = "exited", exitArgs(args, ev)
		if code, _ := ev.Data["code"].(int); code != 0 {
			level = hclog.Warn
		}
	case tree.EventBackoff:
		text = "restart put off"
		args = append(args, "delay", seconds(ev.Data["delay"]).Round(time.Millisecond), "attempt", ev.Data["attempt"])
	case tree.EventFailed:
		level = hclog.Error
	case tree.EventEscalated:
		level, text = hclog.Error, "gave up"
	case tree.EventStopping:
		text = "asked to stop"
	case tree.EventStopped:
		text = "stopped"
	case tree.EventKilled:
		level, text, args = hclog.Warn, "killed what was left", with(args, ev, "killed", "left")
	case tree.EventDone:
		text = "ended for good"
	case tree.EventLimitDropped:
		text = "lines dropped"
	case tree.EventIntent:
		text, args = "operator decided", with(args, ev, "intent", "by", "why")
	case tree.EventDaemonStarted:
		text, args = "daemon started", with(nil, ev, "pid", "version")
	case tree.EventDaemonStopping:
		text, args = "daemon began to stop", []any{"reason", ev.Reason}
	default:
		text = string(ev.Kind)
	}
	return level, text, args
}

// exitArgs are the keys of an exit: the process, its code or its signal, and how long it ran.
func exitArgs(args []any, ev *tree.Event) []any {
	args = with(args, ev, "pid")
	if signal, _ := ev.Data["signal"].(string); signal != "" {
		args = append(args, "signal", signal)
	} else {
		args = with(args, ev, "code")
	}
	if ran, ok := ev.Data["ran"]; ok {
		args = append(args, "uptime", seconds(ran).Round(time.Millisecond))
	}
	return with(args, ev, "stack")
}

// with appends those keys that the event has.
func with(args []any, ev *tree.Event, keys ...string) []any {
	for _, key := range keys {
		value, ok := ev.Data[key]
		if words, is := value.(string); is && key != "stack" {
			value = oneLine(words)
		}
		if ok && value != "" {
			args = append(args, key, value)
		}
	}
	return args
}

// oneLine keeps somebody's words from looking like a record of their own: hclog writes each line of a value on one.
func oneLine(words string) string { return strings.ReplaceAll(words, "\n", `\n`) }

// seconds reads a number of seconds.
func seconds(v any) time.Duration {
	n, _ := v.(float64)
	return time.Duration(n * float64(time.Second))
}

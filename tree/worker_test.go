package tree

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestWorkerTranscripts replays each file of testdata/worker. A file tells lives, parted by "---": lines of the run, then
// one line per fact ("+1.5s  exited code=1", the time since the fact before) with the orders indented below it. Lines
// with # are for the reader.
func TestWorkerTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/worker/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var lives []string
			for _, life := range strings.Split(string(want), "---\n") {
				lives = append(lives, replayWorker(t, life))
			}
			got := strings.Join(lives, "---\n")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s tells another story (-update rewrites it):\n%s", file, firstDifference(string(want), got))
			}
		})
	}
}

// firstDifference shows where two texts part.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := 0; i < len(w) || i < len(g); i++ {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant:\n%s\ngot:\n%s", i+1, strings.Join(w[min(i, len(w)):min(i+5, len(w))], "\n"),
				strings.Join(g[min(i, len(g)):min(i+5, len(g))], "\n"))
		}
	}
	return "none"
}

// replayWorker returns a life with the orders that the machine gives now.
func replayWorker(t *testing.T, life string) string {
	t.Helper()
	run := DefaultRun()
	normal := []int{0}
	var w *Worker
	var out strings.Builder
	now := time.Unix(0, 0)
	for _, line := range strings.Split(strings.TrimSuffix(life, "\n"), "\n") {
		if strings.HasPrefix(line, " ") {
			continue // an order of before
		}
		out.WriteString(line + "\n")
		words := splitWords(t, line)
		switch {
		case len(words) == 0 || words[0][0] == '#':
		case words[0][0] == '+':
			if w == nil {
				w = NewWorker(&run, normal)
			}
			now = now.Add(duration(t, words[0][1:]))
			for _, o := range w.Step(now, workerFact(t, words[1:])) {
				out.WriteString("        " + workerOrder(o) + "\n")
			}
		case words[0] == "normal":
			normal = nil
			for _, n := range words[1:] {
				normal = append(normal, integer(t, n))
			}
		default:
			runLine(t, &run, words)
		}
	}
	return out.String()
}

// splitWords parts a line at blanks; a part in quotes stays whole and loses them.
func splitWords(t *testing.T, line string) []string {
	t.Helper()
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		if line[0] == '#' {
			return append(words, line)
		}
		word := ""
		for line != "" && line[0] != ' ' {
			if line[0] != '"' {
				word, line = word+line[:1], line[1:]
				continue
			}
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			text, _ := strconv.Unquote(quoted)
			word, line = word+text, line[len(quoted):]
		}
		words = append(words, word)
	}
	return words
}

// options are the key=value words of a line; a word without = has the value "".
func options(words []string) map[string]string {
	m := map[string]string{}
	for _, word := range words {
		k, v, _ := strings.Cut(word, "=")
		m[k] = v
	}
	return m
}

func has(m map[string]string, k string) bool { _, ok := m[k]; return ok }

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func integer(t *testing.T, s string) int {
	t.Helper()
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func runLine(t *testing.T, run *Run, words []string) {
	t.Helper()
	o := options(words[1:])
	switch words[0] {
	case "ready":
		run.Ready.Socket, run.Ready.Notify, run.Ready.HTTP = has(o, "socket"), has(o, "notify"), o["http"]
		if has(o, "timeout") {
			run.Ready.Timeout = duration(t, o["timeout"])
		}
	case "health":
		run.Health = &Health{HTTP: o["http"], Failures: integer(t, o["failures"]), Unroute: o["then"] == "unroute"}
	case "watchdog":
		run.Watchdog = duration(t, words[1])
	case "heartbeat":
		run.Heartbeat = &Heartbeat{Stale: duration(t, words[1])}
	case "stop":
		run.Stop.File = has(o, "file")
		if has(o, "signal") {
			run.Stop.Signal = o["signal"]
		}
		if has(o, "timeout") {
			run.Stop.Timeout = duration(t, o["timeout"])
		}
		if has(o, "grace") {
			run.Stop.Grace = duration(t, o["grace"])
		}
	default:
		t.Fatalf("no such line of a run: %q", words)
	}
}

func workerFact(t *testing.T, words []string) Fact {
	t.Helper()
	o := options(words[1:])
	seq := Seq(integer(t, o["seq"]))
	switch words[0] {
	case "boot":
		return Boot{Seq: seq}
	case "halt":
		return Halt{Reason: Reason{Class: Class(o["class"]), Text: o["reason"]}, Kill: has(o, "kill"), Seq: seq}
	case "wake":
		return Wake{Token: uint64(integer(t, words[1]))}
	case "spawned":
		return Spawned{PID: integer(t, o["pid"]), Seq: seq}
	case "spawn_failed":
		return SpawnFailed{Text: o["text"], Seq: seq}
	case "checked":
		return Checked{OK: has(o, "ok"), Detail: o["detail"], Seq: seq}
	case "health":
		return HealthResult{OK: has(o, "ok"), Detail: o["detail"], Seq: seq}
	case "beat":
		return Beat{}
	case "stale":
		return Stale{Seq: seq}
	case "exited":
		e := Exit{Code: integer(t, o["code"]), Signal: o["signal"], Core: has(o, "core"), OOM: has(o, "oom"), Ran: duration(t, o["ran"])}
		if e.Signal != "" {
			e.Code = -1
		}
		return Exited{Exit: e, Seq: seq}
	case "gone":
		f := Gone{Killed: integer(t, o["killed"]), Seq: seq}
		if has(o, "left") {
			for _, pid := range strings.Split(o["left"], ",") {
				f.Left = append(f.Left, integer(t, pid))
			}
		}
		return f
	}
	t.Fatalf("no such fact: %q", words)
	return nil
}

// workerOrder writes an order as a transcript shows it.
func workerOrder(o Order) string {
	caused := func(s string, cause Seq) string {
		if cause != 0 {
			s += fmt.Sprintf(" cause=%d", cause)
		}
		return s
	}
	switch o := o.(type) {
	case WakeAfter:
		return fmt.Sprintf("wake %d after %s", o.Token, shortDuration(o.After))
	case ReportUp:
		return caused("report up", o.Cause)
	case ReportUnready:
		return caused(fmt.Sprintf("report unready %q", o.Reason), o.Cause)
	case Quit:
		return caused(fmt.Sprintf("quit %s %q", o.Reason.Class, o.Reason.Text), o.Cause)
	case Spawn:
		return caused("spawn", o.Cause)
	case Probe:
		return caused("probe", o.Cause)
	case Monitor:
		return caused("monitor", o.Cause)
	case Unprobe:
		return caused("unprobe", o.Cause)
	case StopFile:
		return caused(fmt.Sprintf("stop file %q", o.Reason), o.Cause)
	case Signal:
		return caused(fmt.Sprintf("signal %s %q", o.Name, o.Reason), o.Cause)
	case Kill:
		return caused(fmt.Sprintf("kill %q", o.Reason), o.Cause)
	case Record:
		s := fmt.Sprintf("record %s %q", o.Kind, o.Reason)
		for _, k := range []string{"code", "signal", "ran", "core", "oom", "killed", "left", "detail"} {
			if v, ok := o.Data[k]; ok && v != "" {
				s += fmt.Sprintf(" %s=%v", k, v)
			}
		}
		return caused(s, o.Cause)
	}
	return fmt.Sprintf("%T%+v", o, o)
}

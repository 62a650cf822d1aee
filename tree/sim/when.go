package sim

import (
	"strconv"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// This file reads the second half of a fault: when.

// clauses are the words that may follow each kind of fault.
var clauses = map[faultKind][]string{
	faultExit:   {"at", "every", "after", "with", "from", "for", "until", "times", "once"},
	faultSignal: {"at", "every", "after", "with", "from", "for", "until", "times", "once"},
	faultStart:  {"at", "with", "from", "for", "until", "times", "once"},
	faultReady:  {"at", "with", "from", "for", "until", "times", "once"},
	faultHang:   {"at", "every", "after", "with", "for", "times", "once"},
	faultStop:   {"at", "with", "from", "for", "until", "times", "once"},
	faultDown:   {"at", "for", "until"},
}

func (r *reader) clause() {
	w := r.take()
	name := w.text
	count, err := strconv.Atoi(w.text)
	if err == nil {
		name = "times"
	}
	known := false
	for _, valid := range clauses[r.f.kind] {
		known = known || valid == name
	}
	if _, twice := r.seen[name]; twice {
		r.fail(w, "%q comes twice", name)
		return
	}
	r.seen[name] = w
	switch {
	case !known || name == "times" && err != nil:
		r.unknown(w, "after "+r.title(), written(clauses[r.f.kind])...)
	case name == "times":
		r.f.times = count
		if count < 1 {
			r.fail(w, "how often is a number from 1")
		}
		if !r.accept("times") && !r.accept("time") {
			r.unknown(r.take(), "after the number", "times")
		}
	case name == "once":
		r.f.times = 1
	case name == "at", name == "from":
		r.f.at = r.duration()
		r.f.from = r.f.at
	case name == "every":
		r.f.every = r.duration()
		if r.f.every < time.Millisecond {
			r.fail(w, "every needs at least 1ms")
		}
	case name == "after":
		if !r.accept("ready") || startsDuration(r.peek()) {
			r.f.after = r.duration()
		}
	case name == "with":
		r.chance()
	case name == "for":
		r.f.lasts = r.duration()
	case name == "until":
		r.f.end = r.duration()
	}
}

// chance reads "probability P" and "probability P per second".
func (r *reader) chance() {
	r.expect("after with", "probability")
	w := r.take()
	p, err := strconv.ParseFloat(w.text, 64)
	if err != nil || !(p > 0 && p <= 1) {
		r.fail(w, "a probability is a number above 0, up to 1, not %q", w.text)
	}
	r.f.probability = p
	if r.accept("per") {
		r.expect("after per", "second")
		r.seen["per second"] = w
		if r.f.kind != faultExit && r.f.kind != faultSignal && r.f.kind != faultHang {
			r.fail(w, "a probability per second is for exit, signal and hang")
		}
	}
}

// startsDuration tells a duration, or what was meant to be one, from the number of "2 times".
func startsDuration(s string) bool {
	_, err := strconv.Atoi(s)
	return err != nil && s != "" && (s[0] >= '0' && s[0] <= '9' || s[0] == '.' || s[0] == '-')
}

// written is how the clauses are written, for people.
func written(list []string) []string {
	out := make([]string, len(list))
	for i, name := range list {
		out[i] = map[string]string{"after": "after ready D", "with": "with probability P", "times": "N times", "at": "at T",
			"every": "every D", "from": "from T", "for": "for D", "until": "until T"}[name]
		if out[i] == "" {
			out[i] = name
		}
	}
	return out
}

func (r *reader) title() string {
	switch r.f.kind {
	case faultExit:
		return "exit " + strconv.Itoa(r.f.exit.Code)
	case faultSignal:
		return "signal " + r.f.exit.Signal
	case faultStart:
		return "start fails"
	}
	return string(r.f.kind)
}

// check judges the line as a whole and folds its clauses into a trigger and a window.
func (r *reader) check() {
	if r.mistake != nil {
		return
	}
	f := r.f
	has := func(name string) bool { _, ok := r.seen[name]; return ok }
	end := r.words[len(r.words)-1]
	clash := func(a, b string) {
		if has(a) && has(b) {
			r.fail(r.seen[b], "%q and %q do not go together", a, b)
		}
	}
	clash("at", "after")
	clash("every", "after")
	clash("at", "from")
	clash("for", "until")
	clash("times", "once")
	for _, name := range []string{"at", "every", "after"} {
		clash("per second", name)
	}
	switch f.kind {
	case faultExit, faultSignal, faultHang:
		switch {
		case has("per second"):
			f.trigger = perSecond
		case has("after"):
			f.trigger = afterReady
		case has("at"), has("every"):
			f.trigger = atTimes
			if !has("at") {
				f.at = f.from + f.every // the first comes after one interval
			}
		default:
			r.fail(end, "when? After %s comes at T, every D, after ready D, or with probability P per second", r.title())
		}
	case faultDown:
		if !has("at") {
			r.fail(end, "when? After down comes at T, and for D or until T")
		}
	}
	r.window(has)
}

// window folds at, from, for and until.
func (r *reader) window(has func(string) bool) {
	f := r.f
	if f.kind == faultHang {
		return // for is how long it hangs
	}
	once := f.trigger == atTimes && !has("every")
	if once {
		for _, name := range []string{"for", "until", "from"} {
			if has(name) {
				r.fail(r.seen[name], "%q needs every D, after ready D, or a probability per second", name)
			}
		}
	}
	if has("for") {
		f.end = tree.Forever
		if f.lasts < tree.Forever-f.from {
			f.end = f.from + f.lasts
		}
	}
	if f.end < f.from {
		r.fail(r.seen["until"], "it ends before it begins")
	}
	f.lasts = 0
}

// nearest is the valid word that differs least from what was written, if little.
func nearest(text string, valid []string) string {
	best, least := "", 3
	for _, v := range valid {
		first := v
		for i, r := range v {
			if r == ' ' {
				first = v[:i]
				break
			}
		}
		if d := distance(text, first); d < least && d < len(first) && text != "" {
			best, least = first, d
		}
	}
	return best
}

// distance is how many letters must be put in, taken out or changed (Levenshtein). Long words are simply far away.
func distance(a, b string) int {
	if len(a) > 20 || len(b) > 20 {
		return 20
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

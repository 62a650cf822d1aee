package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coppice-run/coppice/tree"
)

// Fault is one line of the fault language: who, what, and when. Its zero value does nothing.
type Fault struct {
	paths       []word
	kind        faultKind
	exit        tree.Exit     // of exit and signal
	takes       time.Duration // of ready after, and stop takes
	never       bool          // ready never
	trigger     trigger
	at, every   time.Duration
	after       time.Duration // from being ready
	from, end   time.Duration // the window; end is Forever without one
	lasts       time.Duration // of hang; 0: for ever
	times       int           // 0: as often as it comes
	probability float64       // 1: always
	text, file  string
	source      string // text with its indentation
	line        int
}

type faultKind string

const (
	faultExit   faultKind = "exit"
	faultSignal faultKind = "signal"
	faultStart  faultKind = "start"
	faultReady  faultKind = "ready"
	faultHang   faultKind = "hang"
	faultStop   faultKind = "stop"
	faultDown   faultKind = "down"
)

type trigger int

const (
	always trigger = iota // at every start, in the window
	atTimes
	afterReady
	perSecond
)

// String is the line as it was written.
func (f *Fault) String() string { return f.text }

// Mistake is what is wrong with a fault, and where.
type Mistake struct {
	File         string // "" for one that came without a file
	Line, Column int    // from 1; columns count characters
	Text         string
	Source       string // the line
}

// Error says it with the place in front: "faults.txt:3:12: unknown word ...".
func (m *Mistake) Error() string {
	if m.File == "" {
		return fmt.Sprintf("%d:%d: %s", m.Line, m.Column, m.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Column, m.Text)
}

// ParseFault reads one line of the fault language, see the package's text. The error is a *Mistake.
func ParseFault(text string) (Fault, error) {
	f, mistake := parseLine("", 1, text)
	if mistake != nil {
		return Fault{}, mistake
	}
	return f, nil
}

// ParseScript reads a script: one fault a line; empty lines and what follows a # are comments. All mistakes come at once;
// name is the file's, for them.
func ParseScript(name, text string) ([]Fault, []*Mistake) {
	var faults []Fault
	var mistakes []*Mistake
	for i, line := range strings.Split(text, "\n") {
		if at := strings.IndexByte(line, '#'); at >= 0 {
			line = line[:at]
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		f, mistake := parseLine(name, i+1, line)
		if mistake != nil {
			mistakes = append(mistakes, mistake)
			continue
		}
		faults = append(faults, f)
	}
	return faults, mistakes
}

// word is a piece of a line and the column where it begins.
type word struct {
	text   string
	column int
}

// words splits a line at white space, commas and colons; the latter two are words.
func words(line string) []word {
	var list []word
	start, column, from := -1, 0, 0
	flush := func(end int) {
		if start >= 0 {
			list = append(list, word{line[start:end], from})
			start = -1
		}
	}
	for i, r := range line {
		column++
		switch {
		case r == ' ' || r == '\t' || r == '\r':
			flush(i)
		case r == ',' || r == ':':
			flush(i)
			list = append(list, word{string(r), column})
		case start < 0:
			start, from = i, column
		}
	}
	flush(len(line))
	return append(list, word{"", utf8.RuneCountInString(strings.TrimRight(line, " \t\r")) + 1})
}

// reader reads a line word by word. The first mistake ends it.
type reader struct {
	words   []word // the last is empty: the end
	mistake *Mistake
	f       *Fault
	seen    map[string]word
}

func parseLine(file string, line int, text string) (Fault, *Mistake) {
	f := Fault{text: strings.TrimSpace(text), source: text, file: file, line: line, end: tree.Forever, probability: 1}
	r := reader{words: words(text), f: &f, seen: map[string]word{}}
	r.paths()
	r.action()
	for r.mistake == nil && r.peek() != "" {
		r.clause()
	}
	r.check()
	if r.mistake != nil {
		r.mistake.File, r.mistake.Line, r.mistake.Source = file, line, text
	}
	return f, r.mistake
}

func (r *reader) peek() string { return r.words[0].text }

func (r *reader) take() word {
	w := r.words[0]
	if len(r.words) > 1 {
		r.words = r.words[1:]
	}
	return w
}

func (r *reader) accept(text string) bool {
	if r.mistake == nil && r.peek() == text {
		r.take()
		return true
	}
	return false
}

func (r *reader) fail(at word, format string, args ...any) {
	if r.mistake == nil {
		r.mistake = &Mistake{Column: at.column, Text: fmt.Sprintf(format, args...)}
	}
}

// unknown refuses a word and lists those that could stand there.
func (r *reader) unknown(at word, where string, valid ...string) {
	what := "unknown word " + strconv.Quote(at.text)
	if at.text == "" {
		what = "something is missing at the end"
	}
	hint := ""
	if near := nearest(at.text, valid); near != "" {
		hint = fmt.Sprintf(": did you mean %q?", near)
	}
	list := strings.Join(valid[:len(valid)-1], ", ")
	if list != "" {
		list += " or "
	}
	r.fail(at, "%s%s; %s comes %s", what, hint, where, list+valid[len(valid)-1])
}

func (r *reader) paths() {
	for r.mistake == nil {
		w := r.take()
		if w.text == "" || w.text == ":" || w.text == "," {
			r.fail(w, "a path is missing; a fault is written as PATH: WHAT WHEN, like shop/api: exit 1 every 2s")
			return
		}
		r.f.paths = append(r.f.paths, w)
		if r.accept(",") {
			continue
		}
		if colon := r.take(); colon.text != ":" {
			r.fail(colon, "a colon is missing after the path; a fault is written as PATH: WHAT WHEN, like shop/api: exit 1 every 2s")
		}
		return
	}
}

func (r *reader) action() {
	if r.mistake != nil {
		return
	}
	w := r.take()
	r.f.kind = faultKind(w.text)
	switch r.f.kind {
	case faultExit:
		code := r.take()
		n, err := strconv.Atoi(code.text)
		if err != nil || n < 0 || n > 255 {
			r.fail(code, "an exit status is a number from 0 to 255, not %q", code.text)
		}
		r.f.exit.Code = n
	case faultSignal:
		name := r.take()
		r.f.exit = tree.Exit{Code: -1, Signal: strings.TrimPrefix(name.text, "SIG")}
		if !slices.Contains(signals, r.f.exit.Signal) {
			r.unknown(name, "after signal", signals...)
		}
	case faultStart:
		r.expect("after start", "fails")
	case faultReady:
		switch at := r.take(); at.text {
		case "after":
			r.f.takes = r.duration()
		case "never":
			r.f.never = true
		default:
			r.unknown(at, "after ready", "after", "never")
		}
	case faultStop:
		r.expect("after stop", "takes")
		r.f.takes = r.duration()
	case faultHang, faultDown:
	default:
		r.unknown(w, "after the colon", "exit", "signal", "start", "ready", "hang", "stop", "down")
	}
}

// signals are those that end a process by default.
var signals = []string{"KILL", "TERM", "SEGV", "ABRT", "BUS", "FPE", "HUP", "ILL", "INT", "PIPE", "QUIT", "TRAP", "USR1", "USR2", "ALRM", "XCPU"}

func (r *reader) expect(where, text string) {
	if w := r.take(); w.text != text {
		r.unknown(w, where, text)
	}
}

func (r *reader) duration() time.Duration {
	w := r.take()
	d, err := time.ParseDuration(w.text)
	if err != nil {
		r.fail(w, "%q is no duration; write one like 500ms, 2s or 1m30s", w.text)
	}
	if d < 0 || d > 100*365*24*time.Hour {
		r.fail(w, "%s is out of range; a duration here is from 0 to a hundred years", w.text)
	}
	return d
}

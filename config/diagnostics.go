package config

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// Severity says whether a diagnostic keeps the configuration from being used.
type Severity string

// The severities. The words are printed.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Diagnostic is one problem of a configuration, at one place. Line and Column count from 1; Line is 0 where the problem
// is of the file as a whole.
type Diagnostic struct {
	Severity     Severity
	File         string // as the reader named it: the path given to Load, joined with the file's name for a directory
	Line, Column int
	Summary      string // one line: what is wrong
	Detail       string // what to write instead; may have several lines, may be ""
	Source       string // the source line, or the part of a very long one around the mark
	From, To     int    // the bytes of Source that are meant
}

// Diagnostics is what loading says about a configuration, in the order of file name and place.
type Diagnostics []Diagnostic

// HasErrors tells whether the configuration must not be used. Warnings do not count.
func (ds Diagnostics) HasErrors() bool {
	for i := range ds {
		if ds[i].Severity == Error {
			return true
		}
	}
	return false
}

// Error lists the errors, one a line without source, so that Diagnostics can travel as an error.
func (ds Diagnostics) Error() string {
	var lines []string
	for i := range ds {
		if d := &ds[i]; d.Severity == Error {
			lines = append(lines, visible(d.place())+": "+visible(d.Summary))
		}
	}
	return strings.Join(lines, "\n")
}

// Write prints every diagnostic as `file:line:column: error: summary`, the source line with a mark below it, and what
// to write instead. Characters that would drive a terminal are printed as escapes; the only control sequences in the
// output are the colours, if color is set.
func (ds Diagnostics) Write(w io.Writer, color bool) error {
	for i := range ds {
		if _, err := io.WriteString(w, ds[i].text(color)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Diagnostic) place() string {
	if d.Line == 0 {
		return d.File
	}
	return fmt.Sprintf("%s:%d:%d", d.File, d.Line, d.Column)
}

func (d *Diagnostic) text(color bool) string {
	on, off := "", ""
	if color {
		on, off = "\x1b[1;31m", "\x1b[0m"
		if d.Severity == Warning {
			on = "\x1b[1;33m"
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s%s%s: %s\n", visible(d.place()), on, d.Severity, off, visible(d.Summary))
	if d.Source != "" {
		before, marked := visible(d.Source[:d.From]), visible(d.Source[d.From:d.To])
		fmt.Fprintf(&b, "    %s%s%s\n", before, marked, visible(d.Source[d.To:]))
		width := max(1, utf8.RuneCountInString(marked))
		fmt.Fprintf(&b, "    %s%s%s%s\n", strings.Repeat(" ", utf8.RuneCountInString(before)), on, strings.Repeat("^", width), off)
	}
	if d.Detail != "" {
		for line := range strings.SplitSeq(d.Detail, "\n") {
			fmt.Fprintf(&b, "  %s\n", visible(line))
		}
	}
	return b.String()
}

// visible writes whatever could move a cursor, hide text or turn its direction as an escape: the text comes from files
// of people whom the reader need not trust. A tab becomes one space, so that the mark below stays in its column.
func visible(s string) string {
	plain := true
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\t':
			b.WriteByte(' ')
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r) || unicode.Is(unicode.M, r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// The most that one load reports: a broken file of some megabytes would otherwise bury its first, real mistake.
const (
	maxDiagnostics = 500
	maxSourceLine  = 160
)

// report collects diagnostics while a configuration is loaded.
type report struct {
	list    Diagnostics
	sources map[string][]byte
	seen    map[string]bool // a problem of one place is said once, however many replicas meet it
	errors  int
	dropped int
}

func newReport() *report {
	return &report{sources: map[string][]byte{}, seen: map[string]bool{}}
}

// place is where a diagnostic points: at names the attribute or block that is at fault, and mark the part of it that
// is. Both on one line: the position printed is that of the attribute, and the mark below shows the part.
type place struct{ at, mark hcl.Range }

func here(at hcl.Range) place { return place{at: at, mark: at} }

// part points at a part of what p points at.
func (p place) part(mark hcl.Range) place {
	if mark.Filename == p.at.Filename && mark.Start.Line == p.at.Start.Line {
		return place{at: p.at, mark: mark}
	}
	return here(mark)
}

func (r *report) error(p place, summary, detail string)   { r.add(Error, p, summary, detail) }
func (r *report) warning(p place, summary, detail string) { r.add(Warning, p, summary, detail) }

// fileError reports a problem of a file as a whole.
func (r *report) fileError(file, summary, detail string) {
	r.add(Error, here(hcl.Range{Filename: file}), summary, detail)
}

func (r *report) add(severity Severity, p place, summary, detail string) {
	d := Diagnostic{Severity: severity, File: p.at.Filename, Line: p.at.Start.Line, Column: p.at.Start.Column,
		Summary: summary, Detail: detail}
	key := d.place() + "\x00" + summary + "\x00" + fmt.Sprint(p.mark.Start.Byte)
	if r.seen[key] {
		return
	}
	if severity == Error {
		r.errors++
	}
	if len(r.list) >= 4*maxDiagnostics {
		r.dropped++
		return
	}
	r.seen[key] = true
	if d.Line > 0 {
		d.Source, d.From, d.To = excerpt(r.sources[d.File], p.mark)
	}
	r.list = append(r.list, d)
}

// excerpt cuts the line of the mark out of the source: all of it, or the part around the mark if it is very long.
func excerpt(src []byte, mark hcl.Range) (line string, from, to int) {
	start, end := mark.Start.Byte, mark.End.Byte
	if start < 0 || start > len(src) {
		return "", 0, 0
	}
	end = min(max(end, start), len(src))
	first := start
	for first > 0 && src[first-1] != '\n' && start-first < maxSourceLine {
		first--
	}
	last := start
	for last < len(src) && src[last] != '\n' && src[last] != '\r' && last-start < maxSourceLine {
		last++
	}
	for first < start && !utf8.RuneStart(src[first]) {
		first++
	}
	for last > start && last < len(src) && !utf8.RuneStart(src[last]) {
		last--
	}
	end = max(start, min(end, last))
	text := string(src[first:last])
	trimmed := strings.TrimLeft(text, " \t")
	cut := min(len(text)-len(trimmed), start-first)
	return text[cut:], start - first - cut, end - first - cut
}

// done sorts what was collected by file and place.
func (r *report) done() Diagnostics {
	sort.SliceStable(r.list, func(i, j int) bool {
		a, b := &r.list[i], &r.list[j]
		switch {
		case a.File != b.File:
			return a.File < b.File
		case a.Line != b.Line:
			return a.Line < b.Line
		case a.Column != b.Column:
			return a.Column < b.Column
		}
		return a.From < b.From || a.From == b.From && a.Summary < b.Summary
	})
	if n := len(r.list); n > maxDiagnostics || r.dropped > 0 {
		more := max(0, n-maxDiagnostics) + r.dropped
		last := r.list[min(n, maxDiagnostics)-1]
		r.list = append(r.list[:min(n, maxDiagnostics)], Diagnostic{Severity: Error, File: last.File,
			Summary: fmt.Sprintf("%d more problems are not shown", more), Detail: "Correct the first ones and check again."})
	}
	return r.list
}

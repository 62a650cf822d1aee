package sim

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// WriteTranscript tells the experiment in the form of the tree's own transcripts: a line for each journal entry, with its
// number, the time, the incarnation, what happened and why, and the number of the entry that caused it. What happened to
// the tree stands at the margin; what the tree decided is indented.
func (r *Result) WriteTranscript(out io.Writer) error {
	var b strings.Builder
	width := 0
	for i := range r.entries {
		width = max(width, len(head(&r.entries[i])))
	}
	for i := range r.entries {
		if i == r.After && r.Missing > 0 {
			fmt.Fprintf(&b, "… %d more entries …\n", r.Missing)
		}
		line(&b, &r.entries[i], width)
	}
	if r.After == len(r.entries) && r.Missing > 0 {
		fmt.Fprintf(&b, "… %d more entries …\n", r.Missing)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func head(e *entry) string { return fmt.Sprintf("[%d] +%s", e.seq, round(e.at)) }

func line(b *strings.Builder, e *entry, width int) {
	fmt.Fprintf(b, "%-*s  ", width, head(e))
	node := fmt.Sprintf("%s#%d", title(e.lane.path), e.inc)
	reason := e.reason
	switch e.kind {
	case tree.EventStarting:
		again := ""
		if e.restart {
			again = " again"
		}
		if e.attempt > 0 {
			again += fmt.Sprintf(" (%d. in a row)", e.attempt)
		}
		fmt.Fprintf(b, "        start %s%s", node, again)
	case tree.EventReady:
		fmt.Fprintf(b, "up %s", node)
	case tree.EventUnready:
		fmt.Fprintf(b, "unready %s", node)
	case tree.EventExited:
		fmt.Fprintf(b, "down %s", node)
	case tree.EventKilled:
		fmt.Fprintf(b, "killed %s", node)
	case tree.EventStopping:
		fmt.Fprintf(b, "        stop %s", node)
	case tree.EventEscalated:
		fmt.Fprintf(b, "        escalate %s", node)
	case tree.EventBackoff:
		fmt.Fprintf(b, "        backoff %s for %s (%d. in a row)", node, round(e.delay), e.attempt)
	case tree.EventFailed:
		retry := ", not tried again"
		if e.delay > 0 {
			retry = fmt.Sprintf(", tried again after %s", round(e.delay))
		}
		fmt.Fprintf(b, "        fail %s (%d. in a row%s)", node, e.attempt, retry)
	default:
		fmt.Fprintf(b, "        rest %s %s", node, e.kind)
	}
	if reason != "" {
		b.WriteString(": " + reason)
	}
	if e.cause != 0 {
		fmt.Fprintf(b, " [%d]", e.cause)
	}
	b.WriteByte('\n')
}

// WriteSummary prints what became of each node, for people.
func (r *Result) WriteSummary(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tSTARTS\tBOUND\tRESTARTS\tGAVE UP\tUP\tDOWN\tLONGEST\tEND\tALSO RESTARTED")
	for i := range r.Nodes {
		s := &r.Nodes[i]
		fmt.Fprintf(t, "%s%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", strings.Repeat("  ", s.Depth), title(s.Path), s.Starts, s.bound(),
			s.Restarts, s.gaveUp(), share(s.Up(), r.Until), round(s.Downtime), round(s.Longest), s.State, s.blast())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	const most = 8 // sentences; a pool would fill the screen with the same one
	said := 0
	for i := range r.Nodes {
		s := &r.Nodes[i]
		if !s.Leaf() || s.Failures < 2 {
			continue
		}
		if said++; said <= most {
			fmt.Fprintln(out, s.sentence())
		}
	}
	if said > most {
		fmt.Fprintf(out, "(and the bounds of %d more; JSON has all)\n", said-most)
	}
	return nil
}

// sentence tells a bound in words, beside what was seen.
func (s *Summary) sentence() string {
	b := &s.Bound
	head := fmt.Sprintf("bound: a crash loop of %s ", title(s.Path))
	switch {
	case b.Forever && b.Below == title(s.Path):
		return head + fmt.Sprintf("lives for ever at %s: %s", b.Level, b.Why)
	case b.Forever:
		return head + fmt.Sprintf("is started %s times in each life of %s, and lives for ever at %s: %s", b.Formula, b.Below, b.Level, b.Why)
	}
	return head + fmt.Sprintf("is started %s times, and ends at %s: %s; seen here: %d", b.Formula, b.Level, b.Why, s.Starts)
}

func (s *Summary) bound() string {
	switch {
	case !s.Leaf():
		return ""
	case s.Bound.Forever:
		return "∞"
	}
	return fmt.Sprint(s.Bound.Starts)
}

func (s *Summary) gaveUp() string {
	if s.Leaf() {
		return ""
	}
	return fmt.Sprint(s.Escalations)
}

func (s *Summary) blast() string {
	var list []string
	for _, h := range s.Blast {
		list = append(list, fmt.Sprintf("%s×%d", title(h.Path), h.Starts))
	}
	if len(list) > 6 {
		list = append(list[:6], fmt.Sprintf("and %d more", len(list)-6))
	}
	return strings.Join(list, " ")
}

// Up is the time in which the node served, a degraded supervisor included.
func (s *Summary) Up() time.Duration { return s.In[running] + s.In[degraded] }

// Time is the time in one of States.
func (s *Summary) Time(state tree.State) time.Duration { return s.In[phaseOf(state)] }

func share(part, whole time.Duration) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*part.Seconds()/whole.Seconds())
}

// round keeps a duration short enough for a table.
func round(d time.Duration) string {
	switch {
	case d >= time.Hour:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	default:
		d = d.Round(10 * time.Microsecond)
	}
	return span(d)
}

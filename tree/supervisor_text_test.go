package tree

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A transcript tells the life of one supervisor: its spec, then one line per fact ("[3] +1.5s  down db crash "exit 1"",
// the time since the fact before; the number is the fact's), with the orders indented below it, each with the number of
// the fact that caused it. A child is named with its incarnation, "db#2"; a fact without one is about the present one.

// printSpec writes the lines that readSpec reads.
func printSpec(spec *Spec) string {
	var b strings.Builder
	p := spec.Supervise
	fmt.Fprintf(&b, "supervisor %s", p.StrategyOr())
	if p.Start != "" {
		fmt.Fprintf(&b, " start=%s", p.Start)
	}
	if p.Intensity != nil {
		fmt.Fprintf(&b, " intensity=%d/%s", p.Intensity.Restarts, p.Intensity.Period)
	}
	if p.First != "" {
		fmt.Fprintf(&b, " first=%s", p.First)
	}
	if p.AutoShutdown != "" {
		fmt.Fprintf(&b, " auto=%s", p.AutoShutdown)
	}
	if p.Quorum != 0 {
		fmt.Fprintf(&b, " quorum=%d", p.Quorum)
	}
	b.WriteString("\n")
	for i := range spec.Children {
		b.WriteString(printChild(&spec.Children[i]) + "\n")
	}
	return b.String()
}

func printChild(c *Spec) string {
	var b strings.Builder
	r := &c.Restart
	fmt.Fprintf(&b, "child %s", c.Name)
	if len(c.After) > 0 {
		fmt.Fprintf(&b, " after=%s", strings.Join(c.After, ","))
	}
	if r.Policy != "" {
		fmt.Fprintf(&b, " %s", r.Policy)
	}
	if r.Backoff > 0 {
		fmt.Fprintf(&b, " backoff=%s", r.Backoff)
	}
	if r.Cap > 0 {
		fmt.Fprintf(&b, " cap=%s", r.Cap)
	}
	if r.Factor != 0 {
		fmt.Fprintf(&b, " factor=%g", r.Factor)
	}
	if r.Jitter != 0 {
		fmt.Fprintf(&b, " jitter=%g", r.Jitter)
	}
	if r.ResetAfter > 0 {
		fmt.Fprintf(&b, " reset=%s", r.ResetAfter)
	}
	if r.Limit > 0 {
		fmt.Fprintf(&b, " limit=%d/%s", r.Limit, r.Within)
	}
	if r.OnLimit != "" {
		fmt.Fprintf(&b, " on_limit=%s", r.OnLimit)
	}
	if c.Significant {
		b.WriteString(" significant")
	}
	if c.Disabled {
		b.WriteString(" disabled")
	}
	return b.String()
}

// specLine adds one line to a spec.
func specLine(t testing.TB, spec *Spec, words []string) {
	o := options(words[2:])
	switch words[0] {
	case "supervisor":
		p := &Supervise{Strategy: Strategy(words[1]), Start: StartMode(o["start"]), First: FirstStart(o["first"]),
			AutoShutdown: AutoShutdown(o["auto"])}
		if s := o["intensity"]; s != "" {
			n, period := fraction(t, s)
			p.Intensity = &Intensity{Restarts: n, Period: period}
		}
		fmt.Sscan(o["quorum"], &p.Quorum)
		spec.Supervise, spec.Name = p, "app"
	case "child":
		spec.Children = append(spec.Children, childSpec(t, words))
	default:
		t.Fatalf("cannot read %q", words)
	}
}

func childSpec(t testing.TB, words []string) Spec {
	o := options(words[2:])
	c := Spec{Name: words[1], Kind: KindWorker, Significant: has(o, "significant"), Disabled: has(o, "disabled")}
	if after := o["after"]; after != "" {
		c.After = strings.Split(after, ",")
	}
	for _, p := range []Policy{Permanent, Transient, Temporary} {
		if has(o, string(p)) {
			c.Restart.Policy = p
		}
	}
	r := &c.Restart
	r.Backoff, r.Cap, r.ResetAfter = span(t, o["backoff"]), span(t, o["cap"]), span(t, o["reset"])
	fmt.Sscan(o["factor"], &r.Factor)
	fmt.Sscan(o["jitter"], &r.Jitter)
	if s := o["limit"]; s != "" {
		r.Limit, r.Within = fraction(t, s)
	}
	r.OnLimit = OnLimit(o["on_limit"])
	return c
}

// fraction reads "3/5s".
func fraction(t testing.TB, s string) (int, time.Duration) {
	n, period, _ := strings.Cut(s, "/")
	i, err := strconv.Atoi(n)
	if err != nil {
		t.Fatal(err)
	}
	return i, span(t, period)
}

func span(t testing.TB, s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func name(child string, inc int) string {
	if inc == 0 {
		return child
	}
	return fmt.Sprintf("%s#%d", child, inc)
}

// printFact writes what readFact reads.
func printFact(fact Fact) string {
	switch f := fact.(type) {
	case Boot:
		return "boot"
	case Halt:
		s := "halt"
		if f.Kill {
			s += " kill"
		}
		if f.Wait {
			s += " wait"
		}
		if f.Reason.Text != "" {
			s += fmt.Sprintf(" %s %q", f.Reason.Class, f.Reason.Text)
		}
		return s
	case Wake:
		return fmt.Sprintf("wake %d", f.Token)
	case Up:
		return "up " + name(f.Child, f.Inc)
	case Ignored:
		return "ignored " + name(f.Child, f.Inc)
	case Unready:
		return fmt.Sprintf("unready %s %q", name(f.Child, f.Inc), f.Reason)
	case Down:
		return fmt.Sprintf("down %s %s %q", name(f.Child, f.Inc), f.Reason.Class, f.Reason.Text)
	case Hold:
		return fmt.Sprintf("hold %s %q", f.Child, f.Reason)
	case Release:
		return fmt.Sprintf("release %s %q", f.Child, f.Reason)
	case Bounce:
		return fmt.Sprintf("bounce %s %q", f.Child, f.Reason)
	case Roll:
		return fmt.Sprintf("roll %q", f.Reason)
	case StartChild:
		return "start_child " + strings.TrimPrefix(printChild(&f.Spec), "child ")
	case TerminateChild:
		return "terminate_child " + f.Child
	case RestartChild:
		return "restart_child " + f.Child
	case DeleteChild:
		return "delete_child " + f.Child
	case WhichChildren:
		return "which_children"
	case CountChildren:
		return "count_children"
	case ChangeSpec:
		return "change_spec " + strings.ReplaceAll(strings.TrimSuffix(printSpec(&f.Spec), "\n"), "\n", " | ")
	}
	return fmt.Sprintf("%T", fact)
}

// readFact turns the words of a line into a fact. Present says which incarnation a child has, last which token it waits
// for.
func readFact(t testing.TB, words []string, seq Seq, present map[string]int, last map[string]uint64) Fact {
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	child, num, explicit := strings.Cut(arg(1), "#")
	inc := present[child]
	if explicit {
		fmt.Sscan(num, &inc)
	}
	switch words[0] {
	case "boot":
		return Boot{Seq: seq}
	case "halt":
		o := options(words[1:])
		h := Halt{Kill: has(o, "kill"), Wait: has(o, "wait"), Seq: seq}
		if i := len(words); i >= 3 && (arg(i-2) == "normal" || arg(i-2) == "shutdown" || arg(i-2) == "crash") {
			h.Reason = Reason{Class: Class(words[i-2]), Text: words[i-1]}
		}
		return h
	case "wake":
		token, err := strconv.ParseUint(arg(1), 10, 64)
		if err != nil {
			token = last[arg(1)]
		}
		return Wake{Token: token, Seq: seq}
	case "up":
		return Up{Child: child, Inc: inc, Seq: seq}
	case "ignored":
		return Ignored{Child: child, Inc: inc, Seq: seq}
	case "unready":
		return Unready{Child: child, Inc: inc, Reason: arg(2), Seq: seq}
	case "down":
		return Down{Child: child, Inc: inc, Reason: Reason{Class: Class(arg(2)), Text: arg(3)}, Seq: seq}
	case "hold":
		return Hold{Child: arg(1), Reason: arg(2), Seq: seq}
	case "release":
		return Release{Child: arg(1), Reason: arg(2), Seq: seq}
	case "bounce":
		return Bounce{Child: arg(1), Reason: arg(2), Seq: seq}
	case "roll":
		return Roll{Reason: arg(1), Seq: seq}
	case "start_child":
		return StartChild{Spec: childSpec(t, words), Call: uint64(seq), Seq: seq}
	case "terminate_child":
		return TerminateChild{Child: arg(1), Call: uint64(seq), Seq: seq}
	case "restart_child":
		return RestartChild{Child: arg(1), Call: uint64(seq), Seq: seq}
	case "delete_child":
		return DeleteChild{Child: arg(1), Call: uint64(seq), Seq: seq}
	case "which_children":
		return WhichChildren{Call: uint64(seq)}
	case "count_children":
		return CountChildren{Call: uint64(seq)}
	case "change_spec":
		return ChangeSpec{Spec: changedSpec(t, words[1:]), Call: uint64(seq), Seq: seq}
	}
	t.Fatalf("no such fact: %q", words)
	return nil
}

func changedSpec(t testing.TB, words []string) Spec {
	var spec Spec
	for len(words) > 0 {
		n := 0
		for n < len(words) && words[n] != "|" {
			n++
		}
		specLine(t, &spec, words[:n])
		words = words[min(n+1, len(words)):]
	}
	return spec
}

// printOrder writes an order for the reader, with the number of its cause.
func printOrder(order Order) string {
	text, cause := orderText(order)
	if cause == 0 {
		return text
	}
	return fmt.Sprintf("%s [%d]", text, cause)
}

func orderText(order Order) (string, Seq) {
	switch o := order.(type) {
	case WakeAfter:
		return fmt.Sprintf("wake %s (%d) after %s", o.Child, o.Token, o.After), o.Cause
	case ReportUp:
		return "report up", o.Cause
	case ReportUnready:
		return "report unready: " + o.Reason, o.Cause
	case ReportIgnored:
		return "report ignored", o.Cause
	case Quit:
		return fmt.Sprintf("quit %s: %s", o.Reason.Class, o.Reason.Text), o.Cause
	case Start:
		s := "start " + name(o.Child, o.Inc)
		if o.Restart {
			s += " again"
		}
		if o.Attempt > 0 {
			s += fmt.Sprintf(" (%d. in a row)", o.Attempt)
		}
		return s + ": " + o.Reason, o.Cause
	case Stop:
		word := "stop "
		if o.Kill {
			word = "kill "
		}
		return word + name(o.Child, o.Inc) + ": " + o.Reason, o.Cause
	case Backoff:
		word := "backoff "
		if o.Slow {
			word = "failed, slow backoff "
		}
		return fmt.Sprintf("%s%s for %s (%d. in a row): %s", word, name(o.Child, o.Inc), o.Delay, o.Attempt, o.Reason), o.Cause
	case Rest:
		return fmt.Sprintf("rest %s %s: %s", name(o.Child, o.Inc), o.State, o.Reason), o.Cause
	case Forget:
		return "forget " + o.Child, o.Cause
	case Escalate:
		return "escalate: " + o.Reason, o.Cause
	case Reply:
		return "reply " + replyText(&o), 0
	}
	return fmt.Sprintf("%T", order), 0
}

func replyText(r *Reply) string {
	switch {
	case r.Error != "":
		return "error " + r.Error
	case r.Value != "":
		return "ok " + r.Value
	case r.Counts != (Counts{}):
		return fmt.Sprintf("%+v", r.Counts)
	}
	s := "ok"
	for _, c := range r.Children {
		switch {
		case c.Restarting:
			s += " " + c.Child + ":restarting"
		case c.Inc == 0:
			s += " " + c.Child + ":undefined"
		default:
			s += " " + c.Child + ":up"
		}
	}
	return s
}

// loaded is a Dice that always shows the same.
type loaded float64

func (d loaded) Float64() float64 { return float64(d) }

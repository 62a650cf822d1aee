package tree

import (
	"slices"
	"strings"
	"time"
)

// This file holds the promises of the package, a function of the oracle each.

// 1. A child has at most one incarnation at a time, and no number is used twice.
func (o *oracle) oneIncarnation(f Start, w *watched) {
	if w.alive {
		o.say(1, "%s#%d starts while #%d is there", f.Child, f.Inc, w.inc)
	}
	if f.Inc <= w.highest {
		o.say(1, "%s#%d starts, but #%d was used", f.Child, f.Inc, w.highest)
	}
}

// 2. Ordered starts go left to right, each after the one before is up; After always gates a start.
func (o *oracle) startsInOrder(f Start, w *watched, inStep *int) {
	for _, name := range w.spec.After {
		if a := o.kids[name]; a != nil && !(a.alive && a.up && a.ready) && !a.ignored {
			o.say(2, "%s starts, but comes after %s, which is not up", f.Child, name)
		}
	}
	if byOperator(f.Reason) {
		return
	}
	place := slices.Index(o.order, f.Child)
	if !o.ordered() {
		if place < *inStep {
			o.say(2, "%s starts after a later one", f.Child)
		}
		*inStep = place
		return
	}
	for _, name := range o.order {
		if k := o.kids[name]; k != nil && k.alive && !k.up && !k.manualStart && !k.stopping {
			o.say(2, "%s starts while %s is starting", f.Child, name)
		}
		if k := o.kids[name]; k != nil && k.alive && k.stopping && !k.manualStop && !k.held {
			o.say(2, "%s starts while %s is stopping", f.Child, name)
		}
	}
	if before, ok := o.lastStart[f.Cause]; ok && before > place {
		o.say(2, "%s starts after a later one of the same sequence", f.Child)
	}
	o.lastStart[f.Cause] = place
}

// 3. Ordered stops go right to left, each after the one before is gone; together-stops go at once, but a child stops
// before those it comes after.
func (o *oracle) stopsInOrder(f Stop, w *watched, inStep *int) {
	if byOperator(f.Reason) || f.Kill {
		return
	}
	place := slices.Index(o.order, f.Child)
	if o.simple() {
		return
	}
	if !o.ordered() {
		for _, name := range o.order {
			d := o.kids[name]
			if d != nil && d.alive && slices.Contains(d.spec.After, f.Child) && (d.stopping || o.quitting) {
				o.say(3, "%s stops before %s, which comes after it, is gone", f.Child, name)
			}
		}
		return
	}
	for _, name := range o.order {
		if k := o.kids[name]; k != nil && k.alive && k.stopping && !k.manualStop && !k.held {
			o.say(3, "%s stops while %s is stopping", f.Child, name)
		}
	}
	if before, ok := o.lastStop[f.Cause]; ok && before < place {
		o.say(3, "%s stops after an earlier one of the same sequence", f.Child)
	}
	o.lastStop[f.Cause] = place
}

// 4. Permanent, transient and temporary mean what OTP says; a temporary child never comes back. What an operator holds,
// or what has failed, only an operator starts.
func (o *oracle) policyHolds(f Start, w *watched) {
	if byOperator(f.Reason) {
		return
	}
	switch {
	case w.held:
		o.say(4, "%s starts although it is held", f.Child)
	case w.failed:
		o.say(4, "%s starts although it has failed", f.Child)
	case w.over:
		o.say(4, "%s is temporary and comes back", f.Child)
	case w.done && f.Attempt > 0:
		o.say(4, "%s is transient, ended as it should, and is restarted", f.Child)
	case f.Restart && w.spec.Restart.PolicyOr() == Temporary:
		o.say(4, "%s is temporary and is restarted", f.Child)
	}
}

// 5. More than the intensity's restarts within its period: everything stops and the parent is told.
func (o *oracle) restartsCounted(f Start, w *watched) {
	if f.Restart && f.Attempt > 0 && (w.backedOff == 0 || w.backedOff != w.inc) {
		o.count()
	}
}

func (o *oracle) count() {
	i := o.policy.Intensity
	if i == nil {
		return
	}
	o.counted = slices.DeleteFunc(append(o.counted, o.now), func(t time.Time) bool { return o.now.Sub(t) > i.Period })
	if len(o.counted) > i.Restarts {
		o.say(5, "%d restarts within %s, allowed are %d", len(o.counted), i.Period, i.Restarts)
	}
}

func (o *oracle) escalates(f Escalate) {
	o.quitting, o.escalated = true, true
	w := o.kids[f.Child]
	limit := w != nil && w.spec.Restart.OnLimit == OnLimitEscalate
	if i := o.policy.Intensity; !limit && (i == nil || o.ends <= i.Restarts) {
		o.say(5, "%s escalates after %d ends", f.Child, o.ends)
	}
	if f.Reason != "intensity exceeded by "+f.Child {
		o.say(5, "the reason is %q", f.Reason)
	}
}

// 6. After Quit, nothing. Every Halt ends in Quit.
func (o *oracle) quits(f Quit) {
	if o.quit {
		o.say(6, "a second Quit")
	}
	o.quit, o.quitting = true, true
	for _, name := range o.order {
		if w := o.kids[name]; w != nil && w.alive {
			o.say(6, "Quit while %s is there", name)
		}
	}
	if o.escalated && f.Reason.Class != Shutdown {
		o.say(5, "the parent hears %v", f.Reason)
	}
}

func (o *oracle) noStartAtTheEnd(f Start) {
	if o.quitting {
		o.say(6, "%s starts while everything stops", f.Child)
	}
}

// haltProceeds looks whether an end that has begun goes on: something is stopping as long as something is there.
func (o *oracle) haltProceeds(halted bool) {
	if !o.quitting || o.quit {
		return
	}
	moving, there := 0, 0
	for _, name := range o.order {
		w := o.kids[name]
		if w == nil || !w.alive {
			continue
		}
		there++
		if w.stopping {
			moving++
			continue
		}
		waits := slices.ContainsFunc(o.order, func(d string) bool {
			k := o.kids[d]
			return k != nil && k.alive && slices.Contains(k.spec.After, name)
		})
		if !o.ordered() && !waits {
			o.say(3, "%s is not told to stop, though all stop together", name)
		}
		if o.killing && halted {
			o.say(6, "%s is not killed", name)
		}
	}
	if moving == 0 {
		o.say(6, "%d children are there, none is stopping, and no Quit comes", there)
	}
}

// 8. No order concerns another supervisor's children.
func (o *oracle) named(order Order) {
	if name, ok := orderChild(order); ok && o.kids[name] == nil {
		o.say(8, "%s is nobody here", name)
	}
}

func orderChild(order Order) (string, bool) {
	switch f := order.(type) {
	case Start:
		return f.Child, true
	case Stop:
		return f.Child, true
	case Backoff:
		return f.Child, true
	case Rest:
		return f.Child, true
	case Escalate:
		return f.Child, true
	}
	return "", false
}

// 10. Every order that changes a child carries a reason and the number of the fact that caused it.
func (o *oracle) explained(order Order) {
	if _, ok := orderChild(order); !ok {
		return
	}
	text, cause := orderText(order)
	if strings.HasSuffix(text, ": ") {
		o.say(10, "no reason: %s", text)
	}
	if cause == 0 || cause > o.facts {
		o.say(10, "cause %d of %d facts: %s", cause, o.facts, text)
	}
}

package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Horizon is how long an experiment lasts that does not say.
const Horizon = 10 * time.Minute

// Experiment lets faults happen to a tree. Only Spec is required.
type Experiment struct {
	Spec   tree.Spec
	Faults []Fault
	Seed   uint64        // of all chance; the same seed draws the same for the same path and purpose
	Until  time.Duration // 0: Horizon
	Keep   int           // journal entries in the result: the first and the last so many; -1: all of them
	// Picture keeps what Result.SVG draws. Lenient lets a fault do nothing whose path the tree does not have, and notes it.
	Picture, Lenient bool
	// Interrupted is asked now and then whether to give up; nil is never.
	Interrupted func() bool
}

// ErrStill is the error of a tree that goes on for ever without any time passing: a fault at once after each start, and no
// backoff.
var ErrStill = errors.New("time stands still")

// ErrInterrupted is the error of an experiment that Interrupted ended.
var ErrInterrupted = errors.New("interrupted")

// stillAfter is how many facts at one moment mean that time stands still, and so many more for each node: all of them may
// start at once.
const stillAfter, stillEach = 100_000, 100

// Run runs the experiment. The error is a *Mistake for a fault whose path means nothing in this tree, more than one joined;
// or it wraps ErrStill or ErrInterrupted, and the Result then holds what came before.
func (x Experiment) Run() (*Result, error) {
	if !x.Spec.IsSupervisor() {
		return nil, errors.New("cannot simulate: the root of the tree is no supervisor")
	}
	if x.Until <= 0 {
		x.Until = Horizon
	}
	w := New(x.Spec, Options{DiceOf: func(path string) tree.Dice { return Dice(mix(x.Seed, "jitter of "+path)) }})
	p, mistakes := newPlan(w, x.Seed, x.Faults, x.Lenient)
	if len(mistakes) > 0 {
		var errs []error
		for _, m := range mistakes {
			errs = append(errs, m)
		}
		return nil, errors.Join(errs...)
	}
	w.plan, w.tally = p, newTally(w, x.Keep, x.Picture)
	p.begin()
	w.Boot()
	err := w.turn(x.Until, x.Interrupted)
	w.tally.finish(w.clock.now)
	return w.result(x), err
}

// turn lets all happen that is due until then, and watches that time goes on.
func (w *World) turn(until time.Duration, interrupted func() bool) error {
	moment, before := w.clock.now, w.facts
	for i := 1; w.next(until); i++ {
		if w.clock.now != moment {
			moment, before = w.clock.now, w.facts
		}
		if w.facts-before > stillAfter+uint64(len(w.list))*stillEach {
			return fmt.Errorf("%w at %s: something ends and starts again without any delay; give its fault or its backoff one",
				ErrStill, span(moment))
		}
		if i%16384 == 0 && interrupted != nil && interrupted() {
			return fmt.Errorf("%w at %s of %s", ErrInterrupted, span(moment), span(until))
		}
	}
	w.clock.now = max(w.clock.now, until)
	return nil
}

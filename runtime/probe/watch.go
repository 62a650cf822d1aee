package probe

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Result is what one health check found.
type Result struct {
	OK       bool
	Detail   string        // why not, in a few words; "" if OK
	Failures int           // in a row, this one included
	At       time.Time     // when the check began
	Took     time.Duration // until it was known
}

// errStill says that a check has outlived its timeout and will not be joined by a second one.
var errStill = errors.New("the check before it does not end")

// Watch checks a worker's health every interval until ctx ends, and reports every result, in order, on its own
// goroutine. The first check comes within one interval at a moment of chance, so that a thousand workers that started
// together are not asked together.
//
// There is never a second check beside a running one: one that outlives its timeout (it should not, see Target.Run) is
// reported as a failure at once, and again at every interval that it still runs. Watch returns when the last check has.
func Watch(ctx context.Context, h tree.Health, t Target, report func(Result)) {
	check := func(ctx context.Context) error { return healthy(ctx, &h, t) }
	watch(ctx, h.Interval, h.Timeout, check, report)
}

func healthy(ctx context.Context, h *tree.Health, t Target) error {
	switch {
	case h.HTTP != "":
		return HTTP(ctx, t, h.HTTP)
	case len(h.Command) > 0:
		return Command(ctx, t, h.Command)
	}
	return Socket(ctx, t)
}

// grace is what a check that was cut gets to come back with its own words.
const grace = 250 * time.Millisecond

func watch(ctx context.Context, interval, timeout time.Duration, check func(context.Context) error, report func(Result)) {
	interval, timeout = max(interval, time.Millisecond), max(timeout, time.Millisecond)
	failures := 0
	tell := func(began time.Time, err error) {
		r := Result{OK: err == nil, At: began, Took: time.Since(began)}
		if err != nil {
			failures++
			r.Detail, r.Failures = err.Error(), failures
		} else {
			failures = 0
		}
		report(r)
	}
	var running chan error // of the one check that is going on, nil if none is
	defer func() {
		if running != nil {
			<-running
		}
	}()
	timer := time.NewTimer(rand.N(interval))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		var err error
		if running, err = step(ctx, timeout, running, check); ctx.Err() != nil {
			return // what a cut check says is about us, not about the worker
		}
		tell(began, err)
		timer.Reset(max(time.Until(began.Add(interval)), 0))
	}
}

// step makes one check, or finds that the one before still runs. It returns the check that it had to leave running.
func step(ctx context.Context, timeout time.Duration, running chan error, check func(context.Context) error) (chan error, error) {
	if running != nil {
		select {
		case <-running:
		default:
			return running, errStill
		}
	}
	done := make(chan error, 1)
	go func() { done <- attempt(ctx, timeout, check) }()
	timer := time.NewTimer(timeout + grace)
	defer timer.Stop()
	select {
	case err := <-done:
		return nil, err
	case <-ctx.Done():
		return done, ctx.Err()
	case <-timer.C:
		return done, noAnswer{timeout}
	}
}

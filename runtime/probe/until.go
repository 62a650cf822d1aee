package probe

import (
	"context"
	"fmt"
	"time"
)

// Pace is how often Until asks. Zero fields have the defaults, which suit checks that cost microseconds; a command is
// better asked with First at 50 ms.
type Pace struct {
	First   time.Duration // between the first two attempts, and a half more each time (1 ms)
	Most    time.Duration // but never more than this (250 ms)
	Attempt time.Duration // an attempt that takes longer is cut, and fails (5 s)
}

func (p Pace) orDefault() Pace {
	if p.First <= 0 {
		p.First = time.Millisecond
	}
	if p.Most <= 0 {
		p.Most = 250 * time.Millisecond
	}
	if p.Attempt <= 0 {
		p.Attempt = 5 * time.Second
	}
	return p
}

// Until makes attempts, one after the other, until one succeeds, and returns nil then. When ctx ends first it returns why
// the last attempt failed, as the end of a sentence: "not ready in 30s: " + "connection refused".
//
// The wait grows with the time that has passed, so being noticed takes at most about half of what becoming ready took,
// and never more than Most.
func Until(ctx context.Context, check func(context.Context) error, pace Pace) error {
	pace = pace.orDefault()
	wait := min(pace.First, pace.Most)
	var last error
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return why(ctx, last)
		case <-timer.C:
		}
		err := attempt(ctx, pace.Attempt, check)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return why(ctx, last)
		}
		last = err
		timer.Reset(wait)
		wait = min(wait+wait/2, pace.Most)
	}
}

// why prefers what an attempt found to the mere fact that time is up.
func why(ctx context.Context, last error) error {
	switch {
	case last != nil:
		return last
	case ctx.Err() == context.DeadlineExceeded:
		return noAnswer{}
	}
	return context.Cause(ctx)
}

// noAnswer is the reason of an attempt that was cut.
type noAnswer struct{ after time.Duration }

func (n noAnswer) Error() string {
	if n.after == 0 {
		return "no answer"
	}
	return fmt.Sprintf("no answer in %s", n.after)
}

// attempt bounds one check, and says so if that is why it failed.
func attempt(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, noAnswer{timeout})
	defer cancel()
	err := check(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

package probe

import (
	"context"
	"os"
	"time"
)

// slowest is the longest wait between two looks at a heartbeat file.
const slowest = 10 * time.Second

// Heartbeat watches the modification time of a file and calls fired once, and returns, when it has not changed for stale;
// age is how long it has not. It returns without a call when ctx ends. A file that is not there yet, or is no regular
// file, has no pulse; the first one is due within stale from the call.
//
// What counts is that the time changes, not what it says: the span is measured by the monotonic clock, so a step of the
// wall clock, or a file system with a clock of its own, neither fires it nor holds it. It looks every quarter of stale, at
// most every 10 s: it fires by that much late at most, and never early. (Looking costs a microsecond, works on every file
// system, and needs none of the few inotify instances that a user has.)
//
// Time in which this process itself did not run, because all of it was frozen or stopped, does not count: the worker had
// as little of it.
//
// Only the name itself is looked at, never opened, and a symbolic link is not followed: the file lies where a tenant may
// put whatever it likes.
func Heartbeat(ctx context.Context, file string, stale time.Duration, fired func(age time.Duration)) {
	heartbeat(ctx, func() time.Time { return modified(file) }, stale, fired)
}

func heartbeat(ctx context.Context, pulse func() time.Time, stale time.Duration, fired func(age time.Duration)) {
	every := max(min(stale/4, slowest), time.Millisecond)
	// What is there already is no pulse of this incarnation.
	last, changed := pulse(), time.Now()
	wait := every
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for looked := changed; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		if overslept := now.Sub(looked) - wait; overslept > every {
			changed = changed.Add(overslept)
		}
		looked = now
		if m := pulse(); !m.IsZero() && !m.Equal(last) {
			last, changed = m, now
		} else if age := now.Sub(changed); age >= stale {
			fired(age)
			return
		}
		// The last look comes when silence begins to count.
		wait = max(min(every, stale-now.Sub(changed)), time.Millisecond)
		timer.Reset(wait)
	}
}

// modified is the zero time where there is no regular file.
func modified(file string) time.Time {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() {
		return time.Time{}
	}
	return info.ModTime()
}

package probe

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/tree"
)

func TestUntilIsQuickAndCheap(t *testing.T) {
	for _, takes := range []time.Duration{0, 5 * time.Millisecond, 100 * time.Millisecond, 700 * time.Millisecond, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			began, attempts := time.Now(), 0
			err := Until(ctx, func(context.Context) error {
				attempts++
				if time.Since(began) < takes {
					return errors.New("not yet")
				}
				return nil
			}, Pace{})
			took := time.Since(began)
			if err != nil || took > takes+takes/2+time.Millisecond || took > takes+250*time.Millisecond {
				t.Errorf("ready after %s was noticed after %s (%v)", takes, took, err)
			}
			if most := 16 + int(takes/(250*time.Millisecond)); attempts > most {
				t.Errorf("ready after %s took %d attempts, want at most %d", takes, attempts, most)
			}
			before := attempts
			time.Sleep(time.Minute) // virtual
			if attempts != before {
				t.Error("it asks on after it holds")
			}
		})
	}
}

func TestUntilSaysWhyNot(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	refused := errors.New("connection refused")
	for _, c := range []struct {
		name  string
		limit time.Duration
		check func(n int) func(context.Context) error
		want  string
	}{
		{"refused", 30 * time.Second, func(int) func(context.Context) error {
			return func(context.Context) error { return refused }
		}, "connection refused"},
		{"refused, then hanging", 3 * time.Second, func(n int) func(context.Context) error {
			if n == 0 {
				return func(context.Context) error { return refused }
			}
			return hang
		}, "connection refused"},
		{"hanging", 30 * time.Second, func(int) func(context.Context) error { return hang }, "no answer in 5s"},
		{"hanging for less than an attempt", 3 * time.Second, func(int) func(context.Context) error { return hang }, "no answer"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			began, n := time.Now(), 0
			err := Until(ctx, func(ctx context.Context) error { n++; return c.check(n - 1)(ctx) }, Pace{})
			if err == nil || err.Error() != c.want || time.Since(began) != c.limit {
				t.Errorf("%s: got %v after %s, want %s after %s", c.name, err, time.Since(began), c.want, c.limit)
			}
		})
	}
}

// watched runs watch in virtual time for a while and returns what it reported.
func watched(t *testing.T, during, interval, timeout time.Duration, check func(context.Context) error) []Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	var all []Result
	watch(ctx, interval, timeout, check, func(r Result) { all = append(all, r) })
	return all
}

func TestWatchCountsFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		verdicts := []string{"", "a", "b", "", "c", "d", "e"}
		all := watched(t, 7*time.Second, time.Second, 500*time.Millisecond, func(context.Context) error {
			v := verdicts[min(n, len(verdicts)-1)]
			n++
			if v == "" {
				return nil
			}
			return errors.New(v)
		})
		want := []int{0, 1, 2, 0, 1, 2, 3}
		if len(all) != len(want) {
			t.Fatalf("%d results in 7 s, want %d", len(all), len(want))
		}
		for i, r := range all {
			if r.Failures != want[i] || r.Detail != verdicts[i] || r.OK != (verdicts[i] == "") {
				t.Errorf("result %d: %+v", i, r)
			}
			if i > 0 && r.At.Sub(all[i-1].At) != time.Second {
				t.Errorf("result %d came %s after the one before", i, r.At.Sub(all[i-1].At))
			}
		}
	})
}

func TestASlowCheckIsCutAndNotDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := 0
		all := watched(t, 10*time.Second, time.Second, 2500*time.Millisecond, func(ctx context.Context) error {
			if running++; running > 1 {
				t.Error("two at once")
			}
			defer func() { running-- }()
			<-ctx.Done()
			return ctx.Err()
		})
		if len(all) < 3 {
			t.Fatalf("%d results", len(all))
		}
		for i, r := range all {
			if r.OK || r.Detail != "no answer in 2.5s" || r.Took != 2500*time.Millisecond || r.Failures != i+1 {
				t.Errorf("result %d: %+v", i, r)
			}
		}
	})
}

// A command that does not end when it is told to (its left-over child holds its output open, say) still counts, and
// still is the only one.
func TestACheckThatOutlivesItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		var started atomic.Int32
		target := Target{Run: func(context.Context, []string) error {
			started.Add(1)
			_, err := io.ReadAll(r)
			return err
		}}
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan Result, 100)
		health := tree.Health{Command: []string{"check"}, Interval: 10 * time.Second, Timeout: 2 * time.Second}
		done := make(chan struct{})
		go func() {
			Watch(ctx, health, target, func(r Result) { results <- r })
			close(done)
		}()
		time.Sleep(35 * time.Second) // virtual
		synctest.Wait()
		if started.Load() != 1 || len(results) < 3 {
			t.Errorf("%d started, %d results", started.Load(), len(results))
		}
		for i := range len(results) {
			want := "the check before it does not end"
			if i == 0 {
				want = "no answer in 2s"
			}
			if r := <-results; r.Detail != want || r.Failures != i+1 {
				t.Errorf("result %d: %+v", i, r)
			}
		}
		w.Close() // the child is gone; checks go on
		if r := <-results; !r.OK || r.Failures != 0 {
			t.Errorf("after it: %+v", r)
		}
		cancel()
		<-done
	})
}

func TestAThousandAreNotAskedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		at := make(chan time.Duration, 2000)
		for range 1000 {
			go watch(ctx, 10*time.Second, time.Second, func(context.Context) error {
				at <- time.Since(began)
				return nil
			}, func(Result) {})
		}
		<-ctx.Done()
		synctest.Wait()
		var tenths [100]int
		for len(at) > 0 {
			tenths[min(int(<-at/(100*time.Millisecond)), 99)]++
		}
		total := 0
		for i, n := range tenths {
			total += n
			if n > 60 { // 10 are meant
				t.Errorf("%d of 1000 in the tenth of a second %d", n, i)
			}
		}
		if total != 1000 {
			t.Errorf("%d checks in one interval", total)
		}
	})
}

func TestACutWatchBlamesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := watched(t, 5*time.Second, time.Second, time.Hour, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if len(all) != 0 {
			t.Errorf("got %+v", all)
		}
	})
}

// beat runs heartbeat in virtual time with a pulse given by the time since its start, and returns when it fired, or 0.
func beat(t *testing.T, during, stale time.Duration, pulse func(since time.Duration) time.Time) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	began := time.Now()
	var at time.Duration
	heartbeat(ctx, func() time.Time { return pulse(time.Since(began)) }, stale, func(age time.Duration) {
		if age < stale {
			t.Errorf("fired at the age of %s", age)
		}
		at = time.Since(began)
	})
	return at
}

func TestAHeartbeat(t *testing.T) {
	wall := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	every := func(d time.Duration) func(time.Duration) time.Time {
		return func(since time.Duration) time.Time { return wall.Add(since.Truncate(d)) }
	}
	for _, c := range []struct {
		name     string
		stale    time.Duration
		pulse    func(time.Duration) time.Time
		from, to time.Duration // when it may fire; 0: never
	}{
		{"steady", 4 * time.Second, every(3 * time.Second), 0, 0},
		{"never came", 4 * time.Second, func(time.Duration) time.Time { return time.Time{} }, 4 * time.Second, 5 * time.Second},
		{"an old file is no pulse", 4 * time.Second, func(time.Duration) time.Time { return wall }, 4 * time.Second, 5 * time.Second},
		{"stops", 4 * time.Second, func(s time.Duration) time.Time { return wall.Add(min(s, 10*time.Second)) }, 14 * time.Second, 15 * time.Second},
		{"file goes", 4 * time.Second, func(s time.Duration) time.Time {
			if s > 10*time.Second {
				return time.Time{}
			}
			return wall.Add(s)
		}, 13 * time.Second, 15 * time.Second},
		{"long", 300 * time.Second, func(s time.Duration) time.Time { return wall.Add(min(s, 95*time.Second)) }, 395 * time.Second, 405 * time.Second},
		{"clock steps back a year and forth", 4 * time.Second, func(s time.Duration) time.Time {
			step := []time.Duration{0, -365 * 24 * time.Hour, time.Hour}[int(s/(20*time.Second))%3]
			return wall.Add(s.Truncate(3*time.Second) + step)
		}, 0, 0},
		{"far in the future", 4 * time.Second, func(time.Duration) time.Time { return wall.AddDate(50, 0, 0) }, 4 * time.Second, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			at := beat(t, time.Hour, c.stale, c.pulse)
			if at < c.from || at > c.to {
				t.Errorf("%s: fired at %s, want %s to %s", c.name, at, c.from, c.to)
			}
		})
	}
}

// While this process is stopped it sees no pulse, and must not take that for silence when it wakes.
func TestOversleepingIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		at := beat(t, time.Hour, 4*time.Second, func(since time.Duration) time.Time {
			if looks++; looks == 3 {
				time.Sleep(10 * time.Minute) // virtual: stopped in the middle of a look
			}
			return time.Time{}
		})
		if at < 10*time.Minute+4*time.Second || at > 10*time.Minute+6*time.Second {
			t.Errorf("fired at %s", at)
		}
	})
}

func TestOnlyAFileHasAPulse(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	when := time.Date(2020, 5, 4, 3, 2, 1, 0, time.UTC)
	if err := os.Chtimes(file, when, when); err != nil {
		t.Fatal(err)
	}
	if got := modified(file); !got.Equal(when) {
		t.Errorf("got %v", got)
	}
	for _, path := range []string{link, dir, dir + "/none", file + "/x", strings.Repeat("x", 5000)} {
		if got := modified(path); !got.IsZero() {
			t.Errorf("%.40s: got %v", path, got)
		}
	}
	// And the real thing, once.
	fired := make(chan time.Duration, 1)
	Heartbeat(t.Context(), file, 20*time.Millisecond, func(age time.Duration) { fired <- age })
	if age := <-fired; age < 20*time.Millisecond {
		t.Errorf("fired at the age of %s", age)
	}
}

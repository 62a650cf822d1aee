//go:build linux

package main

import (
	"fmt"
	"slices"
	"syscall"
	"time"
)

// contestant is a supervisor that is measured. Each of its methods does the same work as every other's.
type contestant interface {
	name() string
	// start runs the supervisor with n children that stay. The children's names are any.
	start(b *bench, n int) error
	// supervisor is its own processes, without the children.
	supervisor() []int
	// stop ends all children by TERM and returns when they are gone and known to be.
	stop() error
	// flood starts a child that prints lines into a file, in place of all others; 0 lines: it cannot.
	flood(b *bench, lines int) (bool, error)
	// close ends the supervisor.
	close()
}

// figures are the results of one contestant, in the order of the table's rows; a missing one is not there.
type figures map[string]float64

// rows is the table.
var rows = []struct{ key, about string }{
	{"start", "start of N, ms"},
	{"memory", "memory of N idle, MiB PSS"},
	{"idle cpu", "idle with N, CPU ms"},
	{"idle switches", "idle with N, context switches"},
	{"restart", "kill -9 to new exec, median ms (100 run)"},
	{"storm", "100 killed at once, all back, ms"},
	{"stop", "stop of 100 that end on TERM, ms"},
	{"log", "lines of 100 bytes to a file, MB/s"},
}

// measure takes every figure of one contestant.
func measure(b *bench, c contestant, o options) (figures, error) {
	f := figures{}
	if err := measureMany(b, c, o, f); err != nil {
		return f, fmt.Errorf("with %d children: %w", o.children, err)
	}
	if err := measureHundred(b, c, o, f); err != nil {
		return f, fmt.Errorf("with 100 children: %w", err)
	}
	began := now()
	can, err := c.flood(b, o.lines)
	defer c.close()
	if err != nil || !can {
		return f, err
	}
	began, err = b.await("up", began)
	if err != nil {
		return f, err
	}
	ended, err := b.await("printed", 0)
	if err == nil {
		f["log"] = float64(o.lines) * 100 / 1e6 / (ended - began).Seconds()
	}
	return f, err
}

// await waits for one stamp of a kind.
func (b *bench) await(what string, after time.Duration) (time.Duration, error) {
	deadline := time.After(5 * time.Minute)
	for {
		select {
		case s := <-b.stamps:
			if s.what == what && s.at >= after {
				return s.at, nil
			}
		case <-deadline:
			return 0, fmt.Errorf("waited in vain for a child")
		}
	}
}

func measureMany(b *bench, c contestant, o options, f figures) error {
	defer c.close()
	b.drain()
	pids := map[string]int{}
	began := now()
	if err := c.start(b, o.children); err != nil {
		return err
	}
	last, err := b.collect(o.children, pids)
	if err != nil {
		return err
	}
	f["start"] = ms(last - began)
	settle(c)
	f["memory"] = pss(c.supervisor())
	before := used(c.supervisor())
	time.Sleep(o.idle)
	after := used(c.supervisor())
	f["idle cpu"] = ms(after.cpu - before.cpu)
	f["idle switches"] = float64(after.switches - before.switches)
	return nil
}

// settle waits until the supervisor has nothing left to do from the start: no processor time for two seconds.
func settle(c contestant) {
	for range 15 {
		before := used(c.supervisor()).cpu
		time.Sleep(2 * time.Second)
		if used(c.supervisor()).cpu == before {
			return
		}
	}
}

func measureHundred(b *bench, c contestant, o options, f figures) error {
	const n = 100
	defer c.close()
	b.drain()
	pids := map[string]int{}
	if err := c.start(b, n); err != nil {
		return err
	}
	if _, err := b.collect(n, pids); err != nil {
		return err
	}
	time.Sleep(1500 * time.Millisecond) // some restart at once only what has run for a second
	var latency []time.Duration
	names := make([]string, 0, n)
	for name := range pids {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names[:o.kills] {
		began := now()
		syscall.Kill(pids[name], syscall.SIGKILL)
		back, err := b.collect(1, pids)
		if err != nil {
			return err
		}
		latency = append(latency, back-began)
	}
	f["restart"] = ms(median(latency))
	time.Sleep(1500 * time.Millisecond)
	began := now()
	for _, name := range names {
		syscall.Kill(pids[name], syscall.SIGKILL)
	}
	back, err := b.collect(n, pids)
	if err != nil {
		return err
	}
	f["storm"] = ms(back - began)
	time.Sleep(1500 * time.Millisecond)
	began = now()
	if err := c.stop(); err != nil {
		return err
	}
	f["stop"] = ms(now() - began)
	return nil
}

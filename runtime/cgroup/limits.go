package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/coppice-run/coppice/tree"
)

// controller is one of the kernel's controllers that a limit needs.
type controller int

const (
	memory controller = iota
	cpu
	pids
	controllers // how many there are
)

// names gives the kernel's name of each controller; limitNames the name of its limit in a configuration.
var (
	names      = [controllers]string{memory: "memory", cpu: "cpu", pids: "pids"}
	limitNames = [controllers]string{memory: "memory", cpu: "cpus", pids: "tasks"}
)

// period is the span over which the kernel counts processor time: its own default.
const period = 100_000 // microseconds

// minQuota is the least processor time per period that the kernel takes.
const minQuota = 1_000 // microseconds

// value returns the limit that the controller enforces, in the unit of the kernel's file; 0: none.
func value(l *tree.Limits, c controller) int64 {
	switch c {
	case memory:
		return l.Memory
	case cpu:
		return int64(l.CPUs * period)
	}
	return l.Tasks
}

// describe writes a limit as the configuration has it: "limits.memory = 64MiB".
func describe(l *tree.Limits, c controller) string {
	var v string
	switch c {
	case memory:
		v = size(l.Memory)
	case cpu:
		v = strconv.FormatFloat(l.CPUs, 'f', -1, 64)
	default:
		v = strconv.FormatInt(l.Tasks, 10)
	}
	return "limits." + limitNames[c] + " = " + v
}

// size writes bytes in the largest unit that loses nothing.
func size(n int64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return strconv.FormatInt(n, 10) + units[i]
}

// check refuses values that no kernel takes, before anything is made. A zero is no limit.
func check(l *tree.Limits, c controller) error {
	v := value(l, c)
	switch {
	case c == cpu && l.CPUs != 0 && v < minQuota:
		return fmt.Errorf("cannot enforce %s: the least is %g", describe(l, c), float64(minQuota)/period)
	case v < 0:
		return fmt.Errorf("cannot enforce %s: not a positive number", describe(l, c))
	}
	return nil
}

// refuse says that a limit is not enforced, and why.
func refuse(l *tree.Limits, c controller, why error) error {
	return fmt.Errorf("cannot enforce %s: %w", describe(l, c), why)
}

// set writes the limit v into the group dir; 0 lifts it.
func (p *place) set(dir string, c controller, v int64) error {
	text := strconv.FormatInt(v, 10)
	if p.v2 {
		if v == 0 {
			text = "max"
		}
		switch c {
		case memory:
			return setMemory2(dir, text)
		case cpu:
			return write(dir, "cpu.max", text+" "+strconv.Itoa(period))
		}
		return write(dir, "pids.max", text)
	}
	switch c {
	case memory:
		return setMemory1(dir, v)
	case cpu:
		return setCPU1(dir, v)
	}
	if v == 0 {
		text = "max"
	}
	return write(dir, "pids.max", text)
}

// setMemory2 bounds memory and forbids swap to what is bounded: with swap a worker over its limit would slow the whole
// host down instead of being killed, and the limit would not be the number in the configuration.
func setMemory2(dir, text string) error {
	swap := "0"
	if text == "max" {
		swap = "max"
	}
	if err := optional(write(dir, "memory.swap.max", swap)); err != nil {
		return err
	}
	return write(dir, "memory.max", text)
}

// setMemory1 does the same in v1, where memory and swap together have one limit that must not be below the memory limit
// at any moment.
func setMemory1(dir string, v int64) error {
	text := strconv.FormatInt(v, 10)
	if v == 0 {
		text = "-1"
	}
	if err := optional(write(dir, "memory.memsw.limit_in_bytes", "-1")); err != nil {
		return err
	}
	if err := write(dir, "memory.limit_in_bytes", text); err != nil || v == 0 {
		return err
	}
	return optional(write(dir, "memory.memsw.limit_in_bytes", text))
}

// setCPU1 bounds processor time in v1, which refuses a group more than its parent has. What is above binds anyway, so
// the group then gets as much as the least of its ancestors.
func setCPU1(dir string, v int64) error {
	if v == 0 {
		return write(dir, "cpu.cfs_quota_us", "-1")
	}
	if err := write(dir, "cpu.cfs_period_us", strconv.Itoa(period)); err != nil {
		return err
	}
	for up := filepath.Dir(dir); ; up = filepath.Dir(up) {
		quota, err1 := number(up, "cpu.cfs_quota_us")
		length, err2 := number(up, "cpu.cfs_period_us")
		if err1 != nil || err2 != nil {
			break
		}
		if quota > 0 && length > 0 {
			v = max(min(v, quota*period/length), minQuota)
		}
	}
	text := strconv.FormatInt(v, 10)
	// The groups below must not have more either, at any moment, so they are lowered first, deepest first.
	err := walk(dir, func(below string) error {
		if quota, err := number(below, "cpu.cfs_quota_us"); below == dir || err != nil || quota <= v {
			return nil
		}
		return write(below, "cpu.cfs_quota_us", text)
	})
	return errors.Join(err, write(dir, "cpu.cfs_quota_us", text))
}

// optional forgives a file that this kernel does not have: swap is not accounted for everywhere.
func optional(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

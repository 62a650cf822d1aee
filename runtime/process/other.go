//go:build !linux

package process

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// Self is what Shim returns; it means nothing here.
type Self struct{}

// Shim returns at once.
func Shim() Self { return Self{} }

// CleanSelf does nothing here.
func CleanSelf() error { return nil }

// Table starts no process here.
type Table struct{}

// NewTable makes a table that starts nothing.
func NewTable(Self) *Table { return &Table{} }

// Start always fails: only Linux has what it needs.
func (t *Table) Start(Command) (*Process, error) {
	return nil, fmt.Errorf("cannot run workers on %s: Coppice needs Linux", runtime.GOOS)
}

// Subreaper always fails.
func (t *Table) Subreaper() error {
	return fmt.Errorf("cannot run workers on %s: Coppice needs Linux", runtime.GOOS)
}

// Reap waits for the end of the context.
func (t *Table) Reap(ctx context.Context) { <-ctx.Done() }

// Process is never made here; its methods are those of Linux.
type Process struct{}

// PID is 0.
func (p *Process) PID() int { return 0 }

// Started is the zero time.
func (p *Process) Started() time.Time { return time.Time{} }

// Birth is 0.
func (p *Process) Birth() uint64 { return 0 }

// Exited is never closed.
func (p *Process) Exited() <-chan struct{} { return nil }

// Gone is never closed.
func (p *Process) Gone() <-chan struct{} { return nil }

// Exit is the zero value.
func (p *Process) Exit() Exit { return Exit{} }

// Signal reaches nobody.
func (p *Process) Signal(string) (int, error) { return 0, nil }

// Kill does nothing.
func (p *Process) Kill() {}

// Members is empty.
func (p *Process) Members() []int { return nil }

// Left is empty.
func (p *Process) Left() []int { return nil }

// Killed is 0.
func (p *Process) Killed() int { return 0 }

// Owns is false.
func (p *Process) Owns(int) bool { return false }

// StopLeftovers finds nothing.
func StopLeftovers(_ context.Context, traces []Trace, _ time.Duration) []Remains {
	return make([]Remains, len(traces))
}

//go:build !linux

package place

import (
	"errors"
	"os"

	"github.com/coppice-run/coppice/tree"
)

var errNotLinux = errors.New("cannot run workers here: Coppice needs Linux")

// Dir is the runtime directory of one daemon; Linux only.
type Dir struct{}

// Incarnation is the place of one incarnation; Linux only.
type Incarnation struct{}

// Open fails: Linux only.
func Open(string) (*Dir, error) { return nil, errNotLinux }

// Name is empty: Linux only.
func (*Dir) Name() string { return "" }

// Check fails: Linux only.
func (*Dir) Check(*tree.Spec) error { return errNotLinux }

// Sweep fails: Linux only.
func (*Dir) Sweep() error { return errNotLinux }

// Close does nothing: Linux only.
func (*Dir) Close() {}

// Incarnation fails: Linux only.
func (*Dir) Incarnation(string, int, *tree.Run, int, int) (*Incarnation, error) {
	return nil, errNotLinux
}

// Socket is empty: Linux only.
func (*Incarnation) Socket() string { return "" }

// Port is 0: Linux only.
func (*Incarnation) Port() int { return 0 }

// Listener fails: Linux only.
func (*Incarnation) Listener() (*os.File, error) { return nil, errNotLinux }

// Folder is empty: Linux only.
func (*Incarnation) Folder() string { return "" }

// StopFile is empty: Linux only.
func (*Incarnation) StopFile() string { return "" }

// HeartbeatFile is empty: Linux only.
func (*Incarnation) HeartbeatFile() string { return "" }

// NotifySocket is empty: Linux only.
func (*Incarnation) NotifySocket() string { return "" }

// WriteStopFile fails: Linux only.
func (*Incarnation) WriteStopFile(string) error { return errNotLinux }

// Remove does nothing: Linux only.
func (*Incarnation) Remove() {}

// Note is a record on disk; Linux only.
type Note struct{}

// Note fails: Linux only.
func (*Dir) Note(Record) (*Note, error) { return nil, errNotLinux }

// Born fails: Linux only.
func (*Note) Born(int, uint64) error { return errNotLinux }

// Remove does nothing: Linux only.
func (*Note) Remove() {}

// Note fails: Linux only.
func (*Incarnation) Note(Record) error { return errNotLinux }

// Born fails: Linux only.
func (*Incarnation) Born(int, uint64) error { return errNotLinux }

// Records fails: Linux only.
func (*Dir) Records() ([]Record, []string, error) { return nil, nil, errNotLinux }

// Drop does nothing: Linux only.
func (*Record) Drop() {}

//go:build !linux

package lock

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"time"
)

var errNotLinux = errors.New("cannot lock: Coppice needs Linux")

// Acquire needs Linux.
func Acquire(string) (*Lock, error) { return nil, errNotLinux }

// AcquireNext needs Linux.
func AcquireNext(string, time.Duration) (*Lock, error) { return nil, errNotLinux }

// AcquireFile needs Linux.
func AcquireFile(string) (*Lock, error) { return nil, errNotLinux }

// Inherit needs Linux.
func Inherit(string, *os.File) (*Lock, error) { return nil, errNotLinux }

// Release needs Linux.
func (l *Lock) Release() error { return errNotLinux }

// File needs Linux.
func (l *Lock) File() *os.File { return l.file }

// Prepare needs Linux.
func Prepare(string, fs.FileMode) error { return errNotLinux }

// Listener needs Linux.
type Listener struct{ *net.UnixListener }

// ListenUnix needs Linux.
func ListenUnix(string, fs.FileMode) (*Listener, error) { return nil, errNotLinux }

// InheritUnix needs Linux.
func InheritUnix(string, *os.File) (*Listener, error) { return nil, errNotLinux }

// ReplaceSocket needs Linux.
func ReplaceSocket(string) error { return errNotLinux }

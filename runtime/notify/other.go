//go:build !linux

package notify

import (
	"context"
	"errors"
	"os"
)

var errNotLinux = errors.New("cannot notify: Coppice needs Linux")

// Socket needs Linux.
type Socket struct{}

// Listen needs Linux.
func Listen(string, int, int, func(int) bool, func(Message)) (*Socket, error) {
	return nil, errNotLinux
}

// Inherit needs Linux.
func Inherit(string, *os.File, int, func(int) bool, func(Message)) (*Socket, error) {
	return nil, errNotLinux
}

// Path needs Linux.
func (*Socket) Path() string { return "" }

// File needs Linux.
func (*Socket) File() (*os.File, error) { return nil, errNotLinux }

// Close needs Linux.
func (*Socket) Close() {}

// Send needs Linux.
func Send(context.Context, ...string) error { return errNotLinux }

// Daemon needs Linux: elsewhere it does nothing.
type Daemon struct{}

// NewDaemon needs Linux.
func NewDaemon() *Daemon { return &Daemon{} }

// Environ needs Linux.
func (*Daemon) Environ() []string { return nil }

// Ready needs Linux.
func (*Daemon) Ready() error { return nil }

// Reloading needs Linux.
func (*Daemon) Reloading() error { return nil }

// Stopping needs Linux.
func (*Daemon) Stopping() error { return nil }

// Status needs Linux.
func (*Daemon) Status(string) error { return nil }

// Pings needs Linux.
func (*Daemon) Pings(context.Context, func() bool) {}

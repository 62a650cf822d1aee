//go:build unix

package main

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// readerCheck is how often a command that follows looks whether somebody still reads, in milliseconds.
const readerCheck = 250

// whileRead returns a context that also ends when nobody reads standard output any more. Without it `events -f | head -n 1`
// would stay until the next event, which may be a long time. The caller calls the function when it is done.
func (c *console) whileRead(ctx context.Context) (context.Context, func()) {
	f, ok := c.out.(*os.File)
	if !ok {
		return ctx, func() {}
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			// No event is asked for: what is told anyway is that the other end has gone.
			fds := []unix.PollFd{{Fd: int32(f.Fd())}}
			if n, err := unix.Poll(fds, readerCheck); n > 0 || (err != nil && err != unix.EINTR) {
				cancel()
			}
		}
	}()
	return ctx, func() { cancel(); <-done }
}

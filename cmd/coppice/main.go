// Command coppice is the daemon and the commands that speak to it: coppice help lists them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/coppice-run/coppice/runtime/process"
)

// version is set by the linker.
var version = "dev"

func main() {
	self := process.Shim()
	if len(os.Args) > 1 && os.Args[1] == "run" {
		// Whoever reads the daemon's log or its workers' lines may leave; the daemon stays. A handler that nobody reads, and
		// not an ignored signal, which programs inherit.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		// Before anything else exists: what the launcher left us must not reach a worker.
		if err := process.CleanSelf(); err != nil {
			fmt.Fprintf(os.Stderr, "coppice: %v\n", err)
			os.Exit(exitFailed)
		}
	}
	ctx := context.Background()
	if len(os.Args) < 2 || os.Args[1] != "run" {
		// An interrupted command ends at once and quietly; the daemon has its own way with signals.
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
	}
	os.Exit(Run(withSelf(ctx, self), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

type selfKey struct{}

// withSelf carries the proof that this program can be executed as a shim to the command that starts workers.
func withSelf(ctx context.Context, self process.Self) context.Context {
	return context.WithValue(ctx, selfKey{}, self)
}

func selfFrom(ctx context.Context) process.Self {
	self, _ := ctx.Value(selfKey{}).(process.Self)
	return self
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/runtime/cgroup"
	"github.com/coppice-run/coppice/runtime/probe"
	"github.com/coppice-run/coppice/tree"
)

// drainTime bounds how long the rest of an ended worker's output is read. A helper that holds the pipe does not lengthen
// it: what is in the pipe is there at once.
const drainTime = 5 * time.Second

// follow tells what becomes of the process. It ends when nothing of it runs any more.
func (in *instance) follow() {
	<-in.process.Exited()
	// All that it printed is kept before anybody acts on its end, so that the last lines stand before what follows.
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	in.capture.Drain(ctx)
	cancel()
	exit := in.process.Exit()
	in.tell(tree.Exited{Exit: tree.Exit{Code: exit.Code, Signal: exit.Signal, Core: exit.Core, OOM: in.leaf.OOM() > 0, Ran: exit.Ran}})
	<-in.process.Gone()
	in.tell(tree.Gone{Killed: in.process.Killed(), Left: in.process.Left()})
}

// Do carries out one order of the worker machine. It never blocks: what takes time has a goroutine that Close waits for.
func (in *instance) Do(order tree.Order) {
	switch o := order.(type) {
	case tree.Probe:
		ctx := in.begin()
		in.work.Go(func() { in.probe(ctx) })
	case tree.Monitor:
		in.monitor(in.begin())
	case tree.Unprobe:
		in.stopProbing()
	case tree.StopFile:
		in.work.Go(func() {
			if err := in.home.WriteStopFile(o.Reason); err != nil {
				in.log.Warn("could not write the stop file", "path", in.ref.Path, "incarnation", in.ref.Inc, "error", err)
			}
		})
	case tree.Signal:
		in.work.Go(func() {
			if _, err := in.process.Signal(o.Name); err != nil {
				in.log.Warn("could not signal", "path", in.ref.Path, "incarnation", in.ref.Inc, "signal", o.Name, "error", err)
			}
		})
	case tree.Kill:
		in.process.Kill()
	}
}

// begin ends the checks that run and returns the context of new ones.
func (in *instance) begin() context.Context {
	in.stopProbing()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.probing, in.unprobe = context.WithCancel(in.life)
	return in.probing
}

func (in *instance) stopProbing() {
	in.mu.Lock()
	stop := in.unprobe
	in.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// probe waits until everything that readiness asks for holds, and tells what is in the way meanwhile.
func (in *instance) probe(ctx context.Context) {
	last := ""
	trouble := func(detail string) {
		if detail != last {
			last = detail
			in.tell(tree.Checked{Detail: detail})
		}
	}
	if ask := probe.Ready(in.run.Ready, in.target()); ask != nil {
		pace := probe.Pace{Attempt: in.run.Ready.Timeout}
		if len(in.run.Ready.Command) > 0 {
			pace.First = 50 * time.Millisecond
		}
		telling := func(ctx context.Context) error {
			err := ask(ctx)
			if err != nil && ctx.Err() == nil {
				trouble(err.Error())
			}
			return err
		}
		if probe.Until(ctx, telling, pace) != nil {
			return
		}
	}
	for {
		missing := in.missing()
		if missing == "" {
			in.capture.StopMatching()
			in.tell(tree.Checked{OK: true})
			return
		}
		trouble(missing)
		select {
		case <-in.checks:
		case <-ctx.Done():
			return
		}
	}
}

// missing says what the worker has still to tell by itself.
func (in *instance) missing() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.run.Ready.Notify && !in.notified:
		return "READY=1 has not come"
	case in.run.Ready.Log != "" && !in.logged:
		return fmt.Sprintf("no line matches %q", in.run.Ready.Log)
	}
	return ""
}

// monitor begins the health check and the heartbeat.
func (in *instance) monitor(ctx context.Context) {
	if h := in.run.Health; h != nil {
		in.work.Go(func() {
			probe.Watch(ctx, *h, in.target(), func(r probe.Result) {
				in.tell(tree.HealthResult{OK: r.OK, Detail: r.Detail})
			})
		})
	}
	if h := in.run.Heartbeat; h != nil {
		in.work.Go(func() {
			probe.Heartbeat(ctx, in.heartbeatFile(), h.Stale, func(time.Duration) { in.tell(tree.Stale{}) })
		})
	}
}

// runCommand runs a command as the worker does: same user, folder, environment and limits, and no output. It returns when
// nothing of the command runs any more. What ends the command must never reach the worker, whose environment it has: so
// it has a cgroup of its own, and goes by no marks.
func (in *instance) runCommand(ctx context.Context, argv []string) error {
	cmd := in.command
	cmd.Argv, cmd.Stdout, cmd.Stderr, cmd.Listeners, cmd.ListenNames = argv, nil, nil, nil, nil
	leaf, err := in.grow("-check")
	if err != nil {
		return err
	}
	defer in.prune(leaf)
	cmd.Group, cmd.Marks = nil, nil
	if leaf.Active() {
		cmd.Group = leaf
	}
	note, err := in.place.Note(in.record(&cmd, leaf))
	if err == nil {
		defer note.Remove()
	}
	in.unrecorded(err)
	p, err := in.table.Start(cmd)
	if err != nil {
		return err
	}
	if note != nil {
		in.unrecorded(note.Born(p.PID(), p.Birth()))
	}
	cut := false
	select {
	case <-p.Exited():
	case <-ctx.Done():
		cut = true
	}
	// Helpers of the command go with it.
	p.Kill()
	<-p.Gone()
	if cut {
		return context.Cause(ctx)
	}
	if exit := p.Exit(); exit.Code != 0 {
		return errors.New(exit.String())
	}
	return nil
}

// Close waits for the goroutines and gives back what the incarnation had.
func (in *instance) Close() {
	in.release()
}

// release is Close, of whatever part of the surroundings there is.
func (in *instance) release() {
	in.end()
	in.work.Wait()
	if in.notify != nil {
		in.notify.Close()
	}
	if in.capture != nil {
		in.capture.CloseWriteEnds()
		in.capture.Close()
	}
	if in.leaf != nil {
		in.prune(in.leaf)
	}
	if in.home != nil {
		in.home.Remove()
	}
}

// prune removes a cgroup whose processes are gone. The kernel may take a moment to see it.
func (in *instance) prune(leaf *cgroup.Leaf) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := leaf.RemoveWhenEmpty(ctx); err != nil {
		in.log.Warn("could not remove a cgroup", "path", in.ref.Path, "incarnation", in.ref.Inc, "error", err)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/coppice-run/coppice/actors"
	"github.com/coppice-run/coppice/runtime/control"
	"github.com/coppice-run/coppice/runtime/journal"
	"github.com/coppice-run/coppice/runtime/output"
	"github.com/coppice-run/coppice/runtime/process"
	"github.com/coppice-run/coppice/tree"
)

// door is the daemon as the control server sees it.
type door struct{ d *daemon }

// Status implements control.Host.
func (o door) Status() control.Status {
	state := tree.StateRunning
	if o.d.host.Stopping() {
		state = tree.StateStopping
	}
	return control.Status{
		Host: control.HostStatus{
			PID: os.Getpid(), Version: version, StartedAt: o.d.started, State: state,
			Config: control.ConfigStatus{Files: o.d.cfg.Files, Hash: o.d.cfg.Hash, AppliedAt: o.d.started},
		},
		Nodes: o.d.journal.Nodes(),
	}
}

// Why implements control.Host.
func (o door) Why(path string) (control.Why, error) {
	node, ok := o.d.journal.Node(path)
	if !ok {
		return control.Why{}, control.Errorf(control.CodeNotFound, "no such path: %q", path)
	}
	chain, complete := o.d.journal.Why(path)
	return control.Why{Node: node, Chain: chain, Complete: complete}, nil
}

// Events implements control.Host.
func (o door) Events(ctx context.Context, q control.Query, emit func(any) error) error {
	query := journal.Query{Paths: q.Paths, Since: q.Since}
	if !q.Follow {
		for _, e := range o.d.journal.Events(query) {
			if err := emit(e); err != nil {
				return err
			}
		}
		return nil
	}
	follower := o.d.journal.Follow(query)
	for {
		events, missed, err := follower.Next(ctx)
		if err != nil {
			return err
		}
		if missed > 0 {
			if err := emit(map[string]any{"missed": missed}); err != nil {
				return err
			}
		}
		for _, e := range events {
			if err := emit(e); err != nil {
				return err
			}
		}
	}
}

// Logs implements control.Host. Following, it takes up where the kept lines end, so that no line is missing or twice.
func (o door) Logs(ctx context.Context, q control.Query, emit func(any) error) error {
	query := output.Query{Paths: q.Paths, Since: q.Since, Last: q.Last}
	if !q.Follow {
		for _, l := range o.d.hub.Tail(query) {
			if err := emit(l); err != nil {
				return err
			}
		}
		return nil
	}
	follower := o.d.hub.Follow(query)
	defer follower.Close()
	for {
		line, err := follower.Next(ctx)
		if err != nil {
			return err
		}
		if err := emit(line); err != nil {
			return err
		}
	}
}

// Output implements control.Host.
func (o door) Output() []control.OutputCount {
	stats := o.d.hub.Stats()
	counts := make([]control.OutputCount, 0, len(stats.Workers))
	for _, s := range stats.Workers {
		counts = append(counts, control.OutputCount{Path: s.Path, Lines: s.Lines, Bytes: s.Bytes, Dropped: s.Dropped})
	}
	return counts
}

// Operate implements control.Host.
func (o door) Operate(ctx context.Context, ask control.Ask) (string, error) {
	request := actors.Ask{By: ask.By, Reason: ask.Reason, Wait: ask.Wait, Timeout: ask.Timeout}
	var note string
	var err error
	switch ask.Verb {
	case control.VerbStart:
		note, err = o.d.host.Start(ctx, ask.Path, request)
	case control.VerbStop:
		note, err = o.d.host.Halt(ctx, ask.Path, request)
	case control.VerbRestart:
		note, err = o.d.host.Restart(ctx, ask.Path, request)
	default:
		return "", control.Errorf(control.CodeUsage, "cannot %s: no such operation", ask.Verb)
	}
	return note, operateError(ask, err)
}

// operateError gives an error of the tree the code that the API and the exit status follow from.
func operateError(ask control.Ask, err error) error {
	if err == nil {
		return nil
	}
	text := fmt.Sprintf("cannot %s %s: %v", ask.Verb, ask.Path, err)
	for _, c := range []struct {
		is   error
		code control.Code
	}{
		{actors.ErrTimeout, control.CodeTimeout}, {actors.ErrConflict, control.CodeConflict},
		{actors.ErrNotFound, control.CodeNotFound}, {actors.ErrStopping, control.CodeUnavailable},
		{context.Canceled, control.CodeTimeout},
	} {
		if errors.Is(err, c.is) {
			return control.Errorf(c.code, "%s", text)
		}
	}
	return control.Errorf(control.CodeFailed, "%s", text)
}

// access is who may do what, as the configuration says.
func (d *daemon) access() (control.Access, error) {
	a := control.Access{UID: os.Geteuid(), Group: -1}
	if name := d.cfg.Host.Control.Group; name != "" {
		g, err := user.LookupGroup(name)
		if err != nil {
			return a, fmt.Errorf("control.group: %w", err)
		}
		if a.Group, err = strconv.Atoi(g.Gid); err != nil {
			return a, fmt.Errorf("control.group: %w", err)
		}
	}
	tenants := map[int][]string{}
	for tenant, name := range d.cfg.Owners {
		id, err := process.Lookup(name, "")
		if err != nil {
			return a, err
		}
		tenants[int(id.UID)] = append(tenants[int(id.UID)], tenant)
	}
	a.TenantsOf = func(uid int) []string { return tenants[uid] }
	return a, nil
}

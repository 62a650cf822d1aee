package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-run/coppice/runtime/cgroup"
	"github.com/coppice-run/coppice/runtime/place"
	"github.com/coppice-run/coppice/runtime/process"
)

// leftoverGrace is how long what a killed daemon left has to stop by itself, all of it at once. It is short, because the
// next daemon waits for it.
const leftoverGrace = time.Second

// leftover is one thing that a dead daemon may have left running.
type leftover struct {
	path        string // in the tree; "" if only its cgroup is known
	incarnation int
	record      *place.Record // nil without one
	leaf        *cgroup.Leaf  // nil without one
}

// stopLeftovers stops what a killed daemon of this runtime directory left running, so that no worker ever runs twice. It
// blocks for some seconds at most, less when ctx ends.
func (d *daemon) stopLeftovers(ctx context.Context) error {
	all, err := d.findLeftovers()
	if err != nil {
		return err
	}
	traces := make([]process.Trace, len(all))
	for i := range all {
		traces[i] = all[i].trace()
	}
	for i, r := range process.StopLeftovers(ctx, traces, leftoverGrace) {
		d.reportLeftover(&all[i], &r)
		if len(r.Left) > 0 {
			continue // the record stays for the daemon after this one
		}
		if leaf := all[i].leaf; leaf != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			if err := leaf.RemoveWhenEmpty(ctx); err != nil {
				d.log.Warn("could not remove a dead daemon's cgroup", "path", all[i].path, "error", err)
			}
			cancel()
		}
		if all[i].record != nil {
			all[i].record.Drop()
		}
	}
	for _, dir := range d.groups.Abandoned() {
		d.log.Warn("left alone what runs in a cgroup of a dead daemon of another runtime directory", "cgroup", dir)
	}
	return d.place.Sweep()
}

// findLeftovers collects what the records and the cgroups tell.
func (d *daemon) findLeftovers() ([]leftover, error) {
	records, damaged, err := d.place.Records()
	if err != nil {
		return nil, failf("%v", err)
	}
	for _, file := range damaged {
		d.log.Warn("could not read a record of a dead daemon", "file", file)
		os.Remove(file)
	}
	var all []leftover
	var known []cgroup.Ref
	for i := range records {
		r := &records[i]
		l := leftover{path: r.Path, incarnation: r.Incarnation, record: r}
		ref := cgroup.Ref{V2: r.CgroupV2, V1: r.CgroupV1}
		leaf, err := d.groups.Reopen(ref)
		if err != nil {
			d.log.Warn("could not reopen a dead daemon's cgroup", "path", r.Path, "error", err)
		} else if leaf.Active() {
			l.leaf = leaf
			known = append(known, ref)
		}
		all = append(all, l)
	}
	for _, leaf := range d.groups.Leftovers() {
		if !slices.ContainsFunc(known, leaf.Ref().Refers) {
			all = append(all, leftover{leaf: leaf})
		}
	}
	return all, nil
}

// trace is what the processes are recognised by.
func (l *leftover) trace() process.Trace {
	t := process.Trace{Signal: "TERM"}
	if r := l.record; r != nil {
		t = process.Trace{PID: r.PID, Started: r.Started, UID: uint32(r.UID), Marks: r.Marks, Keyed: r.Keyed,
			Pipes: r.Pipes, Signal: r.Signal}
	}
	if l.leaf != nil {
		t.Group = l.leaf
	}
	return t
}

// reportLeftover says what became of one.
func (d *daemon) reportLeftover(l *leftover, r *process.Remains) {
	who := []any{"path", l.path, "incarnation", l.incarnation}
	if l.record == nil {
		who = []any{"cgroup", l.leaf.Ref().V2}
	}
	say := func(log func(string, ...any), text string, more ...any) { log(text, slices.Concat(who, more)...) }
	if len(r.Found) > 0 {
		say(d.log.Warn, "stopped what a killed daemon left running", "pid", r.Found[0], "processes", len(r.Found), "killed", len(r.Killed))
	}
	if len(r.Left) > 0 {
		say(d.log.Error, "could not end what a killed daemon left running", "pids", r.Left)
	}
	for _, doubt := range r.Doubts {
		say(d.log.Warn, "left a process alone that may be a killed daemon's", "pid", doubt.PID, "why", doubt.Why)
	}
}

// record is what a later daemon will need to recognise a command of this incarnation in its cgroup by.
func (in *instance) record(cmd *process.Command, leaf *cgroup.Leaf) place.Record {
	ref := leaf.Ref()
	r := place.Record{Path: in.ref.Path, Incarnation: in.ref.Inc, UID: in.uid(), Marks: slices.Clone(in.marks), Pipes: pipesOf(cmd),
		CgroupV2: ref.V2, CgroupV1: ref.V1, Signal: in.run.Stop.Signal}
	// What lies in the runtime directory has a name that only this incarnation was ever told.
	secrets := []string{in.home.Socket(), in.home.StopFile(), in.home.HeartbeatFile(), in.home.NotifySocket()}
	for _, entry := range in.env {
		if _, value, _ := strings.Cut(entry, "="); value != "" && slices.Contains(secrets, value) {
			r.Marks, r.Keyed = append(r.Marks, entry), true
		}
	}
	return r
}

// unrecorded says that a later daemon will know less. Nothing is lost by it now, so it is no reason not to start.
func (in *instance) unrecorded(err error) {
	if err != nil {
		in.log.Warn("could not write a record for the next daemon", "path", in.ref.Path, "incarnation", in.ref.Inc, "error", err)
	}
}

// pipesOf is the inodes of the pipes that the command prints to.
func pipesOf(cmd *process.Command) (inodes []uint64) {
	for _, f := range []*os.File{cmd.Stdout, cmd.Stderr} {
		if f == nil {
			continue
		}
		if info, err := f.Stat(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				inodes = append(inodes, st.Ino)
			}
		}
	}
	return inodes
}

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/coppice-run/coppice/actors"
	"github.com/coppice-run/coppice/runtime/cgroup"
	"github.com/coppice-run/coppice/runtime/journal"
	"github.com/coppice-run/coppice/runtime/notify"
	"github.com/coppice-run/coppice/runtime/output"
	"github.com/coppice-run/coppice/runtime/place"
	"github.com/coppice-run/coppice/runtime/probe"
	"github.com/coppice-run/coppice/runtime/process"
	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// launcher makes workers' processes out of runtime's rooms. It is the actors' Launcher.
type launcher struct {
	table    *process.Table
	hub      *output.Hub
	groups   *cgroup.Root
	branches map[string]branch // by path of tenant and app
	place    *place.Dir
	journal  *journal.Journal
	log      hclog.Logger
	lang     string // the daemon's own
}

// branch is the cgroup of a tenant or app, or why its limits cannot be enforced.
type branch struct {
	group *cgroup.Branch
	err   error
}

// plant makes the cgroups of tenants and apps, whose limits all below them share.
func (l *launcher) plant(root *tree.Spec) {
	l.branches = map[string]branch{}
	var grow func(path string, spec *tree.Spec)
	grow = func(path string, spec *tree.Spec) {
		if spec.Kind == tree.KindTenant || spec.Kind == tree.KindApp {
			group, err := l.groups.Branch(path, spec.Limits)
			l.branches[path] = branch{group, err}
		}
		for i := range spec.Children {
			grow(tree.ChildPath(path, spec.Kind, spec.Children[i].Name), &spec.Children[i])
		}
	}
	grow("", root)
}

// Launch makes all that one incarnation needs, from the outside in, and executes its program. What it made it takes back
// when a later step fails.
func (l *launcher) Launch(ctx context.Context, ref tree.Ref, spec *tree.Spec, tell func(tree.Fact)) (actors.Instance, error) {
	in := &instance{launcher: l, ref: ref, run: spec.Run, tell: tell, checks: make(chan struct{}, 1)}
	in.life, in.end = context.WithCancel(context.Background())
	if err := in.prepare(); err != nil {
		in.release()
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		in.release()
		return nil, fmt.Errorf("cannot start: %w", err)
	}
	if err := in.start(); err != nil {
		in.release()
		return nil, err
	}
	in.work.Go(in.follow)
	in.work.Go(func() {
		if in.leaf.AwaitOOM(in.life) == nil {
			in.process.Kill() // a worker that has lost a part of itself would go on as if nothing had happened
		}
	})
	return in, nil
}

// instance is one incarnation of a worker: its process and what surrounds it.
type instance struct {
	*launcher
	ref  tree.Ref
	run  *tree.Run
	tell func(tree.Fact)

	identity *process.Identity
	home     *place.Incarnation
	leaf     *cgroup.Leaf
	capture  *output.Capture
	notify   *notify.Socket
	listener *os.File
	env      []string
	marks    []string
	command  process.Command
	process  *process.Process

	// life ends with Close, probing with Unprobe; work is every goroutine.
	life, probing context.Context
	end, unprobe  context.CancelFunc
	work          sync.WaitGroup

	mu       sync.Mutex
	owner    *process.Process // what notify may believe; nil until the start
	notified bool             // READY=1 came
	logged   bool             // the line of ready.log came
	checks   chan struct{}    // rung when one of the two did
}

// uid is the user that the worker runs as.
func (in *instance) uid() int {
	if in.identity != nil {
		return int(in.identity.UID)
	}
	return os.Geteuid()
}

func (in *instance) gid() int {
	if in.identity != nil {
		return int(in.identity.GID)
	}
	return os.Getegid()
}

// prepare makes the worker's surroundings.
func (in *instance) prepare() (err error) {
	run := in.run
	if in.identity, err = process.Lookup(run.User, run.Group); err != nil {
		return startError("user", err)
	}
	if in.home, err = in.place.Incarnation(in.ref.Path, in.ref.Inc, run, in.uid(), in.gid()); err != nil {
		return startError("socket", err)
	}
	if run.Listen.Mode == tree.ListenInherit {
		if in.listener, err = in.home.Listener(); err != nil {
			return startError("listen", err)
		}
	}
	if in.leaf, err = in.grow(""); err != nil {
		return startError("limits", err)
	}
	match, err := in.matcher()
	if err != nil {
		return startError("ready.log", err)
	}
	if in.capture, err = in.hub.Open(in.ref.Path, in.ref.Inc, run.Logs, match); err != nil {
		return startError("output", err)
	}
	if in.identity != nil {
		// So that a worker may open /dev/stdout again, as it could on a terminal of its own.
		if err := in.capture.Own(in.uid(), in.gid()); err != nil {
			return startError("output", err)
		}
	}
	notifySocket := ""
	if run.Ready.Notify || run.Watchdog > 0 {
		if in.notify, err = notify.Listen(in.home.Folder(), in.uid(), in.gid(), in.owns, in.heard); err != nil {
			return startError("notify socket", err)
		}
		notifySocket = in.home.NotifySocket()
	}
	home := "/"
	if in.identity != nil && in.identity.Home != "" {
		home = in.identity.Home
	} else if h, err := os.UserHomeDir(); in.identity == nil && err == nil {
		home = h
	}
	in.env, in.marks = process.Environ(run, process.Surroundings{
		Path: in.ref.Path, Incarnation: uint64(in.ref.Inc), Lang: in.lang, Home: home,
		Socket: in.home.Socket(), Port: in.home.Port(), StopFile: in.home.StopFile(),
		HeartbeatFile: in.heartbeatFile(), NotifySocket: notifySocket,
	})
	return nil
}

// grow makes a cgroup of the incarnation's own below its app's.
func (in *instance) grow(suffix string) (*cgroup.Leaf, error) {
	app := in.ref.Path[:strings.LastIndexByte(in.ref.Path, '/')]
	b, ok := in.branches[app]
	if !ok {
		return nil, fmt.Errorf("no cgroup for %s", app)
	}
	if b.err != nil {
		return nil, b.err
	}
	return b.group.Leaf(in.ref.Path[len(app)+1:]+"-"+strconv.Itoa(in.ref.Inc)+suffix, in.run.Limits)
}

// heartbeatFile is where the worker's pulse is seen.
func (in *instance) heartbeatFile() string {
	switch {
	case in.run.Heartbeat == nil:
		return ""
	case in.run.Heartbeat.File != "":
		return in.run.Heartbeat.File
	}
	return in.home.HeartbeatFile()
}

// matcher looks for the line that ready.log waits for; nil without one.
func (in *instance) matcher() (func([]byte), error) {
	if in.run.Ready.Log == "" {
		return nil, nil
	}
	pattern, err := regexp.Compile(in.run.Ready.Log)
	if err != nil {
		return nil, err
	}
	return func(line []byte) {
		if pattern.Match(line) {
			in.note(func() { in.logged = true })
		}
	}, nil
}

// start executes the program.
func (in *instance) start() (err error) {
	in.command = process.Command{
		Argv: in.run.Command, Env: in.env, Dir: in.run.Directory, Identity: in.identity, Limits: in.run.Limits,
		Stdout: in.capture.Stdout(), Stderr: in.capture.Stderr(), Marks: in.marks,
	}
	if in.leaf.Active() {
		in.command.Group = in.leaf
	}
	if in.listener != nil {
		in.command.Listeners, in.command.ListenNames = []*os.File{in.listener}, []string{in.run.Worker}
	}
	in.unrecorded(in.home.Note(in.record(&in.command, in.leaf)))
	in.process, err = in.table.Start(in.command)
	in.capture.CloseWriteEnds()
	in.leaf.Rest()
	if in.listener != nil {
		in.listener.Close() // the worker has it, and place keeps one for the next incarnation
	}
	if err != nil {
		return err
	}
	in.unrecorded(in.home.Born(in.process.PID(), in.process.Birth()))
	in.mu.Lock()
	in.owner = in.process
	in.mu.Unlock()
	return nil
}

// owns tells whether a process that reports on the notify socket belongs to this worker.
func (in *instance) owns(pid int) bool {
	in.mu.Lock()
	p := in.owner
	in.mu.Unlock()
	return p != nil && p.Owns(pid)
}

// heard takes one report of the worker.
func (in *instance) heard(m notify.Message) {
	if m.Refused != "" {
		in.log.Warn("refused a notification", "path", in.ref.Path, "incarnation", in.ref.Inc, "pid", m.PID, "uid", m.UID, "why", m.Refused)
		return
	}
	if m.HasStatus {
		in.journal.Observe(in.ref.Path, in.ref.Inc, tree.Observation{Status: &m.Status})
	}
	if m.Ready {
		in.note(func() { in.notified = true })
	}
	if m.Watchdog {
		in.tell(tree.Beat{})
	}
}

// note records that a part of the readiness has come about and wakes the one who waits for all of it.
func (in *instance) note(what func()) {
	in.mu.Lock()
	what()
	in.mu.Unlock()
	select {
	case in.checks <- struct{}{}:
	default:
	}
}

// target is how the worker can be reached.
func (in *instance) target() probe.Target {
	t := probe.Target{PeerUID: -1, Run: in.runCommand}
	switch in.run.Listen.Mode {
	case tree.ListenTCP:
		t.Network, t.Address = "tcp", "127.0.0.1:"+strconv.Itoa(in.home.Port())
	case tree.ListenUnix:
		t.Network, t.Address, t.PeerUID = "unix", in.home.Socket(), in.uid()
	case tree.ListenInherit:
		t.Network, t.Address = "unix", in.home.Socket()
		if in.run.Listen.Address != "" {
			t.Network, t.Address = "tcp", in.run.Listen.Address
		}
	}
	return t
}

// PID, Socket and Port are what status shows.
func (in *instance) PID() int       { return in.process.PID() }
func (in *instance) Socket() string { return in.home.Socket() }
func (in *instance) Port() int      { return in.home.Port() }

func startError(step string, err error) error {
	return &process.StartError{Step: step, Err: err}
}

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-run/coppice/actors"
	"github.com/coppice-run/coppice/config"
	"github.com/coppice-run/coppice/runtime/cgroup"
	"github.com/coppice-run/coppice/runtime/control"
	"github.com/coppice-run/coppice/runtime/journal"
	"github.com/coppice-run/coppice/runtime/lock"
	"github.com/coppice-run/coppice/runtime/notify"
	"github.com/coppice-run/coppice/runtime/output"
	"github.com/coppice-run/coppice/runtime/place"
	"github.com/coppice-run/coppice/runtime/process"
	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// daemon is the wired house: the tree, and the rooms that act for it.
type daemon struct {
	cfg     *config.Config
	log     hclog.Logger
	started time.Time

	journal  *journal.Journal
	hub      *output.Hub
	groups   *cgroup.Root
	place    *place.Dir
	listener *lock.Listener
	host     *actors.Host
	announce *notify.Daemon

	// background is what lives as long as the daemon and longer than the tree: the log writer and the reaper.
	background context.Context
	end        context.CancelFunc
	work       sync.WaitGroup
}

// openDaemon opens the rooms and starts nothing of the tree.
func openDaemon(ctx context.Context, cfg *config.Config, log hclog.Logger, stdout io.Writer) (d *daemon, err error) {
	d = &daemon{cfg: cfg, log: log, started: time.Now()}
	d.background, d.end = context.WithCancel(context.WithoutCancel(ctx))
	opened := d
	defer func() {
		if err != nil {
			opened.close() // d is nil by then
		}
	}()
	if d.place, err = place.Open(cfg.Host.RuntimeDir); err != nil {
		return nil, failf("%v", err)
	}
	if err := d.place.Check(&cfg.Tree); err != nil {
		return nil, failf("%v", err)
	}
	if d.listener, err = lock.ListenUnix(controlSocket(&cfg.Host), 0o666); err != nil {
		return nil, failf("%v", err)
	}
	if d.groups, err = cgroup.Open(log.Named("cgroup"), d.place.Name()); err != nil {
		return nil, failf("%v", err)
	}
	if err := d.stopLeftovers(ctx); err != nil {
		return nil, err
	}
	options := actors.Options{
		Spec: cfg.Tree, Parts: d.parts(), Log: log.Named("actors"), DrainTimeout: cfg.Host.DrainTimeout,
		Dice: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
	d.journal = journal.New(journal.Options{Root: actors.Root(options.Spec, options.Parts)})
	d.hub = output.NewHub(output.Config{
		Dir: filepath.Join(cfg.Host.StateDir, "logs"), Stdout: stdout, Format: cfg.Host.LogFormat,
		Dropped: d.dropped, Log: log.Named("output"),
	})
	table := process.NewTable(selfFrom(ctx))
	if err := table.Subreaper(); err != nil {
		return nil, failf("%v", err)
	}
	d.work.Go(func() { table.Reap(d.background) })
	d.work.Go(func() { d.journal.Log(d.background, log) })
	launch := &launcher{table: table, hub: d.hub, groups: d.groups, place: d.place, journal: d.journal,
		log: log.Named("launch"), lang: os.Getenv("LANG")}
	launch.plant(&cfg.Tree)
	options.Launcher, options.Journal = launch, d.journal
	d.host = actors.NewHost(options)
	return d, nil
}

// parts are the daemon's own long-running pieces, which live in the tree as `_host/NAME` and are restarted like anybody.
func (d *daemon) parts() []tree.Spec {
	restart := tree.DefaultRestart()
	restart.Limit = 0
	part := func(name string, run actors.Func) tree.Spec {
		return tree.Spec{Name: name, Kind: tree.KindPart, Restart: restart, Shutdown: 5 * time.Second, Body: run}
	}
	return []tree.Spec{part("control", d.serveControl)}
}

// serveControl answers on the control socket. The listener outlives it: a restart of this part refuses nobody.
func (d *daemon) serveControl(ctx context.Context) error {
	l, err := shared(d.listener)
	if err != nil {
		return err
	}
	access, err := d.access()
	if err != nil {
		l.Close()
		return err
	}
	return control.Server{Host: door{d}, Access: access, Log: d.log.Named("control")}.Serve(ctx, l)
}

// shared is a second descriptor of the same listening socket.
func shared(l *lock.Listener) (net.Listener, error) {
	f, err := l.File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileListener(f)
}

// dropped records what a worker lost to its rate.
func (d *daemon) dropped(path string, incarnation int, lines int64) {
	d.journal.Append(tree.Event{Path: path, Incarnation: incarnation, Kind: tree.EventLimitDropped,
		Reason: fmt.Sprintf("dropped %d lines over the rate", lines), Data: map[string]any{"dropped": lines}})
}

// supervise runs the tree until a signal, the end of ctx, or the host's intensity ends it.
func (d *daemon) supervise(ctx context.Context, signals <-chan os.Signal) error {
	if d.toldToStop(signals) {
		return nil // while the rooms were opened: nothing was started, and nothing will be
	}
	born := d.journal.Append(tree.Event{Kind: tree.EventDaemonStarted,
		Data: map[string]any{"pid": os.Getpid(), "version": version, "config": d.cfg.Hash}})
	ended := make(chan error, 1)
	d.work.Go(func() { ended <- d.host.Run(born) })
	if err := d.announce.Ready(); err != nil {
		d.log.Warn("could not tell the supervisor above", "error", err)
	}
	asked, killed := false, false
	over := ctx.Done()
	for {
		select {
		case err := <-ended:
			return exitOf(err, killed)
		case <-over:
			over, asked = nil, true
			d.stop("asked to stop", false)
		case sig := <-signals:
			switch {
			case sig == syscall.SIGHUP || sig == syscall.SIGUSR2:
				d.log.Warn("ignored a signal: not supported yet", "signal", name(sig))
			case !asked:
				asked = true
				d.stop("signal "+name(sig), false)
			case !killed:
				killed = true
				d.stop("signal "+name(sig)+" again", true)
			}
		}
	}
}

// toldToStop tells whether a signal that waits already says so.
func (d *daemon) toldToStop(signals <-chan os.Signal) bool {
	for {
		select {
		case sig := <-signals:
			if sig == syscall.SIGTERM || sig == syscall.SIGINT {
				return true
			}
			d.log.Warn("ignored a signal: not supported yet", "signal", name(sig))
		default:
			return false
		}
	}
}

// stop asks the tree to go.
func (d *daemon) stop(reason string, kill bool) {
	seq := d.journal.Append(tree.Event{Kind: tree.EventDaemonStopping, Reason: reason})
	d.host.Stop(kill, seq)
	if err := d.announce.Stopping(); err != nil {
		d.log.Warn("could not tell the supervisor above", "error", err)
	}
}

func name(sig os.Signal) string {
	switch sig {
	case syscall.SIGTERM:
		return "TERM"
	case syscall.SIGINT:
		return "INT"
	case syscall.SIGHUP:
		return "HUP"
	case syscall.SIGUSR2:
		return "USR2"
	}
	return sig.String()
}

// close gives back what openDaemon took, in reverse, and waits for every goroutine.
func (d *daemon) close() {
	if d.listener != nil {
		d.listener.Close()
	}
	d.end()
	d.work.Wait()
	if d.hub != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		d.hub.Close(ctx)
		cancel()
	}
	if d.groups != nil {
		d.groups.Close()
	}
	if d.place != nil {
		d.place.Close()
	}
}

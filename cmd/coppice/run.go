package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/coppice-run/coppice/actors"
	"github.com/coppice-run/coppice/config"
	"github.com/coppice-run/coppice/runtime/lock"
	"github.com/coppice-run/coppice/runtime/notify"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
)

func (c *console) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run [CONFIG]",
		Short: "Supervise in the foreground",
		Long: `Supervise what the configuration (default ` + defaultConfig + `) says, in the foreground. The daemon's log goes to stderr,
workers' output with logs.to = "stdout" to stdout.

TERM or INT stops everything in order and exits 0; a second one kills at once and exits 1. 70: the host's intensity was
exceeded. 75: another daemon holds the runtime or state directory. It works as PID 1, and speaks sd_notify.`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if runtime.GOOS != "linux" {
				return failf("cannot run workers on %s: Coppice needs Linux", runtime.GOOS)
			}
			cfg, err := c.load(configPath(args))
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), cfg)
		},
	}
}

// run is the daemon's life: take the folders, open the rooms, supervise, and give everything back.
func (c *console) run(ctx context.Context, cfg *config.Config) error {
	// From here on a signal is an order, and comes in the order in which it was sent.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR2)
	defer signal.Stop(signals)

	outer := notify.NewDaemon()
	log := hclog.New(&hclog.LoggerOptions{
		Name: "coppice", Output: c.err, Level: hclog.LevelFromString(cfg.Host.LogLevel),
		JSONFormat: cfg.Host.LogFormat == "json", TimeFormat: timeFormat,
	})
	locks, err := takeFolders(&cfg.Host)
	if err != nil {
		return err
	}
	defer locks.release()
	d, err := openDaemon(ctx, cfg, log, c.out)
	if err != nil {
		return err
	}
	defer d.close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.work.Go(func() { outer.Pings(ctx, func() bool { return true }) })
	d.announce = outer
	return d.supervise(ctx, signals)
}

// lockPatience bounds how long what a killed daemon had just forked may keep its locks.
const lockPatience = 5 * time.Second

// folders are the locks that keep a second daemon out.
type folders []*lock.Lock

func (f folders) release() {
	for _, l := range f {
		l.Release()
	}
}

// takeFolders makes the daemon's folders and locks them, before anything in them is touched.
func takeFolders(host *config.Host) (taken folders, err error) {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	for _, f := range []struct {
		dir  string
		mode os.FileMode
	}{{host.RuntimeDir, mode}, {host.StateDir, 0o700}} {
		if err = lock.Prepare(f.dir, f.mode); err == nil {
			var l *lock.Lock
			if l, err = lock.AcquireNext(f.dir, lockPatience); err == nil {
				taken = append(taken, l)
				continue
			}
		}
		taken.release()
		var held *lock.Held
		if errors.As(err, &held) {
			return nil, &exitError{exitBusy, held.Error()}
		}
		return nil, failf("%v", err)
	}
	return taken, nil
}

// socketPath is where the control socket of this configuration is.
func controlSocket(host *config.Host) string { return filepath.Join(host.RuntimeDir, "control.sock") }

// exitOf turns the end of the tree into the daemon's.
func exitOf(err error, killed bool) error {
	switch {
	case errors.Is(err, actors.ErrIntensity):
		return &exitError{exitIntensity, fmt.Sprintf("gave up: %v", err)}
	case err != nil:
		return failf("%v", err)
	case killed:
		return &exitError{exitFailed, "was told twice to stop, and killed what was left"}
	}
	return nil
}

package notify

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// outerWait bounds how long a supervisor that does not read can hold up the daemon.
const outerWait = 2 * time.Second

// Daemon reports to what supervises the daemon itself. Where nothing does, or to a zero Daemon, every method does
// nothing. All of it may be called from any goroutine.
//
// It is not go-systemd's: that reads the environment anew for each message, so the variables would have to stay where
// workers could see them, and it has no deadline, so a supervisor that hangs would hang us.
type Daemon struct {
	socket   string
	watchdog time.Duration
	environ  []string
}

// NewDaemon takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of this process's environment, so that nothing
// inherits them. It is called once, before anything is started.
func NewDaemon() *Daemon {
	d := &Daemon{socket: os.Getenv("NOTIFY_SOCKET")}
	usec, uerr := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	pid := os.Getenv("WATCHDOG_PID")
	if uerr == nil && usec > 0 && usec < int64(24*365*time.Hour/time.Microsecond) &&
		(pid == "" || pid == strconv.Itoa(os.Getpid())) {
		d.watchdog = time.Duration(usec) * time.Microsecond
	}
	for _, key := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if v, ok := os.LookupEnv(key); ok {
			d.environ = append(d.environ, key+"="+v)
			os.Unsetenv(key)
		}
	}
	return d
}

// Environ is what NewDaemon took away, as KEY=VALUE: what an exec of the daemon's next version in the same process must
// give it.
func (d *Daemon) Environ() []string { return d.environ }

// Ready reports that the daemon is up, after its start and after each reload.
func (d *Daemon) Ready() error { return d.tell("READY=1") }

// Reloading reports that a reload has begun; Ready ends it.
func (d *Daemon) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("cannot notify: %w", err)
	}
	// With the time systemd can tell this reload from one that it has not asked for yet.
	return d.tell("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10))
}

// Stopping reports that the daemon is going down.
func (d *Daemon) Stopping() error { return d.tell("STOPPING=1") }

// Status reports one line for people; line breaks become spaces.
func (d *Daemon) Status(line string) error {
	return d.tell("STATUS=" + strings.NewReplacer("\n", " ", "\x00", " ").Replace(cut(line, maxStatus)))
}

// Pings tells the supervisor's watchdog that the daemon lives, twice per interval, until ctx ends; alive is asked before
// each one, and while it says no there is none. Without a watchdog it returns at once. It blocks.
func (d *Daemon) Pings(ctx context.Context, alive func() bool) {
	if d.socket == "" || d.watchdog == 0 {
		return
	}
	t := time.NewTicker(max(d.watchdog/2, time.Millisecond))
	defer t.Stop()
	for {
		if alive() {
			// A lost one is not worth a word: the next comes in time.
			_ = d.tell("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// tell does not wait for a barrier: the daemon stays.
func (d *Daemon) tell(message string) error {
	if d.socket == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), outerWait)
	defer cancel()
	conn, err := dial(ctx, d.socket)
	if err != nil {
		return fmt.Errorf("cannot notify: %w", err)
	}
	defer conn.Close()
	if err := write(conn, message); err != nil {
		return fmt.Errorf("cannot notify: %s: %w", d.socket, reason(err))
	}
	return nil
}

func write(conn *net.UnixConn, message string) error {
	if err := conn.SetWriteDeadline(time.Now().Add(outerWait)); err != nil {
		return err
	}
	_, err := conn.Write([]byte(message))
	return err
}

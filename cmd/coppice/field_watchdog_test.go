package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// The field's cases of watchdogs: what falls silent is ended and counted, what lives is left alone, and the wall clock has
// no say in it.

func TestFieldWatchdog(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	worker := func(name, script string) string {
		return `  worker "` + name + `" {
    command  = $` + script + `$
    watchdog = "1500ms"
    ready { notify = true }
    restart { backoff = "10ms" }
    stop { timeout = "1h" }
  }
`
	}
	d.configure(`app "a" {
`+worker("silent", "silent")+worker("beats", "beats")+worker("child", "child")+`  worker "early" {
    command  = ["sleep", "1000"]
    watchdog = "1s"
    restart { backoff = "10ms" }
  }
  worker "slow" {
    command  = $slow$
    watchdog = "1s"
    ready { notify = true }
  }
}`, map[string]string{
		// Ignores TERM and hangs: KILL ends it at once, though its stop may take an hour.
		"silent": "import signal\nif os.environ['COPPICE_INCARNATION'] == '1': signal.signal(signal.SIGTERM, signal.SIG_IGN); tell(b'READY=1'); forever()\ntell(b'READY=1')\nwhile True: tell(b'WATCHDOG=1'); time.sleep(0.1)",
		"beats":  "assert os.environ['WATCHDOG_USEC'] == '1500000', os.environ['WATCHDOG_USEC']\ntell(b'READY=1')\nwhile True: tell(b'WATCHDOG=1'); time.sleep(0.1)",
		"child":  "tell(b'READY=1')\nif os.fork() == 0:\n while True: tell(b'WATCHDOG=1'); time.sleep(0.1)\nforever()",
		// Not ready for longer than its watchdog: it does not count before.
		"slow": "time.sleep(2); tell(b'READY=1')\nwhile True: tell(b'WATCHDOG=1'); time.sleep(0.1)",
	})
	d.start()
	n := d.untilNode("default/a/silent.0", "to be back", func(n tree.Node) bool { return n.Incarnation == 2 && n.Ready })
	if n.Restarts != 1 || n.LastExit == nil || n.LastExit.Signal != "KILL" {
		t.Errorf("silent: %+v %+v", n, n.LastExit)
	}
	ready, stopping := d.first("default/a/silent.0", tree.EventReady), d.first("default/a/silent.0", tree.EventStopping)
	if took := stopping.Time.Sub(ready.Time); stopping.Reason != "watchdog" || took < 1500*time.Millisecond || took > 10*time.Second {
		t.Errorf("silent ended after %s: %+v", took, stopping)
	}
	if e := d.first("default/a/silent.0", tree.EventBackoff); e.Reason != "watchdog" || e.Data["attempt"] != 1.0 {
		t.Errorf("it counts as a failure: %+v", e)
	}
	if e := d.first("default/a/early.0", tree.EventStopping); e.Reason != "watchdog" {
		t.Errorf("one that never beats: %+v", e)
	}
	d.running("default/a/slow.0")
	for _, path := range []string{"beats", "child", "slow"} {
		if n := d.running("default/a/" + path + ".0"); n.Incarnation != 1 {
			t.Errorf("%s beats, and was ended: %v", path, d.events("default/a/"+path))
		}
	}
}

func TestFieldHeartbeat(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.configure(`app "a" {
  worker "stops" {
    command = ["sh", "-c", "[ $COPPICE_INCARNATION = 1 ] && touch $COPPICE_HEARTBEAT_FILE && exec sleep 1000; while :; do touch $COPPICE_HEARTBEAT_FILE; sleep 0.1; done"]
    heartbeat { stale = "1s" }
    restart { backoff = "10ms" }
  }
  worker "never" {
    command = ["sleep", "1000"]
    heartbeat { stale = "500ms" }
    `+once+`
  }
  worker "own" {
    command = ["sh", "-c", "[ $COPPICE_HEARTBEAT_FILE = $dir$/pulse ] || exit 9; while :; do touch $dir$/pulse; sleep 0.1; done"]
    heartbeat {
      file  = "$dir$/pulse"
      stale = "2s"
    }
  }
  worker "past" {
    command = ["sh", "-c", "i=1; while :; do touch -d \"2001-01-01 00:00:$((i % 60))\" $COPPICE_HEARTBEAT_FILE; i=$((i+1)); sleep 0.1; done"]
    heartbeat { stale = "2s" }
  }
  worker "future" {
    command = ["sh", "-c", "touch -d 2099-01-01 $COPPICE_HEARTBEAT_FILE; exec sleep 1000"]
    heartbeat { stale = "1s" }
    `+once+`
  }
}`, nil)
	d.start()
	n := d.untilNode("default/a/stops.0", "to be back", func(n tree.Node) bool { return n.Incarnation == 2 && n.Ready })
	if e := d.first("default/a/stops.0", tree.EventStopping); e.Reason != "heartbeat stale" || n.Restarts != 1 {
		t.Errorf("stops: %+v %+v", e, n)
	}
	// A pulse in the year 2099 is not fresh for ever.
	for _, path := range []string{"never", "future"} {
		if n := d.untilNode("default/a/"+path+".0", "to be given up", func(n tree.Node) bool { return n.State == tree.StateBackoff }); n.Reason != "heartbeat stale" {
			t.Errorf("%s: %+v", path, n)
		}
	}
	// What beats lives, whatever its clock says.
	for _, path := range []string{"own", "past"} {
		if n := d.running("default/a/" + path + ".0"); n.Incarnation != 1 {
			t.Errorf("%s beats, and was ended: %v", path, d.events("default/a/"+path))
		}
	}
	if _, err := os.Stat(filepath.Join(d.dir, "pulse")); err != nil {
		t.Error(err)
	}
	if strings.Contains(d.stderr.String(), "panic") {
		t.Error("panic")
	}
}

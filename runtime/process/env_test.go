package process

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-run/coppice/tree"
)

func TestEnviron(t *testing.T) {
	base := func(change func(*tree.Run)) *tree.Run {
		run := tree.DefaultRun()
		run.Tenant, run.App, run.Worker, run.Index = "acme", "shop", "web", 2
		if change != nil {
			change(&run)
		}
		return &run
	}
	all := Surroundings{Path: "acme/shop/web.2", Incarnation: 7, Lang: "de_DE.UTF-8", Home: "/home/acme", Socket: "/run/s/x.sock",
		Port: 4711, StopFile: "/run/i/stop", HeartbeatFile: "/run/i/beat", NotifySocket: "/run/i/notify"}
	core := []string{"COPPICE_APP=shop", "COPPICE_INCARNATION=7", "COPPICE_INDEX=2", "COPPICE_PATH=acme/shop/web.2",
		"COPPICE_TENANT=acme", "COPPICE_WORKER=web", "HOME=/home/acme", "LANG=de_DE.UTF-8", "PATH=" + DefaultPath}
	with := func(without []string, more ...string) []string {
		list := slices.Concat(slices.DeleteFunc(slices.Clone(core), func(e string) bool { return slices.Contains(without, e) }), more)
		slices.Sort(list)
		return list
	}
	for _, c := range []struct {
		name string
		run  *tree.Run
		at   Surroundings
		want []string
	}{
		{"nothing asked for", base(nil), all, core},
		{"no language", base(nil), Surroundings{Path: all.Path, Incarnation: 7, Home: all.Home},
			with([]string{"LANG=de_DE.UTF-8"}, "LANG=C.UTF-8")},
		{"unix", base(func(r *tree.Run) { r.Listen.Mode = tree.ListenUnix }), all,
			with(nil, "COPPICE_SOCKET=/run/s/x.sock", "PORT=/run/s/x.sock")},
		{"tcp", base(func(r *tree.Run) { r.Listen.Mode = tree.ListenTCP }), all, with(nil, "PORT=4711")},
		{"inherit, unix", base(func(r *tree.Run) { r.Listen.Mode = tree.ListenInherit }), all,
			with(nil, "COPPICE_SOCKET=/run/s/x.sock")},
		{"inherit, address", base(func(r *tree.Run) { r.Listen.Mode = tree.ListenInherit }),
			Surroundings{Path: all.Path, Incarnation: 7, Home: all.Home, Lang: all.Lang}, core},
		{"stop file", base(func(r *tree.Run) { r.Stop.File = true }), all, with(nil, "COPPICE_STOP_FILE=/run/i/stop")},
		{"heartbeat", base(func(r *tree.Run) { r.Heartbeat = &tree.Heartbeat{} }), all, with(nil, "COPPICE_HEARTBEAT_FILE=/run/i/beat")},
		{"notify", base(func(r *tree.Run) { r.Ready.Notify = true }), all, with(nil, "NOTIFY_SOCKET=/run/i/notify")},
		{"watchdog", base(func(r *tree.Run) { r.Watchdog = 30 * time.Second }), all,
			with(nil, "NOTIFY_SOCKET=/run/i/notify", "WATCHDOG_USEC=30000000")},
		{"configured", base(func(r *tree.Run) {
			r.Env = map[string]string{"PATH": "/bin", "LANG": "C", "HOME": "/", "EMPTY": "", "PORT": "80", "A": "b=c"}
		}), all, with([]string{"HOME=/home/acme", "LANG=de_DE.UTF-8", "PATH=" + DefaultPath}, "PATH=/bin", "LANG=C", "HOME=/", "EMPTY=", "PORT=80", "A=b=c")},
		{"reserved names are not theirs", base(func(r *tree.Run) {
			r.Env = map[string]string{"COPPICE_PATH": "x", "COPPICE_SOCKET": "x", "NOTIFY_SOCKET": "x", "LISTEN_PID": "1", "COPPICE_OTHER": "mine"}
		}), all, with(nil, "COPPICE_OTHER=mine")},
		{"a run", base(nil), Surroundings{Path: all.Path, Incarnation: 7, Home: all.Home, Lang: all.Lang,
			Scheduled: &Scheduled{RunID: "r1", At: time.Date(2026, 1, 2, 4, 4, 5, 0, time.FixedZone("", 3600)), Limit: 50}},
			with(nil, "COPPICE_RUN_ID=r1", "COPPICE_SCHEDULED_AT=2026-01-02T03:04:05Z", "COPPICE_LIMIT=50")},
		{"a run without a limit", base(nil), Surroundings{Path: all.Path, Incarnation: 7, Home: all.Home, Lang: all.Lang,
			Scheduled: &Scheduled{RunID: "r1", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
			with(nil, "COPPICE_RUN_ID=r1", "COPPICE_SCHEDULED_AT=2026-01-02T03:04:05Z")},
	} {
		env, marks := Environ(c.run, c.at)
		if diff := cmp.Diff(c.want, env); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if diff := cmp.Diff([]string{"COPPICE_INCARNATION=7", "COPPICE_PATH=acme/shop/web.2"}, marks); diff != "" {
			t.Errorf("%s: marks: %s", c.name, diff)
		}
	}
	run := base(func(r *tree.Run) { r.Prefix = "SCALWS"; r.Env = map[string]string{"COPPICE_PATH": "mine"} })
	env, marks := Environ(run, all)
	if !slices.Contains(env, "SCALWS_PATH=acme/shop/web.2") || !slices.Contains(env, "COPPICE_PATH=mine") || len(marks) != 2 {
		t.Error(env, marks)
	}
}

func TestLookup(t *testing.T) {
	if id, err := Lookup("", ""); id != nil || err != nil {
		t.Error(id, err)
	}
	id, err := Lookup("root", "")
	if err != nil || id.UID != 0 || id.GID != 0 || id.Name != "root" || id.Home == "" {
		t.Error(id, err)
	}
	if id, err := Lookup("0", "0"); err != nil || id.Name != "root" {
		t.Error(id, err)
	}
	for _, c := range []struct{ user, group, want string }{
		{"no-such-user", "", `cannot find user "no-such-user": no such user`},
		{"999999999", "", `cannot find user "999999999": no such user`},
		{"root", "no-such-group", `cannot find group "no-such-group": no such group`},
	} {
		if _, err := Lookup(c.user, c.group); err == nil || err.Error() != c.want {
			t.Error(err)
		}
	}
}

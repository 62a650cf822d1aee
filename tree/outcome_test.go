package tree

import (
	"fmt"
	"testing"
)

func TestJudge(t *testing.T) {
	const db, web0, web1 = "acme/shop/db.0", "acme/shop/web.0", "acme/shop/web.1"
	again := map[string]any{"restart": true}
	type entry struct {
		path   string
		inc    int
		kind   EventKind
		reason string
		data   map[string]any
	}
	tests := []struct {
		about  string
		asked  Asked
		target string
		before []entry
		after  []entry
		want   string
	}{
		{"started", AskedStart, db, nil, []entry{{db, 1, EventStarting, "start", nil}, {db, 1, EventReady, "", nil}}, "done"},
		{"runs already", AskedStart, db, []entry{{db, 1, EventStarting, "", nil}, {db, 1, EventReady, "", nil}}, nil, "done"},
		{"not yet ready", AskedStart, db, nil, []entry{{db, 1, EventStarting, "start", nil}}, "going " + db},
		{"failed before: that does not count", AskedStart, db, []entry{{db, 1, EventStarting, "", nil}, {db, 1, EventBackoff, "exit 1", nil}}, nil, "going " + db},
		{"the first start fails", AskedStart, db, nil,
			[]entry{{db, 1, EventStarting, "start", nil}, {db, 1, EventExited, "exit 1", map[string]any{"code": 1}}, {db, 1, EventBackoff, "exit 1", nil},
				{db, 2, EventStarting, "exit 1", again}, {db, 2, EventReady, "", nil}}, "failed " + db + ": exit 1"},
		{"without backoff the next start tells", AskedStart, db, nil,
			[]entry{{db, 1, EventStarting, "start", nil}, {db, 1, EventStopping, "not ready in 30s", nil},
				{db, 1, EventExited, "signal TERM", map[string]any{"code": -1, "signal": "TERM"}}, {db, 2, EventStarting, "not ready in 30s", again}},
			"failed " + db + ": not ready in 30s"},
		{"what was missing is told beside the reason", AskedStart, db, nil,
			[]entry{{db, 1, EventStarting, "start", nil}, {db, 1, EventStopping, "not ready in 30s", map[string]any{"detail": "READY=1 has not come"}},
				{db, 1, EventExited, "signal TERM", map[string]any{"code": -1, "signal": "TERM"}}, {db, 1, EventBackoff, "not ready in 30s", nil}},
			"failed " + db + ": not ready in 30s: READY=1 has not come"},
		{"a sibling took it along", AskedStart, "acme/shop", []entry{{db, 1, EventStarting, "", nil}, {db, 1, EventReady, "", nil}},
			[]entry{{web0, 1, EventStarting, "start", nil}, {web0, 1, EventStopping, "sibling db.0", nil},
				{web0, 1, EventExited, "signal TERM", map[string]any{"signal": "TERM"}}, {web0, 2, EventStarting, "sibling db.0", again}, {web0, 2, EventReady, "", nil}},
			"going " + web1},
		{"a crash after ready is no failed start", AskedStart, db, nil,
			[]entry{{db, 1, EventStarting, "start", nil}, {db, 1, EventReady, "", nil}, {db, 1, EventExited, "exit 1", nil}, {db, 1, EventBackoff, "exit 1", nil}}, "going " + db},
		{"never before ready", AskedStart, db, nil,
			[]entry{{db, 1, EventStarting, "start", nil}, {db, 1, EventFailed, "cannot start: exec /x: permission denied", nil}},
			"failed " + db + ": cannot start: exec /x: permission denied"},
		{"a temporary one ends badly", AskedStart, db, nil,
			[]entry{{db, 1, EventStarting, "start", nil}, {db, 1, EventExited, "exit 2", map[string]any{"code": 2}}, {db, 1, EventDone, "exit 2", nil}}, "failed " + db + ": exit 2"},
		{"or well", AskedStart, db, nil,
			[]entry{{db, 1, EventStarting, "start", nil}, {db, 1, EventExited, "exit 0", map[string]any{"code": 0}}, {db, 1, EventDone, "exit 0", nil}}, "done"},
		{"somebody stops it meanwhile", AskedStart, db, nil,
			[]entry{{db, 1, EventStarting, "start", nil}, {db, 1, EventStopped, "stopped by eve", nil}}, "failed " + db + ": stopped by eve"},
		{"the app gives up", AskedStart, db, nil,
			[]entry{{"acme/shop", 1, EventStarting, "start", nil}, {db, 1, EventStarting, "start", nil}, {db, 1, EventExited, "exit 1", map[string]any{"code": 1}},
				{"acme/shop", 1, EventFailed, "intensity exceeded by db.0", nil}}, "failed " + db + ": exit 1"},
		{"an app is ready with all of it", AskedStart, "acme/shop/web", nil,
			[]entry{{web0, 1, EventStarting, "", nil}, {web0, 1, EventReady, "", nil}, {web1, 1, EventStarting, "", nil}, {web1, 1, EventReady, "", nil}}, "done"},
		{"what somebody stopped by name is not wanted", AskedStart, "acme/shop/web",
			[]entry{{web1, 0, EventIntent, "stopped by bob", map[string]any{"intent": "stopped"}}, {web1, 0, EventStopped, "stopped by bob", nil}},
			[]entry{{web0, 1, EventStarting, "", nil}, {web0, 1, EventReady, "", nil}}, "done"},
		{"but what is asked for is", AskedStart, web1,
			[]entry{{web1, 0, EventIntent, "stopped by bob", map[string]any{"intent": "stopped"}}, {web1, 0, EventStopped, "stopped by bob", nil}}, nil, "going " + web1},
		{"a restart needs a new start", AskedRestart, db, []entry{{db, 1, EventStarting, "", nil}, {db, 1, EventReady, "", nil}}, nil, "going " + db},
		{"and gets it", AskedRestart, db, []entry{{db, 1, EventStarting, "", nil}, {db, 1, EventReady, "", nil}},
			[]entry{{db, 1, EventStopping, "restarted by bob", nil}, {db, 1, EventExited, "signal TERM", map[string]any{"signal": "TERM"}},
				{db, 2, EventStarting, "restarted by bob", nil}, {db, 2, EventReady, "", nil}}, "done"},
		{"the replacement fails while the old one leaves", AskedRestart, db, []entry{{db, 1, EventStarting, "", nil}, {db, 1, EventReady, "", nil}},
			[]entry{{db, 2, EventStarting, "restarted by bob", nil}, {db, 1, EventExited, "exit 9", map[string]any{"code": 9}}, {db, 2, EventBackoff, "exit 1", nil}},
			"failed " + db + ": exit 1"},
		{"stopped", AskedStop, "acme/shop", []entry{{db, 1, EventStarting, "", nil}, {db, 1, EventReady, "", nil}},
			[]entry{{"acme/shop", 1, EventStopping, "", nil}, {db, 1, EventStopping, "", nil}, {db, 1, EventExited, "", nil}, {"acme/shop", 1, EventStopped, "stopped by bob", nil}}, "done"},
		{"not yet", AskedStop, db, []entry{{db, 1, EventStarting, "", nil}, {db, 1, EventReady, "", nil}}, []entry{{db, 1, EventStopping, "", nil}}, "going " + db},
		{"it would come back", AskedStop, db, []entry{{db, 1, EventStarting, "", nil}},
			[]entry{{db, 1, EventFailed, "exit 1", map[string]any{"delay": 30}}}, "going " + db},
		{"it cannot be killed", AskedStop, db, []entry{{db, 1, EventStarting, "", nil}},
			[]entry{{db, 1, EventKilled, "still there 5s after KILL", map[string]any{"killed": 0, "left": []int{7}}}, {db, 1, EventStopped, "", nil}},
			"failed " + db + ": still there 5s after KILL"},
	}
	for _, test := range tests {
		b := newTale(shopSpec())
		var events []Event
		for i, e := range append(append([]entry{}, test.before...), test.after...) {
			b.say(e.path, e.inc, e.kind, e.reason, e.data)
			if i >= len(test.before) {
				events = append(events, Event{Seq: b.seq, Time: b.now, Path: e.path, Incarnation: e.inc, Kind: e.kind, Reason: e.reason, Data: e.data})
			}
		}
		o := Judge(test.asked, test.target, b.Nodes(), events)
		got := "going " + o.Path
		switch {
		case o.Done && o.Failed:
			got = "done and failed"
		case o.Done:
			got = "done"
		case o.Failed:
			got = fmt.Sprintf("failed %s: %s", o.Path, o.Reason)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.about, got, test.want)
		}
	}
}

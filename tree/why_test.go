package tree

import (
	"fmt"
	"strings"
	"testing"
)

// shopJournal is an evening in a shop: db crashes, web goes with it, db exceeds the intensity, the app comes back.
func shopJournal() []Event {
	e := func(seq Seq, path string, inc int, kind EventKind, cause Seq, reason string) Event {
		return Event{Seq: seq, Path: path, Incarnation: inc, Kind: kind, Cause: cause, Reason: reason}
	}
	return []Event{
		e(1, "", 0, EventDaemonStarted, 0, ""),
		e(2, "acme/shop", 1, EventStarting, 1, "start"),
		e(3, "acme/shop/db.0", 1, EventStarting, 2, "start"),
		e(4, "acme/shop/db.0", 1, EventReady, 3, ""),
		e(5, "acme/shop/web.0", 1, EventStarting, 4, "start"),
		e(6, "acme/shop/web.0", 1, EventReady, 5, ""),
		e(7, "acme/shop/db.0", 1, EventExited, 3, "exit 1"),
		e(8, "acme/shop/web.0", 1, EventStopping, 7, "sibling db.0"),
		e(9, "acme/shop/web.0", 1, EventExited, 8, "exit 0"),
		e(10, "acme/shop/db.0", 1, EventBackoff, 7, "exit 1"),
		e(12, "acme/shop/db.0", 2, EventStarting, 10, "exit 1"),
		e(13, "acme/shop/db.0", 2, EventExited, 12, "exit 1"),
		e(14, "acme/shop", 1, EventEscalated, 13, "intensity exceeded by db.0"),
		e(15, "acme/shop", 1, EventBackoff, 14, "intensity exceeded by db.0"),
		e(16, "acme/shop/loop", 1, EventStopped, 16, "itself"),
		e(20, "acme/mail", 1, EventIntent, 0, "stopped by bob"),
		e(21, "acme/mail", 1, EventStopping, 20, "stopped by bob"),
		e(22, "acme/mail/in.0", 1, EventStopping, 21, "stopped by bob"),
		e(23, "acme/mail/in.0", 1, EventExited, 22, "exit 0"),
		e(24, "acme/mail", 1, EventStopped, 23, "stopped by bob"),
		e(25, "acme/mail", 1, EventKilled, 23, ""),
	}
}

func TestWhyWaiting(t *testing.T) {
	node := Node{Path: "acme/shop/cron.0", State: StateWaiting, Reason: "after db"}
	chain, note := Why(shopJournal()[:10], node)
	if len(chain) != 2 || chain[0].Seq != 10 || chain[1].Seq != 7 || note != "" {
		t.Errorf("what waits for db is where it is because of db: %v %q", chain, note)
	}
}

func TestWhy(t *testing.T) {
	events := shopJournal()
	tests := []struct {
		about string
		path  string
		state State
		from  int // entries that are no longer kept
		upTo  Seq
		want  string
	}{
		{"what runs was started", "acme/shop/db.0", StateRunning, 0, 6, "4 3 2 1"},
		{"what came back did because of an end by itself", "acme/shop/db.0", StateStarting, 0, 12, "12 10 7"},
		{"an end by itself is the beginning", "acme/shop/db.0", StateBackoff, 0, 10, "10 7"},
		{"a sibling is the cause", "acme/shop/web.0", StateStopping, 0, 9, "9 8 7"},
		{"the app escalated", "acme/shop", StateBackoff, 0, 19, "15 14 13"},
		{"and what is below it is down because of that", "acme/shop/web.0", StateStopped, 0, 19, "15 14 13"},
		{"below what an operator stopped", "acme/mail/in.0", StateStopped, 0, 99, "24 23 22 21 20"},
		{"a replica that was never started is down with the app above its pool", "acme/shop/web.1", StateStopped, 0, 19, "15 14 13"},
		{"causes age", "acme/mail", StateStopped, 17, 99, "24 23 22 (entry 21, the cause of entry 22, is no longer kept)"},
		{"a cause cannot be later than what it caused", "acme/shop/loop", StateStopped, 0, 99, "16 (entry 16, the cause of entry 16, is no longer kept)"},
		{"nothing is kept", "acme/new/x.0", StateWaiting, 0, 99, " (nothing is kept that explains it)"},
	}
	for _, test := range tests {
		kept := events[test.from:]
		for len(kept) > 0 && kept[len(kept)-1].Seq > test.upTo {
			kept = kept[:len(kept)-1]
		}
		chain, note := Why(kept, Node{Path: test.path, State: test.state})
		var seqs []string
		for _, e := range chain {
			seqs = append(seqs, fmt.Sprint(e.Seq))
		}
		got := strings.Join(seqs, " ")
		if note != "" {
			got += " (" + note + ")"
		}
		if got != test.want {
			t.Errorf("%s: %s\nwant %s", test.about, got, test.want)
		}
	}
}

func TestWhyIsBounded(t *testing.T) {
	var events []Event
	for i := Seq(1); i <= 1000; i++ {
		events = append(events, Event{Seq: i, Path: "a", Kind: EventBackoff, Cause: i - 1})
	}
	chain, note := Why(events, Node{Path: "a", State: StateBackoff})
	if len(chain) != longestChain || note != "the chain goes on at entry 900" {
		t.Errorf("%d entries, note %q", len(chain), note)
	}
}

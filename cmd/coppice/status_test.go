package main

import (
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// TestDurationsForPeople: no unit loses its last nought.
func TestDurationsForPeople(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 0: "0.0s", 9940 * time.Millisecond: "9.9s", 10 * time.Second: "10s", 59900 * time.Millisecond: "59s",
		time.Minute: "1m", 70 * time.Second: "1m10s", 2*time.Minute + 30*time.Second: "2m30s", 10 * time.Minute: "10m",
		20*time.Minute + 5*time.Second: "20m5s", time.Hour: "1h", time.Hour + 10*time.Minute: "1h10m", 10 * time.Hour: "10h",
		20*time.Hour + 30*time.Second: "20h", day: "1d", 30*day + 10*time.Hour: "30d10h",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%v) is %q, want %q", d, got, want)
		}
	}
}

// TestEventSecondsAreDurations: what JSON holds as seconds has a unit where people read it.
func TestEventSecondsAreDurations(t *testing.T) {
	ev := tree.Event{Seq: 7, Path: "a/b.0", Incarnation: 2, Kind: tree.EventFailed, Reason: "exit 1", Cause: 6,
		Data: map[string]any{"attempt": 5.0, "delay": 10.47648445, "limit": 5.0, "ran": 0.25, "within": 60.0}}
	want := "     7 " + ev.Time.Local().Format(timeFormat) +
		" a/b.0#2 failed: exit 1 attempt=5 delay=10.476s limit=5 ran=250ms within=1m0s [6]"
	if got := eventLine(ev); got != want {
		t.Errorf("the line is\n%s\nwant\n%s", got, want)
	}
}

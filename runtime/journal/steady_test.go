package journal

import (
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

func TestStepOfTheWallClock(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		about      string
		wall, mono time.Duration // that passed
		want       time.Time
	}{
		{"nobody touched it", 10 * time.Second, 10 * time.Second, began},
		{"it was slewed a little", 10*time.Second + 300*time.Millisecond, 10 * time.Second, began},
		{"an hour forward", time.Hour + 10*time.Second, 10 * time.Second, began.Add(time.Hour)},
		{"an hour back", -time.Hour + 10*time.Second, 10 * time.Second, began.Add(-time.Hour)},
		{"a year back", -365*24*time.Hour + 10*time.Second, 10 * time.Second, began.Add(-365 * 24 * time.Hour)},
		{"of what is to come", time.Hour - 5*time.Second, -5 * time.Second, began.Add(time.Hour)},
	} {
		now := began.Add(c.wall)
		if got := stepped(now, began, c.mono); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", c.about, got, c.want)
		} else if c.want != began && now.Sub(got) != c.mono {
			t.Errorf("%s: %s have passed, want %s", c.about, now.Sub(got), c.mono)
		}
	}
	if !stepped(time.Now(), time.Time{}, 0).IsZero() {
		t.Error("no time stays none")
	}
}

func TestSteadyNodesAreCopies(t *testing.T) {
	at := time.Now().Add(time.Minute)
	n := tree.Node{Since: at, NextAt: &at, Leaf: &tree.Leaf{LastExit: &tree.LastExit{At: at}, Health: &tree.Pulse{At: at}}}
	got := steadied(time.Now(), n)
	if got.NextAt == n.NextAt || !got.NextAt.Equal(at) || !got.LastExit.At.Equal(at) || !got.Health.At.Equal(at) || !got.Since.Equal(at) {
		t.Errorf("%+v", got)
	}
}

//go:build linux

package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"
)

func next(t *testing.T, f *Follower) Line {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	l, err := f.Next(ctx)
	if err != nil {
		t.Fatalf("no line: %v", err)
	}
	return l
}

// A follower gets the tail and then each line once, from workers that are there and from those that come later.
func TestFollow(t *testing.T) {
	h := newTestHub(t, Config{})
	const workers, lines = 4, 300
	var wg sync.WaitGroup
	half := make(chan struct{}, workers)
	for w := range workers {
		wg.Go(func() {
			for i := range lines {
				put(h, fmt.Sprintf("acme/shop/w%d.0", w), 1, strconv.Itoa(i))
				if i == lines/2 {
					half <- struct{}{}
				}
			}
		})
	}
	<-half
	f := h.Follow(Query{Last: MaxTail, Paths: []string{"acme"}})
	defer f.Close()
	put(h, "elsewhere/a/b.0", 1, "not for us")
	late := make(chan struct{})
	go func() {
		defer close(late)
		put(h, "acme/late/w.0", 1, "0")
	}()
	seen := map[string]int{}
	for range workers*lines + 1 {
		l := next(t, f)
		if want := strconv.Itoa(seen[l.Path]); string(l.Text) != want || l.Gap != 0 {
			t.Fatalf("%s: got %s (gap %d), want %s", l.Path, l.Text, l.Gap, want)
		}
		seen[l.Path]++
	}
	wg.Wait()
	<-late
}

func TestFollowEnds(t *testing.T) {
	h := NewHub(Config{})
	f, g := h.Follow(Query{}), h.Follow(Query{})
	put(h, "a/b/c.0", 1, "last")
	ctx, cancel := context.WithCancel(t.Context())
	next(t, g)
	cancel()
	if _, err := g.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v", err)
	}
	g.Close()
	g.Close()
	if n := h.Stats().Followers; n != 1 {
		t.Errorf("%d followers are left", n)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l := next(t, f); string(l.Text) != "last" {
		t.Errorf("got %s", l.Text)
	}
	if _, err := f.Next(t.Context()); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	f.Close()
	if _, err := h.Follow(Query{}).Next(t.Context()); err != io.EOF {
		t.Errorf("of a closed hub: %v", err)
	}
}

// A follower that does not read costs a bounded queue, and is told how much it missed.
func TestSlowFollowerHasAGap(t *testing.T) {
	h := newTestHub(t, Config{})
	f := h.Follow(Query{})
	defer f.Close()
	const sent = 3 * followLines
	s := put(h, "a/b/c.0", 1)
	for i := range sent {
		s.accept(1, Out, []span{{text: []byte(strconv.Itoa(i))}})
	}
	if len(f.queue) > followLines {
		t.Errorf("%d lines wait", len(f.queue))
	}
	got, gaps := int64(0), int64(0)
	for got+gaps < sent {
		l := next(t, f)
		if l.Gap > 0 {
			gaps += l.Gap
		} else if got++; gaps > 0 {
			t.Fatal("a line after the gap that was before it")
		}
	}
	if gaps != sent-followLines {
		t.Errorf("a gap of %d", gaps)
	}
	s.accept(1, Out, []span{{text: []byte("again")}})
	if l := next(t, f); string(l.Text) != "again" {
		t.Errorf("after the gap: %s", l.Text)
	}
	big := make([]byte, followBytes/2)
	for range 10 {
		s.accept(1, Out, []span{{text: big}})
	}
	if f.bytes > followBytes {
		t.Errorf("%d bytes wait", f.bytes)
	}
}

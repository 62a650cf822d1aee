//go:build linux

package output

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func texts(lines []Line) []string {
	var list []string
	for _, l := range lines {
		list = append(list, string(l.Raw()))
	}
	return list
}

func all(r *ring) []Line {
	return merge([]*cursor{{path: "p", segs: r.view()}}, Query{Last: MaxTail})
}

func TestRingKeepsTheLast(t *testing.T) {
	r := ring{keep: 64 << 10}
	if r.segs != nil {
		t.Error("an empty ring has memory")
	}
	r.add(1, 1, 0, 0, []byte("x"))
	if r.used > 1024 {
		t.Errorf("one line costs %d bytes", r.used)
	}
	const n = 20000
	for i := range n {
		r.add(int64(i), i, int64(i%2), flagErr, fmt.Appendf(nil, "line %d", i))
		if r.used > r.keep {
			t.Fatalf("%d bytes are used", r.used)
		}
	}
	lines := all(&r)
	if min := r.keep * 7 / 8 / (headerSize + 10); len(lines) < min {
		t.Errorf("%d lines are kept, want at least %d", len(lines), min)
	}
	for k, l := range lines {
		i := n - len(lines) + k
		want := Line{Time: time.Unix(0, int64(i)), Path: "p", Incarnation: i, Stream: Err, Cut: int64(i % 2),
			Text: fmt.Appendf(nil, "line %d", i)}
		if diff := cmp.Diff(want, l); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestRingOfOddSizes(t *testing.T) {
	for _, keep := range []int{-1, 0, 1, 100, 5000} {
		r := ring{keep: keep}
		for _, size := range []int{0, 1, 10000, 3, 600} {
			r.add(1, 1, 0, 0, bytes.Repeat([]byte{'a'}, size))
			lines := all(&r)
			if keep <= 0 {
				if len(lines) != 0 {
					t.Errorf("keep %d kept %d lines", keep, len(lines))
				}
				continue
			}
			if n := len(lines); n == 0 || len(lines[n-1].Text) != size {
				t.Errorf("keep %d lost the last line, of %d bytes", keep, size)
			}
		}
	}
}

// What a reader holds does not change under it.
func TestRingViewIsStable(t *testing.T) {
	r := ring{keep: 16 << 10}
	for i := range 2000 {
		r.add(int64(i), 1, 0, 0, fmt.Appendf(nil, "line %d", i))
	}
	before := all(&r)
	want := fmt.Sprint(texts(before))
	for range 5000 {
		r.add(1, 1, 0, 0, []byte("something else"))
	}
	if got := fmt.Sprint(texts(before)); got != want {
		t.Error("lines changed while somebody held them")
	}
}

// put makes a source without a process and gives it lines.
func put(h *Hub, path string, incarnation int, lines ...string) *source {
	_, s, err := h.source(path, unlimited())
	if err != nil {
		panic(err)
	}
	for _, l := range lines {
		s.accept(incarnation, Out, []span{{text: []byte(l)}})
	}
	return s
}

func TestTail(t *testing.T) {
	h := newTestHub(t, Config{})
	put(h, "acme/shop/web.0", 1, "w1")
	put(h, "acme/shop/web.1", 1, "v1")
	put(h, "acme/shop/web.0", 2, "w2")
	put(h, "acme/shopping/db.0", 1, "d1")
	put(h, "acme/shop/silent.0", 1)
	middle := time.Now()
	put(h, "acme/shop/web.0", 2, "w3")
	put(h, "other/shop/web.0", 1, "o1")
	for _, test := range []struct {
		q    Query
		want string
	}{
		{Query{Last: 100}, "[w1 v1 w2 d1 w3 o1]"},
		{Query{Last: 2}, "[w3 o1]"},
		{Query{Last: 0}, "[]"},
		{Query{Last: -5}, "[]"},
		{Query{Last: 1_000_000_000, Paths: []string{""}}, "[w1 v1 w2 d1 w3 o1]"},
		{Query{Last: 9, Paths: []string{"acme/shop"}}, "[w1 v1 w2 w3]"},
		{Query{Last: 9, Paths: []string{"acme/shop/web"}}, "[w1 v1 w2 w3]"},
		{Query{Last: 9, Paths: []string{"acme/shop/we"}}, "[]"},
		{Query{Last: 9, Paths: []string{"acme/shop/web.1", "other"}}, "[v1 o1]"},
		{Query{Last: 9, Since: middle}, "[w3 o1]"},
		{Query{Last: 9, Since: middle.Add(time.Hour)}, "[]"},
		{Query{Last: 1, Paths: []string{"acme/shop/web.0"}, Incarnation: 1}, "[w1]"},
	} {
		if got := fmt.Sprint(texts(h.Tail(test.q))); got != test.want {
			t.Errorf("%+v: %s, want %s", test.q, got, test.want)
		}
	}
	if got := len(h.Tail(Query{Last: 1_000_000_000})); got != 6 {
		t.Errorf("%d lines", got)
	}
}

// The ring belongs to the path: it outlives an incarnation, and goes when the worker leaves the tree.
func TestForget(t *testing.T) {
	h := newTestHub(t, Config{})
	c := open(t, h, "acme/shop/web.0", unlimited())
	fmt.Fprintln(c.Stdout(), "hello")
	h.Forget("acme/shop/web.0") // refused: it is open
	c.Drain(t.Context())
	c.Close()
	if got := fmt.Sprint(texts(h.Tail(Query{Last: 9}))); got != "[hello]" {
		t.Errorf("after the end: %s", got)
	}
	h.Forget("acme/shop/web.0")
	if got := h.Stats().Workers; len(got) != 0 {
		t.Errorf("after Forget: %v", got)
	}
}

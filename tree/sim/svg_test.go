package sim

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// TestPicture is valid XML whatever the names are.
func TestPicture(t *testing.T) {
	spec := app(tree.RestForOne, 2, "a<&\"'>", "b]]>\x01\xff", "c")
	r := play(t, spec, time.Minute, "*: exit 1 with probability 0.3 per second", "c: down at 10s for 20s")
	var b bytes.Buffer
	if err := r.WriteSVG(&b, "<script>alert(1)</script>"); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	d.Strict = true
	elements := map[string]int{}
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		if e, ok := token.(xml.StartElement); ok {
			elements[e.Name.Local]++
		}
	}
	if elements["svg"] != 1 || elements["rect"] < 20 || elements["script"] != 0 || elements["text"] < 10 {
		t.Errorf("drawn: %v", elements)
	}
	for _, word := range []string{"running", "backoff", "fault", "gave up", "a&lt;&amp;&quot;'&gt;"} {
		if !strings.Contains(b.String(), word) {
			t.Errorf("the picture does not show %q", word)
		}
	}
}

// TestPictureIsBounded draws a course of which no dot could show the half.
func TestPictureIsBounded(t *testing.T) {
	spec := app(tree.OneForOne, -1, "a")
	spec.Children[0].Restart = tree.Restart{Backoff: time.Millisecond}
	f, _ := ParseFault("a: exit 1 after ready 1ms")
	r, err := Experiment{Spec: spec, Faults: []Fault{f}, Until: time.Minute, Picture: true}.Run()
	if err != nil {
		t.Fatal(err)
	}
	sums(t, r)
	var b bytes.Buffer
	if err := r.WriteSVG(&b, "x"); err != nil || b.Len() > 400_000 || r.Cut == 0 || r.node(t, "app/a").Starts < 25_000 {
		t.Errorf("%d bytes, cut at %s, %v", b.Len(), r.Cut, err)
	}
}

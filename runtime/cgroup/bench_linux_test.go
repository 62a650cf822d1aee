package cgroup

import (
	"strconv"
	"testing"

	"github.com/coppice-run/coppice/tree"
	"github.com/hashicorp/go-hclog"
)

// What a group adds to the start and end of each incarnation.
func BenchmarkLeaf(b *testing.B) {
	r, err := Open(hclog.NewNullLogger(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	if err := r.Can().Members.Err; err != nil {
		b.Skip("no groups here: ", err)
	}
	for name, limits := range map[string]tree.Limits{"free": {}, "limited": {Memory: 64 * mib, CPUs: 1, Tasks: 100}} {
		b.Run(name, func(b *testing.B) {
			app, err := r.Branch("acme/shop", tree.Limits{})
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for b.Loop() {
				n++
				l, err := app.Leaf("web.0-"+strconv.Itoa(n), limits)
				if err != nil {
					b.Skip("no limits here: ", err)
				}
				if err := l.Remove(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each folder of testdata is a host: its mountinfo, the daemon's own line-up in cgroup, and where we want to be.
func TestHierarchiesAreFoundWhereverTheyAre(t *testing.T) {
	hosts, err := filepath.Glob("testdata/*/mountinfo")
	if err != nil || len(hosts) == 0 {
		t.Fatal(hosts, err)
	}
	for _, host := range hosts {
		dir := filepath.Dir(host)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var got strings.Builder
			for _, h := range hierarchies(file(t, host), file(t, dir+"/cgroup")) {
				kind := "v2"
				if !h.v2 {
					kind = "v1 " + strings.Join(h.controllers, ",")
				}
				got.WriteString(kind + " " + h.dir)
				if h.readOnly {
					got.WriteString(" read-only")
				}
				got.WriteString("\n")
			}
			if want := file(t, dir+"/want"); got.String() != want {
				t.Errorf("got\n%swant\n%s", got.String(), want)
			}
		})
	}
}

func file(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func FuzzHierarchies(f *testing.F) {
	f.Add("901 890 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw", "0::/a")
	f.Add(`902 890 0:26 / /run/my\040g\ rw - cgroup cgroup rw,cpu`, "1:cpu:/..")
	f.Fuzz(func(t *testing.T, mountinfo, self string) {
		for _, h := range hierarchies(mountinfo, self) {
			if !h.v2 && len(h.controllers) == 0 || h.dir == "" {
				t.Errorf("%+v", h)
			}
		}
	})
}

func TestNoNameLeavesItsFolderOrLooksLikeTheKernels(t *testing.T) {
	for name, want := range map[string]string{
		"web-1_A": "web-1_A", "..": "%2E%2E", "../../x": "%2E%2E%2F%2E%2E%2Fx", "memory.max": "memory%2Emax", "a%2Eb": "a%252Eb",
		"": "", "é\x00\n": "%C3%A9%00%0A",
	} {
		if got := escape(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestALimitIsNamedAsInTheConfiguration(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1000: "1000B", 1024: "1KiB", 64 << 20: "64MiB", 3 << 30: "3GiB", 1 << 40: "1TiB",
		1 << 50: "1024TiB", 1536 << 20: "1536MiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

//go:build linux

package place

import (
	"os"
	"path/filepath"
	"testing"
)

func openAt(t *testing.T, dir string) *Dir {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func TestARecordTellsTheNextDaemon(t *testing.T) {
	dir := t.TempDir()
	d := openAt(t, dir)
	note, err := d.Note(Record{Path: "acme/shop/web.0", Incarnation: 3, UID: 33, Marks: []string{"A=1"}, Keyed: true,
		Pipes: []uint64{7}, CgroupV2: "/x.leaf", Signal: "HUP"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Note(Record{Path: "acme/shop/early.0"}); err != nil {
		t.Fatal(err)
	}
	if err := note.Born(4711, 99); err != nil {
		t.Fatal(err)
	}
	records, damaged, err := openAt(t, dir).Records()
	if err != nil || len(records) != 2 || len(damaged) != 0 {
		t.Fatalf("%v, %v, %v", records, damaged, err)
	}
	for _, r := range records {
		switch {
		case r.Path == "acme/shop/early.0" && r.PID == 0 && r.Started == 0:
		case r.Path == "acme/shop/web.0" && r.Incarnation == 3 && r.PID == 4711 && r.Started == 99 && r.UID == 33 && r.Keyed &&
			len(r.Marks) == 1 && len(r.Pipes) == 1 && r.CgroupV2 == "/x.leaf" && r.Signal == "HUP":
		default:
			t.Errorf("%+v", r)
		}
		info, err := os.Stat(r.file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v: it is nobody else's business", info, err)
		}
		r.Drop()
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "r")); len(left) != 0 {
		t.Errorf("%d records are left", len(left))
	}
}

func TestOfAnEarlierBootNothingRuns(t *testing.T) {
	dir := t.TempDir()
	d := openAt(t, dir)
	if _, err := d.Note(Record{Path: "a/b/c.0"}); err != nil {
		t.Fatal(err)
	}
	next := openAt(t, dir)
	next.boot = "another"
	if records, damaged, err := next.Records(); len(records)+len(damaged) != 0 || err != nil {
		t.Fatalf("%v, %v, %v", records, damaged, err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "r")); len(left) != 0 {
		t.Errorf("%d records are left", len(left))
	}
}

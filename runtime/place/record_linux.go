package place

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Note is a record on disk. It belongs to one goroutine.
type Note struct{ path string }

// Note writes a record down before its program is executed. It is read after a kill of the daemon, not of the machine, so
// nothing waits for a disk.
func (d *Dir) Note(r Record) (*Note, error) {
	r.Boot = d.boot
	line, err := json.Marshal(&r)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(d.in("r"), "*.json") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("cannot write a record: %w", err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		os.Remove(f.Name())
		return nil, fmt.Errorf("cannot write a record: %w", err)
	}
	return &Note{path: f.Name()}, nil
}

// Born adds which process it has become.
func (n *Note) Born(pid int, started uint64) error {
	line, err := json.Marshal(born{pid, started})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(n.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("cannot add to a record: %w", err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("cannot add to a record: %w", err)
	}
	return nil
}

// Remove takes the record back, when nothing of it runs any more.
func (n *Note) Remove() { os.Remove(n.path) }

// Note is [Dir.Note] for the incarnation's own process: its record goes with the incarnation.
func (in *Incarnation) Note(r Record) (err error) {
	in.note, err = in.dir.Note(r)
	return err
}

// Born tells which process the incarnation has become.
func (in *Incarnation) Born(pid int, started uint64) error {
	if in.note == nil {
		return nil
	}
	return in.note.Born(pid, started)
}

// Records returns what dead daemons of this directory have written down, and the files among it that cannot be read.
// Those of an earlier boot, of which nothing can run, are removed. The caller holds the directory's lock and has written
// none of its own yet.
func (d *Dir) Records() (records []Record, damaged []string, err error) {
	entries, err := os.ReadDir(d.in("r"))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the records: %w", err)
	}
	for _, e := range entries {
		path := d.in("r", e.Name())
		r, ok := readRecord(path)
		switch {
		case !ok:
			damaged = append(damaged, path)
		case r.Boot != d.boot:
			os.Remove(path)
		default:
			records = append(records, r)
		}
	}
	return records, damaged, nil
}

// readRecord reads one file. A second line that is missing or torn only leaves the process unknown.
func readRecord(path string) (r Record, ok bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return r, false
	}
	first, second, _ := bytes.Cut(data, []byte("\n"))
	if json.Unmarshal(first, &r) != nil || r.Boot == "" {
		return r, false
	}
	r.file = path
	var b born
	if json.Unmarshal(second, &b) == nil && b.PID > 1 && b.Started > 0 {
		r.PID, r.Started = b.PID, b.Started
	}
	return r, true
}

// Drop removes a record that Records returned, when nothing of it runs any more.
func (r *Record) Drop() { os.Remove(r.file) }

// bootID names this boot of the kernel.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot tell which boot this is: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

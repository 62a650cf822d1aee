package output

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// logFile is the log file of one worker. All but lost is used by its sink's goroutine alone.
type logFile struct {
	dir     string // root of all log files
	path    string // of the worker
	log     hclog.Logger
	maxSize atomic.Int64
	keep    atomic.Int64 // files in all
	lost    atomic.Int64 // lines that could not be written

	file   *os.File
	folder *os.File // holds the file; everything is done relative to it
	name   string
	size   int64

	failed  error // the last write failed with this
	retryAt time.Time
	missing int64 // lines lost since it failed
}

// retryAfter is how long a file that cannot be written is left alone.
const retryAfter = time.Second

// fileName returns the folders below the root and the name of a worker's log file.
func fileName(path string) (folders []string, name string, err error) {
	parts := strings.Split(path, "/")
	for _, p := range parts {
		if p == "" || p == "." || p == ".." || len(p) > 200 || strings.ContainsRune(p, 0) {
			return nil, "", fmt.Errorf("%s: cannot name a log file: %q is no name", path, p)
		}
	}
	name = parts[len(parts)-1]
	if i := strings.LastIndexByte(name, '.'); i < 0 || !digits(name[i+1:]) {
		name += ".0"
	}
	return parts[:len(parts)-1], name + ".log", nil
}

func digits(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}

// write appends whole records. What cannot be written is counted and told once; a second later it is tried again.
func (f *logFile) write(p []byte) {
	if f.failed != nil {
		if time.Now().Before(f.retryAt) {
			f.lose(p)
			return
		}
		if err := f.put(f.note(f.missing)); err != nil {
			f.fail(err, p)
			return
		}
		f.log.Info("log file is written again", "path", f.path, "lost_lines", f.missing)
		f.failed, f.missing = nil, 0
	}
	for len(p) > 0 {
		part := f.fitting(p)
		if err := f.put(part); err != nil {
			f.fail(err, p)
			return
		}
		p = p[len(part):]
	}
}

// note is the record that stands where n lines are missing.
func (f *logFile) note(n int64) []byte {
	line := Line{Time: time.Now(), Stream: Err, Text: fmt.Appendf(nil, "[coppice: dropped %d lines here: the log file could not take them]", n)}
	return append(append(appendFilePrefix(nil, line), line.Text...), '\n')
}

// fitting returns the records at the beginning of p that the present file has room for, or the first one if it is alone
// too large. The file is rotated if it has room for none.
func (f *logFile) fitting(p []byte) []byte {
	limit := f.maxSize.Load()
	if limit <= 0 || f.size+int64(len(p)) <= limit {
		return p
	}
	if room := limit - f.size; room > 0 {
		if i := bytes.LastIndexByte(p[:room], '\n'); i >= 0 {
			return p[:i+1]
		}
	}
	if f.file != nil && f.size > 0 {
		f.rotate()
		return f.fitting(p)
	}
	return p[:bytes.IndexByte(p, '\n')+1]
}

// put writes p and leaves only whole records in the file if that fails.
func (f *logFile) put(p []byte) error {
	if f.file == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	n, err := f.file.Write(p)
	if err == nil {
		f.size += int64(n)
		return nil
	}
	whole := bytes.LastIndexByte(p[:n], '\n') + 1
	_ = f.file.Truncate(f.size + int64(whole)) // what is left of a record is better than a failure to say why
	f.size += int64(whole)
	lines := bytes.Count(p[:whole], []byte{'\n'})
	f.missing -= int64(lines)
	f.lost.Add(-int64(lines))
	return err
}

func (f *logFile) fail(err error, p []byte) {
	if f.failed == nil {
		f.log.Warn("could not write log file; lines stay in memory only", "path", f.path, "error", err)
	}
	f.failed, f.retryAt = err, time.Now().Add(retryAfter)
	f.lose(p)
	f.close() // a folder that was replaced or a volume that came back is seen by opening anew
}

func (f *logFile) lose(p []byte) {
	n := int64(bytes.Count(p, []byte{'\n'}))
	f.missing += n
	f.lost.Add(n)
}

// rotate makes the file the first of the old ones. If it cannot be renamed the file just goes on growing from nothing:
// a bound that holds is worth more than old lines.
func (f *logFile) rotate() {
	if err := f.shift(); err != nil {
		f.log.Warn("could not rotate log file; emptied it", "path", f.path, "error", err)
		if f.file.Truncate(0) == nil {
			f.size = 0
			return
		}
	}
	f.close()
	if err := f.open(); err != nil {
		f.size = 0 // put opens it again and reports the error
	}
}

func (f *logFile) close() {
	if f.file != nil {
		f.file.Close()
		f.folder.Close()
		f.file, f.folder = nil, nil
	}
	f.size = 0
}

var errNotPlain = errors.New("it is not a regular file with one name")

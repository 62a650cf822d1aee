// Package lock keeps a second daemon out, and prepares the ground that the first one stands on: the single-instance
// lock, private folders, and Unix sockets whose mode is right from the first moment.
//
// Exclusion rests on a kernel lock (flock) that ends with its holder, whatever became of it. The text in the lock file is
// information for people: empty, old or forged, it excludes nobody and admits nobody.
package lock

import (
	"fmt"
	"os"
	"time"
)

// Lock is a held single-instance lock. It belongs to one goroutine.
type Lock struct {
	path string
	what string // as errors name it: the folder, or the file where a file was asked for
	file *os.File
}

// Held says that somebody else has the lock. PID and Since are what the holder wrote about itself: zero if it wrote
// nothing usable. They are for people; nothing may be decided by them.
type Held struct {
	What  string // the folder or file that is held
	PID   int
	Since time.Time
}

// Error reads: another coppice (pid 812, since 2006-01-02T15:04:05Z) holds /run/coppice: ...
func (h *Held) Error() string {
	who := ""
	switch {
	case h.PID > 0 && !h.Since.IsZero():
		who = fmt.Sprintf(" (pid %d, since %s)", h.PID, h.Since.UTC().Format(time.RFC3339))
	case h.PID > 0:
		who = fmt.Sprintf(" (pid %d)", h.PID)
	}
	return fmt.Sprintf("another coppice%s holds %s: stop it first, or give this one a folder of its own", who, h.What)
}

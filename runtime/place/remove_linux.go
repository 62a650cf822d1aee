package place

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// removePatience bounds how long the daemon spends on what workers have put into their folders: on one when it is given
// back, on all of them together when the daemon starts.
const removePatience = 10 * time.Second

// removeDepth is how many levels are open at once.
const removeDepth = 16

// removeTree removes a folder with all below it. Its owner may be hostile, and os.RemoveAll has a descriptor open for
// every level: a folder that is deep enough takes all that the daemon has. Here what is too deep is moved up to the top
// first. No link is followed. It gives up when the patience is over: somebody may still be making files.
func removeTree(path string, patience time.Duration) error {
	fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot empty %s: %w", path, err)
	}
	r := remover{top: os.NewFile(uintptr(fd), path), until: time.Now().Add(patience)}
	defer r.top.Close()
	for r.found = true; r.found; {
		r.found = false
		if err := r.empty(r.top, 1); err != nil {
			return fmt.Errorf("cannot empty %s: %w", path, err)
		}
		if _, err := r.top.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("cannot empty %s: %w", path, err)
		}
	}
	return os.Remove(path)
}

// remover empties one folder.
type remover struct {
	top   *os.File
	until time.Time
	moved int  // folders that were moved up, which makes their new names
	found bool // this pass over top had something to do
}

// empty removes what is in a folder. What is too deep is at the top afterwards, for the next pass.
func (r *remover) empty(folder *os.File, depth int) error {
	for {
		names, err := folder.Readdirnames(256)
		for _, name := range names {
			r.found = true
			if err := r.remove(folder, name, depth); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// remove removes one entry of a folder, with all below it.
func (r *remover) remove(folder *os.File, name string, depth int) error {
	if time.Now().After(r.until) {
		return errors.New("it takes too long")
	}
	at := int(folder.Fd())
	if err := removeAt(at, name); err != unix.ENOTEMPTY {
		return err
	}
	if depth == removeDepth {
		return r.moveUp(at, name)
	}
	fd, err := unix.Openat(at, name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	below := os.NewFile(uintptr(fd), name)
	defer below.Close()
	if err := r.empty(below, depth+1); err != nil {
		return err
	}
	if err := removeAt(at, name); err != unix.ENOTEMPTY {
		return err
	}
	return nil // what has appeared in it meanwhile is the next pass's
}

func (r *remover) moveUp(folder int, name string) error {
	for {
		r.moved++
		err := unix.Renameat2(folder, name, int(r.top.Fd()), ".moved-"+strconv.Itoa(r.moved), unix.RENAME_NOREPLACE)
		if err != unix.EEXIST {
			return err
		}
	}
}

// removeAt removes a file or an empty folder. One that is gone already is fine; ENOTEMPTY is a folder with something in it.
func removeAt(folder int, name string) error {
	err := unix.Unlinkat(folder, name, 0)
	if err == unix.EISDIR || err == unix.EPERM {
		err = unix.Unlinkat(folder, name, unix.AT_REMOVEDIR)
	}
	switch err {
	case unix.ENOENT:
		return nil
	case unix.EEXIST: // as some file systems say it
		return unix.ENOTEMPTY
	}
	return err
}

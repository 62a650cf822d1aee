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

// removePatience bounds how long the daemon spends on one folder of a worker, whatever the worker has put in it.
const removePatience = 10 * time.Second

// removeTree removes a folder with all below it. Its owner may be hostile, and os.RemoveAll has a descriptor open for
// every level: a folder that is deep enough takes all that the daemon has. Here what is below a level is moved up first,
// so that two are enough. No link is followed. It gives up when the patience is over: somebody may still be making files.
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
		if err := r.each(r.top, r.flatten); err != nil {
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

// each removes what is in the folder, and calls full for every folder in it that is not empty.
func (r *remover) each(folder *os.File, full func(name string) error) error {
	for {
		names, err := folder.Readdirnames(256)
		for _, name := range names {
			r.found = true
			if time.Now().After(r.until) {
				return errors.New("it takes too long")
			}
			switch err := removeAt(int(folder.Fd()), name); {
			case err == unix.ENOTEMPTY || err == unix.EEXIST:
				if err := full(name); err != nil {
					return err
				}
			case err != nil && err != unix.ENOENT:
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

// flatten moves the folders that are in a folder at the top up beside it, and removes it.
func (r *remover) flatten(name string) error {
	top := int(r.top.Fd())
	fd, err := unix.Openat(top, name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	folder := os.NewFile(uintptr(fd), name)
	defer folder.Close()
	err = r.each(folder, func(child string) error {
		for {
			r.moved++
			err := unix.Renameat2(fd, child, top, ".moved-"+strconv.Itoa(r.moved), unix.RENAME_NOREPLACE)
			if err != unix.EEXIST {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	if err := removeAt(top, name); err != nil && err != unix.ENOTEMPTY && err != unix.EEXIST {
		return err
	}
	return nil // what has appeared in it meanwhile is the next pass's
}

// removeAt removes a file or an empty folder.
func removeAt(folder int, name string) error {
	err := unix.Unlinkat(folder, name, 0)
	if err == unix.EISDIR || err == unix.EPERM {
		err = unix.Unlinkat(folder, name, unix.AT_REMOVEDIR)
	}
	return err
}

package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Prepare makes a folder ready for private use: afterwards it exists, is no symbolic link, belongs to this process's
// user and has exactly this mode (the sticky bit may be in it), whatever the umask is. Missing parents are made with 0755.
//
// A folder that belongs to somebody else, or in which others may write where the mode does not say so, is refused: what
// lies in it may be theirs. The error says what to do.
func Prepare(dir string, mode fs.FileMode) error {
	dir = filepath.Clean(dir)
	if err := prepare(dir, bits(mode)); err != nil {
		return fmt.Errorf("cannot use the folder %s: %w", dir, err)
	}
	return nil
}

func prepare(dir string, mode uint32) error {
	// Born with the owner's rights alone: what others get comes with the check below.
	err := unix.Mkdir(dir, mode&0o700)
	if errors.Is(err, unix.ENOENT) {
		if err := parents(filepath.Dir(dir)); err != nil {
			return err
		}
		err = unix.Mkdir(dir, mode&0o700)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return settle(dir, mode)
}

// parents makes what is missing, and leaves what is there as it is.
func parents(dir string) error {
	err := unix.Mkdir(dir, 0o700)
	if errors.Is(err, unix.ENOENT) && dir != filepath.Dir(dir) {
		if err := parents(filepath.Dir(dir)); err != nil {
			return err
		}
		err = unix.Mkdir(dir, 0o700)
	}
	switch {
	case errors.Is(err, unix.EEXIST):
		return nil
	case err != nil:
		return fmt.Errorf("its parent %s: %w", dir, err)
	}
	return settle(dir, 0o755)
}

// settle checks a folder through one descriptor, so that what is checked is what is changed.
func settle(dir string, mode uint32) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		if kind := inPlace(dir); kind != "" && kind != "directory" {
			return fmt.Errorf("a %s is in its place: remove it, or name another folder", kind)
		}
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to uid %d, not to uid %d: remove it, or name another folder", st.Uid, os.Geteuid())
	}
	if st.Mode&0o022&^mode != 0 {
		return fmt.Errorf("others may write in it (mode %04o): look at what is in it, then run chmod %04o %s",
			st.Mode&0o7777, mode, dir)
	}
	// The set-group-id bit comes from the parent on some file systems and gives nobody rights.
	if (st.Mode^mode)&0o7777&^unix.S_ISGID == 0 {
		return nil
	}
	return unix.Fchmod(fd, mode|st.Mode&unix.S_ISGID)
}

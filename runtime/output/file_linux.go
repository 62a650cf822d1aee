package output

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// open opens or makes the log file and the folders above it, one by one and without following a link, so that whoever can
// write in one of them cannot make the daemon write elsewhere.
func (f *logFile) open() error {
	folders, name, err := fileName(f.path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.dir, 0o750); err != nil {
		return err
	}
	folder, err := openFolder(f.dir, folders)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o640)
	if err != nil {
		folder.Close()
		return fmt.Errorf("cannot open %s: %w", filepath.Join(folder.Name(), name), err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1) {
		err = errNotPlain
	}
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		unix.Close(fd)
		folder.Close()
		return fmt.Errorf("cannot use %s: %w", filepath.Join(folder.Name(), name), err)
	}
	f.file, f.folder, f.name, f.size = os.NewFile(uintptr(fd), name), folder, name, st.Size
	return nil
}

func openFolder(root string, below []string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := unix.Open(root, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", root, err)
	}
	at := root
	for _, name := range below {
		at = filepath.Join(at, name)
		if err := unix.Mkdirat(fd, name, 0o750); err != nil && err != unix.EEXIST {
			unix.Close(fd)
			return nil, fmt.Errorf("cannot make %s: %w", at, err)
		}
		next, err := unix.Openat(fd, name, flags|unix.O_NOFOLLOW, 0)
		unix.Close(fd)
		if err != nil {
			return nil, fmt.Errorf("cannot open %s: %w", at, err)
		}
		fd = next
	}
	return os.NewFile(uintptr(fd), at), nil
}

// shift renames NAME to NAME.1, NAME.1 to NAME.2 and so on; the oldest is overwritten.
func (f *logFile) shift() error {
	dir, keep := int(f.folder.Fd()), f.keep.Load()
	if keep <= 1 {
		return f.file.Truncate(0)
	}
	for i := keep - 1; i > 0; i-- {
		older := f.name + "." + strconv.FormatInt(i, 10)
		newer := f.name
		if i > 1 {
			newer += "." + strconv.FormatInt(i-1, 10)
		}
		if err := unix.Renameat(dir, newer, dir, older); err != nil && err != unix.ENOENT {
			return fmt.Errorf("cannot rename %s: %w", newer, err)
		}
	}
	return nil
}

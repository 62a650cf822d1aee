package cgroup

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// detect reads where this process is in which hierarchy.
func detect() ([]hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return hierarchies(string(mounts), string(self)), nil
}

// writable tells why groups cannot be made in dir, and processes not moved into them.
func writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := unix.Access(dir+"/cgroup.procs", unix.W_OK); err != nil {
		return fmt.Errorf("%s/cgroup.procs: %w", dir, err)
	}
	return nil
}

// delegated tells whether systemd marked the group as handed over to whoever runs in it.
func delegated(dir string) bool {
	one := make([]byte, 1)
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		if n, err := unix.Getxattr(dir, name, one); err == nil && n == 1 && one[0] == '1' {
			return true
		}
	}
	return false
}

// isCgroup tells whether dir is a directory, not a link to one, of a cgroup file system.
func isCgroup(dir string) bool {
	fd, err := openDir(dir)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var s unix.Statfs_t
	err = unix.Fstatfs(fd, &s)
	return err == nil && (s.Type == unix.CGROUP2_SUPER_MAGIC || s.Type == unix.CGROUP_SUPER_MAGIC)
}

// openDir opens a group for CLONE_INTO_CGROUP.
func openDir(dir string) (int, error) {
	for {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func closeDir(fd int) { _ = unix.Close(fd) }

// lock takes the advisory lock of the directory f. With exclusive it fails at once where anybody has it; without, it
// waits for the exclusive one, which nobody keeps for long.
func lock(f *os.File, exclusive bool) error {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX | unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			return err
		}
	}
}

// rmdir removes an empty group. One that is gone is no error.
func rmdir(dir string) error {
	if err := unix.Rmdir(dir); err != nil && !gone(err) {
		return &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// gone tells whether err says that a group does not exist (any more): ENODEV comes from a file that was open before.
func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// killAll sends KILL to everybody that list names, through handles: list is read a second time after a handle is open,
// so a number that was given to a stranger in between is not hit. It ends when a round finds nobody new.
func killAll(list func() ([]int, error)) error {
	hit := map[int]bool{}
	for range 100 {
		pids, err := list()
		if err != nil {
			return err
		}
		handles := map[int]int{}
		for _, pid := range pids {
			if hit[pid] {
				continue
			}
			if fd, err := unix.PidfdOpen(pid, 0); err == nil {
				handles[pid] = fd
			}
		}
		if len(handles) == 0 {
			return nil
		}
		if pids, err = list(); err == nil {
			for _, pid := range pids {
				fd, ok := handles[pid]
				if !ok {
					continue
				}
				hit[pid] = true
				if sent := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); sent != nil && sent != unix.ESRCH {
					err = errors.Join(err, fmt.Errorf("kill %d: %w", pid, sent))
				}
			}
		}
		for _, fd := range handles {
			unix.Close(fd)
		}
		if err != nil {
			return err
		}
	}
	return errors.New("cannot kill the group: it grows faster than it is killed")
}

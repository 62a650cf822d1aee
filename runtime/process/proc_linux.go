package process

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// stat is the part of /proc/PID/stat that tells whose a process is.
type stat struct {
	state        byte
	ppid         int
	pgrp         int
	session      int
	flags        uint64
	started      uint64 // clock ticks since boot: with the pid, the identity of a process
	parsedFields int
}

// dead tells whether the process has ended and only waits to be reaped.
func (s *stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

// forkNoExec is PF_FORKNOEXEC: forked, and has not executed a program since.
const forkNoExec = 0x40

// readStat looks at a process. It fails if there is none of that pid.
func readStat(pid int) (stat, error) {
	var buf [1024]byte
	data, err := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return stat{}, err
	}
	// The name of the program stands in parentheses and may hold anything, parentheses and blanks too.
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return stat{}, unix.ESRCH
	}
	var s stat
	for field := range bytes.FieldsSeq(data[end+1:]) {
		s.parsedFields++
		switch s.parsedFields {
		case 1:
			s.state = field[0]
		case 2:
			s.ppid = atoi(field)
		case 3:
			s.pgrp = atoi(field)
		case 4:
			s.session = atoi(field)
		case 7:
			s.flags = uint64(atoi(field))
		case 20:
			s.started = uint64(atoi(field))
			return s, nil
		}
	}
	return stat{}, unix.ESRCH
}

func atoi(text []byte) int {
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return n
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// readSmall reads a file of /proc in one go, without a trip through the poller.
func readSmall(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n := 0
	for n < len(buf) {
		more, err := unix.Read(fd, buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if more == 0 {
			break
		}
		n += more
	}
	return buf[:n], nil
}

// readWhole reads a file of /proc of any length.
func readWhole(path string) ([]byte, error) {
	buf := make([]byte, 4096)
	for {
		data, err := readSmall(path, buf)
		if err != nil || len(data) < len(buf) {
			return data, err
		}
		buf = make([]byte, 4*len(buf))
	}
}

// childrenOf lists the children of a process: of all its threads, since the kernel keeps them by thread.
func childrenOf(pid int) []int {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	var st unix.Stat_t
	if unix.Stat(tasks, &st) != nil {
		return nil
	}
	if st.Nlink == 3 { // one thread: no need to list them
		return childrenOfThread(tasks + "/" + strconv.Itoa(pid))
	}
	var all []int
	for _, tid := range numbersIn(tasks) {
		all = append(all, childrenOfThread(tasks+"/"+strconv.Itoa(tid))...)
	}
	return all
}

func childrenOfThread(folder string) []int {
	data, err := readWhole(folder + "/children")
	if err != nil {
		return nil
	}
	var pids []int
	for field := range bytes.FieldsSeq(data) {
		pids = append(pids, atoi(field))
	}
	return pids
}

// adopted lists the children of this program's main thread. The kernel gives orphans to that thread, so they are all
// here; children that other packages forked on it are here too, see offMainThread.
func adopted() []int {
	pid := strconv.Itoa(os.Getpid())
	return childrenOfThread("/proc/" + pid + "/task/" + pid)
}

// numbersIn lists the entries of a folder that are numbers.
func numbersIn(folder string) []int {
	dir, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}

// carries tells whether a process was executed with all the marks in its environment.
func carries(pid int, marks []string) claim {
	folder := "/proc/" + strconv.Itoa(pid)
	data, err := readWhole(folder + "/environ")
	if err != nil {
		return no
	}
	if len(data) == 0 {
		// An empty environment is a program's own; one without arguments as well is not set up yet.
		if args, err := readWhole(folder + "/cmdline"); err == nil && len(args) == 0 {
			return executing
		}
		// It may have been set up between the two looks.
		if data, err = readWhole(folder + "/environ"); err != nil {
			return no
		}
	}
	found := 0
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		for _, mark := range marks {
			if string(entry) == mark {
				found++
			}
		}
	}
	if found < len(marks) {
		return no
	}
	return yes
}

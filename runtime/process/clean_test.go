//go:build linux

package process

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// launcher leaves the program that it becomes as much as it can: blocked and ignored signals, an open descriptor, a
// strict umask, a low limit, closed standard descriptors.
func launcher() {
	runtime.LockOSThread()
	var mask uint64
	for _, sig := range []syscall.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGCHLD, unix.SIGTERM, 40} {
		mask |= 1 << (sig - 1)
	}
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&mask)), 0, 8, 0, 0)
	ignore := kernelAction{handler: 1}
	for sig := uintptr(1); sig <= rtMax; sig++ {
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&ignore)), 0, 8, 0, 0)
	}
	fd, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0)
	if err == nil {
		unix.Dup2(fd, 77)
	}
	unix.Umask(0o077)
	syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 333, Max: 4000})
	os.Setenv("PROCESS_TEST_ROLE", "daemon")
	for _, name := range strings.Fields(os.Getenv("PROCESS_TEST_CLOSE")) {
		fd, _ := strconv.Atoi(name)
		unix.Close(fd)
	}
	err = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	fmt.Println("launcher:", err)
}

// daemon cleans itself and starts one worker that shows what it got.
func daemon() {
	report, err := os.OpenFile(os.Getenv("PROCESS_TEST_REPORT"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		os.Exit(1)
	}
	if err := CleanSelf(); err != nil {
		fmt.Fprintln(report, "clean:", err)
		os.Exit(1)
	}
	cmd := shell("grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/$$/fd; readlink /proc/$$/fd/0; umask; ulimit -Sn; ulimit -Hn; env | grep -v ^PWD=")
	cmd.Stdout, cmd.Stderr = report, report
	p, err := NewTable(self).Start(cmd)
	if err != nil {
		fmt.Fprintln(report, err)
		os.Exit(1)
	}
	<-p.Gone()
	fmt.Fprintln(report, p.Exit(), os.Getenv(cleanVariable))
}

func TestWhatTheLauncherLeftDoesNotReachWorkers(t *testing.T) {
	want := "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n0\n1\n2\n/dev/null\n0022\n333\n4000\nPATH=" +
		DefaultPath + "\nexit 0 \n"
	for _, closed := range []string{"", "0", "0 1 2"} {
		t.Run("closed "+closed, func(t *testing.T) {
			report, err := os.CreateTemp(t.TempDir(), "report")
			if err != nil {
				t.Fatal(err)
			}
			defer report.Close()
			cmd := Command{Argv: []string{"/proc/self/exe"}, Env: []string{"PROCESS_TEST_ROLE=launcher",
				"PROCESS_TEST_REPORT=" + report.Name(), "PROCESS_TEST_CLOSE=" + closed, "SECRET=1"}}
			p := start(t, NewTable(self), cmd)
			within(t, p.Gone(), "gone")
			got, err := os.ReadFile(report.Name())
			if err != nil || string(got) != want {
				t.Errorf("%v, %v\n got %q\nwant %q", p.Exit(), err, got, want)
			}
		})
	}
}

func TestStrayShimVariableDoesNothing(t *testing.T) {
	for _, value := range []string{"", "0", "7", "x", "-1"} {
		t.Setenv(shimVariable, value)
		if !Shim().usable {
			t.Error(value)
		}
		if _, there := os.LookupEnv(shimVariable); there {
			t.Errorf("%q stays", value)
		}
	}
}

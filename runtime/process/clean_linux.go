package process

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cleanVariable guards against executing oneself for ever where the signal mask cannot be cleared.
const cleanVariable = "_COPPICE_CLEAN"

// CleanSelf frees this program of what its launcher left it, so that nothing of it reaches a worker: blocked and ignored
// signals, descriptors above 2, the umask, ambient capabilities. Standard descriptors that were closed are on /dev/null
// already: the Go runtime opens them. A blocked signal costs one execution of the program by itself, since only a
// mask that the runtime was born with reaches its children; the pid stays. The soft limit of open files needs nothing:
// the runtime raises its own and gives the old one to what it executes.
//
// It must be called first thing in a daemon's main function, after Shim and before signal.Notify, and not in a library:
// descriptors that the program still wants to pass on by inheritance are no longer inherited.
func CleanSelf() error {
	mask, err := blockedSignals()
	if err != nil {
		return fmt.Errorf("cannot read the signal mask: %w", err)
	}
	if mask != 0 && os.Getenv(cleanVariable) == "" {
		return cleanMask()
	}
	os.Unsetenv(cleanVariable)
	if mask != 0 {
		return fmt.Errorf("cannot clear the signal mask: %#x stays blocked", mask)
	}
	cleanIgnored()
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		for _, fd := range numbersIn("/proc/self/fd") {
			if fd > 2 {
				unix.CloseOnExec(fd)
			}
		}
	}
	unix.Umask(0o022)
	syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	return nil
}

// cleanMask executes this program anew with an empty signal mask. It returns only if that fails.
func cleanMask() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unblockThread()
	env := append(os.Environ(), cleanVariable+"="+strconv.Itoa(os.Getpid()))
	err := syscall.Exec(ownProgram(), os.Args, env)
	return fmt.Errorf("cannot execute %s again with a clear signal mask: %w", ownProgram(), err)
}

// blockedSignals is the mask that this program was born with. The runtime keeps it for the programs that it executes,
// and its threads run with it.
func blockedSignals() (uint64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var mask uint64
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, 0, uintptr(unsafe.Pointer(&mask)), 8, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return mask, nil
}

func unblockThread() {
	var none uint64
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
}

// kernelAction is the kernel's struct sigaction; its zero value is the default disposition.
type kernelAction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// cleanIgnored gives every ignored signal its default disposition. The runtime's own handlers are left alone: exec
// takes them away by itself, and only what is ignored stays.
func cleanIgnored() {
	const ignore = 1
	for sig := uintptr(1); sig <= rtMax; sig++ {
		var now, none kernelAction
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
		if errno == 0 && now.handler == ignore {
			unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
		}
	}
}

// cleanSignals makes this thread's mask empty and every ignored signal default, right before an exec.
func cleanSignals() {
	unblockThread()
	cleanIgnored()
}

//go:build unix

package process

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The real-time signals that programs count from RTMIN are 34 to 64: libc keeps 32 and 33 for itself.
const (
	rtMin = 34
	rtMax = 64
)

// signalNumber reads "TERM", "SIGTERM", "RTMIN+3" or "RTMAX-1".
func signalNumber(name string) (syscall.Signal, error) {
	short := strings.TrimPrefix(strings.ToUpper(name), "SIG")
	if sig := unix.SignalNum("SIG" + short); sig != 0 {
		return sig, nil
	}
	if short == "RTMIN" || short == "RTMAX" {
		short += "+0"
	}
	for prefix, base := range map[string]int{"RTMIN+": rtMin, "RTMAX-": rtMax, "RTMAX+": rtMax} {
		digits, found := strings.CutPrefix(short, prefix)
		offset, err := strconv.ParseUint(digits, 10, 8)
		if !found || err != nil {
			continue
		}
		number := base + int(offset)
		if prefix == "RTMAX-" {
			number = base - int(offset)
		}
		if number >= rtMin && number <= rtMax {
			return syscall.Signal(number), nil
		}
	}
	return 0, fmt.Errorf("cannot send %q: no such signal", name)
}

// signalName is the name without SIG: "KILL", "RTMIN+3".
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	if sig >= rtMin && sig <= rtMax {
		return "RTMIN+" + strconv.Itoa(int(sig)-rtMin)
	}
	return strconv.Itoa(int(sig))
}

package actors

import (
	"runtime"
	"strconv"
	"strings"
)

// stackDepth is how many calls of a panic's stack are kept.
const stackDepth = 48

// Stack is where a panic struck: what an event's Data holds under "stack". It is put into words only when somebody reads it,
// because that costs more than the restart.
type Stack struct{ calls []uintptr }

// stackNow is the stack of the calling goroutine.
func stackNow() Stack {
	var calls [stackDepth]uintptr
	n := runtime.Callers(2, calls[:])
	return Stack{append([]uintptr(nil), calls[:n]...)}
}

func (s Stack) empty() bool { return len(s.calls) == 0 }

// String lists the calls as a panic prints them, the innermost first.
func (s Stack) String() string {
	if s.empty() {
		return ""
	}
	var b strings.Builder
	frames := runtime.CallersFrames(s.calls)
	for {
		frame, more := frames.Next()
		b.WriteString(frame.Function + "(...)\n\t" + frame.File + ":" + strconv.Itoa(frame.Line) + "\n")
		if !more {
			return b.String()
		}
	}
}

// MarshalText makes it a string in JSON.
func (s Stack) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

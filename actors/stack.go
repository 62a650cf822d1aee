package actors

import (
	"fmt"
	"runtime"
	"strings"
)

// stackDepth is how many calls of a panic's stack are kept.
const stackDepth = 48

// stackNow is the stack of the calling goroutine as a panic prints it: debug.Stack walks it again and again until its buffer
// is large enough, which is most of what a restart after a panic would cost.
func stackNow() string {
	var pcs [stackDepth]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var b strings.Builder
	b.Grow(2048)
	b.WriteString("goroutine:\n")
	for {
		frame, more := frames.Next()
		fmt.Fprintf(&b, "%s(...)\n\t%s:%d\n", frame.Function, frame.File, frame.Line)
		if !more {
			return b.String()
		}
	}
}

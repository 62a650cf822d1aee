package process

import (
	"fmt"
	"time"
)

// Exit is how a leader ended. Code and Signal are two facts: an exit with status 137 is not a death by KILL.
type Exit struct {
	Code   int    // the exit status; -1 after a signal
	Signal string // without SIG: "KILL"; "" if it exited by itself
	Core   bool   // a core was dumped
	Ran    time.Duration

	User, System time.Duration // processor time of the leader and the descendants that it waited for
	MaxRSS       int64         // bytes, the largest of them
}

// String is the reason that people see: "exit 1" or "signal KILL".
func (e Exit) String() string {
	if e.Signal != "" {
		return "signal " + e.Signal
	}
	return fmt.Sprintf("exit %d", e.Code)
}

//go:build linux

package process

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// self is what TestMain learnt from Shim.
var self Self

func TestMain(m *testing.M) {
	self = Shim()
	if name := os.Getenv("PROCESS_TEST_ROLE"); name != "" {
		role, ok := roles[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no such role:", name)
			os.Exit(99)
		}
		role()
		os.Exit(0)
	}
	if err := CleanSelf(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestProcessOneOfAMachine boots a virtual machine whose first process is coppice, with limits by cgroup v2, OOM kills, a
// fork bomb and orphans. testdata/pid1/judge.sh is a worker in it that says what holds, and ends the machine by TERM.
func TestProcessOneOfAMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a virtual machine takes half a minute")
	}
	vm, err := filepath.Abs("../../.ci/vm")
	if err != nil {
		t.Fatal(err)
	}
	cache := os.Getenv("COPPICE_VM_CACHE")
	if cache == "" {
		cache = filepath.Join(vm, "../../.cache/vm")
	}
	if _, err := os.Stat(filepath.Join(cache, "vmlinuz")); err != nil {
		t.Skipf("no virtual machine here (%v): .ci/vm/prepare brings it", err)
	}
	for _, need := range []string{"qemu-system-x86_64", "busybox", "cpio"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skipf("no virtual machine here (%v): .ci/vm/prepare brings it", err)
		}
	}
	binary := filepath.Join(t.TempDir(), "coppice")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64")
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	boot := exec.CommandContext(ctx, filepath.Join(vm, "boot"), "-e", "-t", "500", "testdata/pid1/init.sh", binary,
		"testdata/pid1/host.hcl", "testdata/pid1/judge.sh", "testdata/pid1/orphans.sh")
	b, err := boot.CombinedOutput()
	console := string(b)
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Errorf("process 1 ended with %d", failed.ExitCode())
	} else if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(console, "judge: ok"); n != 12 || strings.Contains(console, "judge: not ok") {
		t.Errorf("%d of 12 facts hold", n)
	}
	// TERM stops all in order, and then process 1 ends with 0.
	if !strings.Contains(console, "signal TERM") || !strings.Contains(console, `stopped: path=default/shop/web.0`) {
		t.Error("TERM did not stop the workers")
	}
	if t.Failed() {
		t.Log(console)
	}
}

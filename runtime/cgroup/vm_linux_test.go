package cgroup

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// guest is what the virtual machine does: all tests of this package in the machine's first group, those of limits again in
// a group of their own as a service has it, and all as somebody who may do nothing.
const guest = `
cd /bin
export COPPICE_TEST_VM=1
cgroup.test -test.v 2>&1 || exit 1
echo "vm: in a group of its own"
mkdir /sys/fs/cgroup/service
sh -c 'echo $$ >/sys/fs/cgroup/service/cgroup.procs; exec cgroup.test -test.v \
  -test.run "MemoryLimit|OOM|Tenants|TasksLimit|CPULimit|Daemon"' 2>&1 || exit 1
echo "vm: as a plain user with nothing"
su nobody -s /bin/sh -c 'PATH=/bin COPPICE_TEST_VM=1 cgroup.test -test.v' 2>&1
`

// What a hybrid host cannot show (v2 with memory, pids and cpu) is shown in a virtual machine: the same tests, none
// skipped.
func TestInAVirtualMachineWithCgroupV2(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a virtual machine takes half a minute")
	}
	if os.Getenv("COPPICE_TEST_VM") != "" {
		t.Skip("this is the virtual machine")
	}
	vm, err := filepath.Abs("../../.ci/vm")
	if err != nil {
		t.Fatal(err)
	}
	cache := os.Getenv("COPPICE_VM_CACHE")
	if cache == "" {
		cache = filepath.Join(vm, "../../.cache/vm")
	}
	for _, need := range []string{filepath.Join(cache, "vmlinuz"), "qemu-system-x86_64", "busybox", "cpio"} {
		if _, err := exec.LookPath(need); err != nil && !strings.Contains(err.Error(), "permission denied") {
			t.Skipf("no virtual machine here (%v): .ci/vm/prepare brings it", err)
		}
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "cgroup.test")
	build := exec.Command("go", "test", "-c", "-trimpath", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64")
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	script := filepath.Join(dir, "test.sh")
	if err := os.WriteFile(script, []byte(guest), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	console, err := exec.CommandContext(ctx, filepath.Join(vm, "boot"), "-t", "500", script, binary, "testdata").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, console)
	}
	judge(t, string(console))
}

// judge reads the console: what must have passed, and what may have been skipped where.
func judge(t *testing.T, console string) {
	t.Helper()
	first, rest, _ := strings.Cut(console, "vm: in a group of its own")
	second, third, found := strings.Cut(rest, "vm: as a plain user")
	if !found {
		t.Fatalf("the machine did not get that far\n%s", console)
	}
	passed := regexp.MustCompile(`(?m)^--- PASS: (\w+)`)
	skipped := regexp.MustCompile(`(?m)^--- SKIP: (\w+)`)
	least := map[string]int{first: 20, second: 10}
	for what, part := range map[string]string{"first group": first, "own group": second} {
		if n := len(passed.FindAllString(part, -1)); n < least[part] {
			t.Errorf("%s: only %d tests passed\n%s", what, n, part)
		}
		for _, m := range skipped.FindAllStringSubmatch(part, -1) {
			if m[1] != "TestInAVirtualMachineWithCgroupV2" {
				t.Errorf("%s: %s was skipped\n%s", what, m[1], part)
			}
		}
	}
	if !strings.Contains(third, "--- PASS: TestOpenAlwaysSaysWhereOrWhy") || strings.Contains(console, "--- FAIL") {
		t.Errorf("something failed\n%s", console)
	}
}

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// usage is what a supervisor's own processes have used.
type usage struct {
	cpu      time.Duration
	switches int
}

// pss is the proportional memory of the processes in MiB.
func pss(pids []int) float64 {
	total := 0
	for _, pid := range pids {
		total += field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
	}
	return float64(total) / 1024
}

// used adds up processor time and context switches of the processes.
func used(pids []int) usage {
	var u usage
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		u.cpu += time.Duration(user+system) * 10 * time.Millisecond
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		for _, t := range tasks {
			u.switches += field(t, "voluntary_ctxt_switches:") + field(t, "nonvoluntary_ctxt_switches:")
		}
	}
	return u
}

// field is the number behind a word at the start of a line.
func field(file, word string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(word)); ok {
			n, _ := strconv.Atoi(string(bytes.Fields(rest)[0]))
			return n
		}
	}
	return 0
}

// descendants lists the processes below pid, itself first, that run another program than the child's: the supervisor.
func descendants(pid int, child string) []int {
	var all []int
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if exe != child {
		all = append(all, pid)
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		text, _ := os.ReadFile(t)
		for _, word := range strings.Fields(string(text)) {
			below, _ := strconv.Atoi(word)
			all = append(all, descendants(below, child)...)
		}
	}
	return all
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

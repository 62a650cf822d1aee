//go:build !linux

package cgroup

import (
	"errors"
	"io/fs"
	"os"
)

var errNotLinux = errors.New("cgroups are a thing of Linux")

func detect() ([]hierarchy, error)             { return nil, errNotLinux }
func writable(string) error                    { return errNotLinux }
func delegated(string) bool                    { return false }
func isCgroup(string) bool                     { return false }
func openDir(string) (int, error)              { return -1, errNotLinux }
func closeDir(int)                             {}
func lock(*os.File, bool) error                { return errNotLinux }
func rmdir(string) error                       { return errNotLinux }
func gone(err error) bool                      { return errors.Is(err, fs.ErrNotExist) }
func killAll(list func() ([]int, error)) error { return errNotLinux }

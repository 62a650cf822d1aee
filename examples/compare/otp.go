package main

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

//go:embed otp.escript
var script []byte

// otp measures OTP's supervisor. missing says why it was not.
func otp(size string, restarts int) (f *figures, missing string, err error) {
	escript, err := exec.LookPath("escript")
	if err != nil {
		return nil, "not measured, escript is not installed", nil
	}
	folder, err := os.MkdirTemp("", "compare-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "otp.escript")
	if err := os.WriteFile(path, script, 0o600); err != nil {
		return nil, "", err
	}
	f, err = run(exec.Command(escript, path, size, strconv.Itoa(restarts)))
	return f, "", err
}

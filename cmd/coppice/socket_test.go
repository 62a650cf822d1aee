package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOnlyAnOwnFolderNamesTheDaemon: a folder of the default name that somebody else has made is not believed.
func TestOnlyAnOwnFolderNamesTheDaemon(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "control.sock")
	if got := socketIn(dir, os.Getuid()); got != "" {
		t.Errorf("found %q where there is none", got)
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := socketIn(dir, os.Getuid()); got != socket {
		t.Errorf("found %q, want %q", got, socket)
	}
	if got := socketIn(dir, os.Getuid()+1); got != "" {
		t.Errorf("believed somebody else's %q", got)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if got := socketIn(link, os.Getuid()); got != "" {
		t.Errorf("followed a link to %q", got)
	}
}

package config

import (
	"io/fs"
	"os"
	"os/user"
)

// Surroundings is what loading asks of the host. Any function may be nil: then nothing is set in the environment, every
// user and group exists, and no program is looked for.
type Surroundings struct {
	Env   func(name string) (string, bool)
	UID   int                                    // of the daemon; 0 may start workers as other users
	Home  string                                 // of the daemon's user, "" if it has none
	User  func(name string) error                // nil if the user exists
	Group func(name string) error                // nil if the group exists
	Stat  func(path string) (fs.FileInfo, error) // follows symbolic links
}

// Here is the host that this program runs on.
func Here() Surroundings {
	home, _ := os.UserHomeDir()
	return Surroundings{
		Env: os.LookupEnv, UID: os.Geteuid(), Home: home, Stat: os.Stat,
		User:  func(name string) error { _, err := user.Lookup(name); return err },
		Group: func(name string) error { _, err := user.LookupGroup(name); return err },
	}
}

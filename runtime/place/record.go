package place

// Record is what a daemon writes down about something that it is about to start, so that a later daemon of the same
// runtime directory can find what still runs of it after this one was killed, and can prove that it is it. A record is
// never believed about a pid alone: the pid counts with its start time and in the same boot.
type Record struct {
	Path        string `json:"path"`
	Incarnation int    `json:"incarnation"`
	Boot        string `json:"boot"` // the kernel's boot id; set by Note
	UID         int    `json:"uid"`  // that it runs as

	// Marks are entries of the environment that it is executed with. Keyed: some of them name a place in this runtime
	// directory that nobody can guess, so that no other daemon's process has them all.
	Marks []string `json:"marks"`
	Keyed bool     `json:"keyed,omitempty"`
	Pipes []uint64 `json:"pipes,omitempty"` // inodes of the pipes that it prints to

	CgroupV2 string   `json:"cgroup_v2,omitempty"`
	CgroupV1 []string `json:"cgroup_v1,omitempty"`

	Signal string `json:"signal,omitempty"` // that asks it to stop; "": KILL

	// PID and Started (clock ticks since boot, as in /proc/PID/stat) are 0 if the daemon was killed before it could write
	// them down.
	PID     int    `json:"-"`
	Started uint64 `json:"-"`

	file string
}

// born is the second line of a record's file.
type born struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"`
}

package tree

import "time"

// Observation is something true of a node now that is not history: it changes too often, or matters too little, to be
// a journal entry. Nil fields say nothing.
type Observation struct {
	PID     *int
	Socket  *string
	Port    *int
	Status  *string
	Health  *Pulse
	Dropped *int64
	Intent  *string
	// Waiting is the reason of a node that waits for another ("after db"); it becomes StateWaiting.
	Waiting *string
	At      time.Time
}

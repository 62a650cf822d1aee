package actors

import "time"

// timers are the wake-ups that one machine waits for. They belong to its actor, which stops them when it ends; all methods
// run in its mailbox.
type timers struct {
	pending map[uint64]*time.Timer
}

// set makes wake run after d. A second timer of the same token replaces the first.
func (t *timers) set(token uint64, d time.Duration, wake func()) {
	if old := t.pending[token]; old != nil {
		old.Stop()
	}
	if t.pending == nil {
		t.pending = map[uint64]*time.Timer{}
	}
	t.pending[token] = time.AfterFunc(d, wake)
}

// fired forgets a timer whose wake-up has arrived.
func (t *timers) fired(token uint64) { delete(t.pending, token) }

// stop ends all of them.
func (t *timers) stop() {
	for _, timer := range t.pending {
		timer.Stop()
	}
	t.pending = nil
}

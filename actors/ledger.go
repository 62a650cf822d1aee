package actors

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// Intent is what an operator asked of one node and has not taken back. It outranks everything automatic.
type Intent struct {
	Path string
	// Stopped: it stays down. Else it was started by its exact name, which matters to a node that is not enabled.
	Stopped bool
	By      string    // who
	Why     string    // in the operator's words; may be ""
	At      time.Time // when
	Seq     tree.Seq  // of its event
}

// word is the intent as status shows it.
func (i *Intent) word() string {
	if i.Stopped {
		return "stopped"
	}
	return "started"
}

// reason is the intent as events show it.
func (i *Intent) reason() string { return i.word() + " by " + i.By }

// ledger remembers by path what must outlive the actor of a supervisor: which incarnations were used, and what operators
// asked for. It also says which actor looks after a path now. Supervisors read it when they start, operations at any time.
type ledger struct {
	mu          sync.Mutex
	past        map[string]map[string]int // supervisor's path -> child's name -> highest incarnation used
	intents     map[string]Intent
	supervisors map[string]*shell
}

func newLedger() ledger {
	return ledger{past: map[string]map[string]int{}, intents: map[string]Intent{}, supervisors: map[string]*shell{}}
}

// enter notes the actor of a supervisor and returns which incarnations its predecessors used.
func (l *ledger) enter(path string, s *shell) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.supervisors[path] = s
	return l.past[path]
}

// leave takes the actor of a supervisor out again.
func (l *ledger) leave(path string, s *shell, past map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.past[path] = past
	if l.supervisors[path] == s {
		delete(l.supervisors, path)
	}
}

// supervisor is the actor of the supervisor at path, nil if none runs.
func (l *ledger) supervisor(path string) *shell {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.supervisors[path]
}

func (l *ledger) intent(path string) (Intent, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.intents[path]
	return i, ok
}

func (l *ledger) set(i Intent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.intents[i.Path] = i
}

// lift takes back the stops at path and below it and returns them.
func (l *ledger) lift(path string) []Intent {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lifted []Intent
	for at, i := range l.intents {
		if i.Stopped && tree.Under(path, at) {
			delete(l.intents, at)
			lifted = append(lifted, i)
		}
	}
	sortIntents(lifted)
	return lifted
}

// all returns every intent, by path.
func (l *ledger) all() []Intent {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Intent
	for _, i := range l.intents {
		all = append(all, i)
	}
	sortIntents(all)
	return all
}

func sortIntents(list []Intent) {
	slices.SortFunc(list, func(a, b Intent) int { return cmp.Compare(a.Path, b.Path) })
}

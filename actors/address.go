package actors

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// directory knows which actor is the present incarnation of each child that is an embedder's actor, and gives out
// addresses: PIDs that stay the same over restarts.
type directory struct {
	mu        sync.RWMutex
	present   map[string]*actor.PID
	addresses map[string]*address
	closed    bool
}

// arrive notes the incarnation of the child at path that now takes messages; depart, that it does so no longer.
func (d *directory) arrive(path string, pid *actor.PID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.present == nil {
		d.present = map[string]*actor.PID{}
	}
	d.present[path] = pid
}

func (d *directory) depart(path string, pid *actor.PID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.present[path] == pid {
		delete(d.present, path)
	}
}

func (d *directory) at(path string) *actor.PID {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.present[path]
}

// address returns the process that stands for path, and makes it known to the registry under id when it is first asked for.
func (d *directory) address(h *house, path, id string) *actor.PID {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.addresses[path]; a != nil {
		return h.system.NewLocalPID(a.id)
	}
	pid := h.system.NewLocalPID(id)
	if d.closed {
		return pid
	}
	a := &address{house: h, path: path, id: id}
	if _, absent := h.system.ProcessRegistry.Add(a, id); !absent {
		return pid // an actor of that name is there; it is somebody else's
	}
	if d.addresses == nil {
		d.addresses = map[string]*address{}
	}
	d.addresses[path] = a
	return pid
}

// close makes every address a dead letter and tells who watches it.
func (d *directory) close(system *actor.ActorSystem) {
	d.mu.Lock()
	all := d.addresses
	d.addresses, d.closed = nil, true
	d.mu.Unlock()
	for _, a := range all {
		pid := system.NewLocalPID(a.id)
		system.ProcessRegistry.Remove(pid)
		a.end(pid)
	}
}

// address is an actor.Process that hands on to the present incarnation of a child. Without one, messages are dead letters:
// what was meant for an incarnation that is gone must not surprise the next.
type address struct {
	house *house
	path  string
	id    string

	mu       sync.Mutex
	watchers map[string]*actor.PID
	over     bool
}

// SendUserMessage implements actor.Process.
func (a *address) SendUserMessage(self *actor.PID, message any) {
	if s := a.house.ledger.supervisor(a.path); s != nil {
		s.PostUserMessage(message)
		return
	}
	if pid := a.house.directory.at(a.path); pid != nil {
		a.house.system.Root.Send(pid, message)
		return
	}
	a.house.system.DeadLetter.SendUserMessage(self, message)
}

// SendSystemMessage implements actor.Process. An address can be watched, and stops with its tree.
func (a *address) SendSystemMessage(self *actor.PID, message any) {
	switch m := message.(type) {
	case *actor.Watch:
		a.mu.Lock()
		over := a.over
		if !over {
			if a.watchers == nil {
				a.watchers = map[string]*actor.PID{}
			}
			a.watchers[m.Watcher.String()] = m.Watcher
		}
		a.mu.Unlock()
		if over {
			a.terminated(self, m.Watcher)
		}
	case *actor.Unwatch:
		a.mu.Lock()
		delete(a.watchers, m.Watcher.String())
		a.mu.Unlock()
	case *actor.Stop:
		a.Stop(self)
	}
}

// Stop implements actor.Process: it stops the incarnation, and what comes of that the supervisor decides.
func (a *address) Stop(*actor.PID) {
	if s := a.house.ledger.supervisor(a.path); s != nil {
		s.PostUserMessage(stopAsked{})
	} else if pid := a.house.directory.at(a.path); pid != nil {
		a.house.system.Root.Stop(pid)
	}
}

func (a *address) end(self *actor.PID) {
	a.mu.Lock()
	watchers := a.watchers
	a.watchers, a.over = nil, true
	a.mu.Unlock()
	for _, w := range watchers {
		a.terminated(self, w)
	}
}

func (a *address) terminated(self, watcher *actor.PID) {
	if p, ok := a.house.system.ProcessRegistry.Get(watcher); ok {
		p.SendSystemMessage(watcher, &actor.Terminated{Who: self})
	}
}

package actors

import (
	"sync"
	"time"
)

// spawnPatience is how long a spawn counts for its slot. A spawn takes a fraction of a millisecond; one that takes this long
// waits for something that another tenant must not wait for.
const spawnPatience = time.Second

// queue says which spawn is next. It is pure: no goroutine, no lock, no clock. Tenants take turns, and within a tenant the
// first to ask is the first to go. The tenant whose turn it is, is the waiting one that was served longest ago, so that one
// that has not asked for a while goes next, however many spawns another has waiting.
type queue struct {
	waiting map[string]*line // only tenants that wait
	served  map[string]uint64
	turn    uint64
	size    int
}

// line is the spawns of one tenant that wait, first to last.
type line struct{ head, tail *ticket }

// ticket is one spawn that was asked for. A ticket is in its line from push until pop or cancel.
type ticket struct {
	tenant     string
	run        func()
	prev, next *ticket
	queued     bool
}

func newQueue() *queue {
	return &queue{waiting: map[string]*line{}, served: map[string]uint64{}}
}

// push puts the ticket at the end of its tenant's line.
func (q *queue) push(t *ticket) {
	l := q.waiting[t.tenant]
	if l == nil {
		l = &line{}
		q.waiting[t.tenant] = l
	}
	t.prev, t.queued = l.tail, true
	if l.tail == nil {
		l.head = t
	} else {
		l.tail.next = t
	}
	l.tail = t
	q.size++
}

// pop takes the next ticket, nil if none waits.
func (q *queue) pop() *ticket {
	var best string
	var found *line
	for tenant, l := range q.waiting {
		if found == nil || q.served[tenant] < q.served[best] ||
			q.served[tenant] == q.served[best] && tenant < best {
			best, found = tenant, l
		}
	}
	if found == nil {
		return nil
	}
	t := found.head
	q.remove(t)
	q.turn++
	q.served[best] = q.turn
	return t
}

// cancel takes the ticket out of its line. It tells whether the ticket was still there: if not, its spawn has begun.
func (q *queue) cancel(t *ticket) bool {
	if !t.queued {
		return false
	}
	q.remove(t)
	return true
}

func (q *queue) remove(t *ticket) {
	l := q.waiting[t.tenant]
	if t.prev == nil {
		l.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next, t.queued = nil, nil, false
	q.size--
	if l.head == nil {
		delete(q.waiting, t.tenant)
	}
}

// spawner runs the queue's spawns, at most slots at a time, each on a goroutine of the spawner. An idle spawner has no
// goroutine.
type spawner struct {
	mu    sync.Mutex
	queue *queue
	slots int
	busy  int
	shut  bool // nothing begins any more
	done  sync.WaitGroup
}

func newSpawner(slots int) *spawner {
	return &spawner{queue: newQueue(), slots: max(slots, 1)}
}

// submit queues run under the tenant. It never blocks. The function that it returns takes the spawn back, and tells whether
// it did: false means that run has begun or is about to.
func (s *spawner) submit(tenant string, run func()) (cancel func() bool) {
	t := &ticket{tenant: tenant, run: run}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.push(t)
	if s.busy < s.slots && !s.shut {
		s.busy++
		s.done.Go(s.work)
	}
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.queue.cancel(t)
	}
}

func (s *spawner) work() {
	for {
		s.mu.Lock()
		var t *ticket
		if s.busy <= s.slots && !s.shut {
			t = s.queue.pop()
		}
		if t == nil {
			s.busy--
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		s.run(t)
	}
}

// run runs one spawn. While it hangs (a folder on a dead network), its slot is lent to others, so that a tenant cannot keep
// the slots of all.
func (s *spawner) run(t *ticket) {
	lent := make(chan struct{}, 1)
	patience := time.AfterFunc(spawnPatience, func() {
		s.lend()
		lent <- struct{}{}
	})
	t.run()
	if !patience.Stop() {
		<-lent
		s.mu.Lock()
		s.slots--
		s.mu.Unlock()
	}
}

func (s *spawner) lend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots++
	if s.queue.size > 0 && s.busy < s.slots && !s.shut {
		s.busy++
		s.done.Go(s.work)
	}
}

// close lets no further spawn begin. What waits stays until it is cancelled.
func (s *spawner) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
}

// waiting is how many spawns wait for a slot.
func (s *spawner) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.size
}

// wait returns when no spawn runs and none is queued. Nothing may be submitted any more.
func (s *spawner) wait() { s.done.Wait() }

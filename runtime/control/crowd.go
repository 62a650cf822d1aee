package control

import (
	"net"
	"net/http"
	"sync"
)

// perUser is how many connections one user may have open. Anybody on the machine can connect, and each connection costs the
// daemon a descriptor that a worker's start may need.
const perUser = 64

// crowd counts open connections by user, and closes those over the bound at once. Root and the daemon's own user, who could
// end the daemon anyway, are not counted: an operator always gets in.
type crowd struct {
	own int // the daemon's user

	mu    sync.Mutex
	users map[net.Conn]int
	count map[int]int
}

func newCrowd(own int) *crowd {
	return &crowd{own: own, users: map[net.Conn]int{}, count: map[int]int{}}
}

// state is http.Server's ConnState.
func (w *crowd) state(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		uid := -1
		if p, err := peerOf(c); err == nil {
			uid = p.UID
		}
		if uid != 0 && uid != w.own && !w.enter(c, uid) {
			c.Close() // the server's next read finds out
		}
	case http.StateClosed, http.StateHijacked:
		w.leave(c)
	}
}

// enter counts the connection; false if there are too many already.
func (w *crowd) enter(c net.Conn, uid int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count[uid] >= perUser {
		return false
	}
	w.users[c] = uid
	w.count[uid]++
	return true
}

func (w *crowd) leave(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid, ok := w.users[c]
	if !ok {
		return
	}
	delete(w.users, c)
	if w.count[uid]--; w.count[uid] == 0 {
		delete(w.count, uid)
	}
}

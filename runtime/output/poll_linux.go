package output

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// poller waits for all pipes at once: one epoll of our own, which itself waits in the runtime's. A goroutine for each
// pipe would be simpler and cost a thousand workers some eight megabytes of stacks for doing nothing.
type poller struct {
	file *os.File // the epoll
	work *sync.WaitGroup

	mu     sync.Mutex
	closed bool
	last   uint64 // pipes are told apart by a number, not by their descriptor, which is used again
	pipes  map[uint64]*pipe
}

func newPoller(work *sync.WaitGroup) (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // os.NewFile then lets the runtime wait for it
		unix.Close(fd)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poller{file: os.NewFile(uintptr(fd), "epoll"), work: work, pipes: map[uint64]*pipe{}}, nil
}

// run starts a reader for each pipe that has something, until close.
func (l *poller) run() {
	conn, err := l.file.SyscallConn()
	if err != nil {
		return
	}
	events := make([]unix.EpollEvent, 64)
	_ = conn.Read(func(fd uintptr) bool { // ends with an error, when the file is closed
		for {
			n, err := unix.EpollWait(int(fd), events, 0)
			if err == unix.EINTR {
				continue
			}
			if n <= 0 {
				return false
			}
			for _, e := range events[:n] {
				if p := l.find(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32); p != nil {
					p.event(e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0)
				}
			}
		}
	})
}

func (l *poller) find(id uint64) *pipe {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pipes[id]
}

// start reads a pipe that became busy.
func (l *poller) start(p *pipe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed { // then somebody may wait for work already, and nothing may be added
		l.work.Go(p.read)
	}
}

// close ends run; no reader is started any more.
func (l *poller) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.file.Close()
}

// pipe makes the pipe of one stream and waits for it.
func (l *poller) pipe(c *Capture, stream, folder string, maker pipeMaker) (*pipe, error) {
	e, err := maker(folder, pipeName(c.source.path, c.incarnation, stream))
	if err != nil {
		return nil, err
	}
	p := &pipe{capture: c, poll: l, stream: stream, fd: e.read, write: e.write, name: e.name}
	p.lines.max = c.source.lineLimit()
	l.mu.Lock()
	l.last++
	p.id = l.last
	l.pipes[p.id] = p
	l.mu.Unlock()
	p.mu.Lock() // an event may start a reader before this is through
	err = l.control(unix.EPOLL_CTL_ADD, p)
	p.mu.Unlock()
	if err != nil {
		p.close(true)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return p, nil
}

// control changes the epoll. The caller holds the pipe's mu. It goes through the file, so that a descriptor that was closed meanwhile is never touched.
func (l *poller) control(op int, p *pipe) error {
	conn, err := l.file.SyscallConn()
	if err != nil {
		return err
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(uint32(p.id)), Pad: int32(uint32(p.id >> 32))}
	if cerr := conn.Control(func(fd uintptr) { err = unix.EpollCtl(int(fd), op, p.fd, &event) }); cerr != nil {
		return cerr
	}
	return err
}

// remove forgets a pipe that is about to be closed.
func (l *poller) remove(p *pipe) {
	_ = l.control(unix.EPOLL_CTL_DEL, p) // a closed epoll knows no pipes any more
	l.mu.Lock()
	delete(l.pipes, p.id)
	l.mu.Unlock()
}

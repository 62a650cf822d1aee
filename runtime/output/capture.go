package output

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Capture is the output of one incarnation. Its methods may be called by any goroutine.
type Capture struct {
	hub         *Hub
	source      *source
	incarnation int
	out, err    *pipe
	match       atomic.Pointer[func([]byte)]
	dropped     atomic.Int64
	ended       sync.Once
}

// Stdout is the end of the pipe that the process gets as fd 1; nil for an adopted one and after CloseWriteEnds.
func (c *Capture) Stdout() *os.File { return c.out.writeEnd() }

// Stderr is the same for fd 2.
func (c *Capture) Stderr() *os.File { return c.err.writeEnd() }

// Own makes the pipes files of the worker's user, who may otherwise not open /dev/stdout. Call it before CloseWriteEnds.
func (c *Capture) Own(uid, gid int) error {
	for _, w := range []*os.File{c.Stdout(), c.Stderr()} {
		if w == nil {
			continue
		}
		if err := w.Chown(uid, gid); err != nil {
			return fmt.Errorf("%s: cannot give the output to user %d: %w", c.source.path, uid, err)
		}
	}
	return nil
}

// CloseWriteEnds closes the daemon's copies of Stdout and Stderr. Call it once the process has them, or has failed to start:
// before, the end of its output cannot be seen.
func (c *Capture) CloseWriteEnds() {
	c.out.closeWriteEnd()
	c.err.closeWriteEnd()
}

// StopMatching ends the calls of match; one may still be on its way.
func (c *Capture) StopMatching() { c.match.Store(nil) }

// Drain reads what is in the pipes now, and so all that a process which has ended has written; the last line needs no
// newline. It does not wait for a helper that holds a pipe or goes on writing, nor longer than ctx. What such a helper
// writes later is read until Close.
func (c *Capture) Drain(ctx context.Context) {
	c.out.drain(ctx)
	c.err.drain(ctx)
	c.source.notice()
}

// Hold returns descriptors, open across an exec, that keep what is in the pipes while a daemon re-executes itself. The new
// one closes them after Adopt; until then the end of the output cannot be seen. Start no process in between.
func (c *Capture) Hold() ([]int, error) {
	var fds []int
	for _, p := range []*pipe{c.out, c.err} {
		p.mu.Lock()
		if p.fd >= 0 {
			fd, err := holdPipe(p.fd)
			if err != nil {
				p.mu.Unlock()
				for _, fd := range fds {
					closePipe(fd)
				}
				return nil, fmt.Errorf("%s: cannot hold the output: %w", c.source.path, err)
			}
			fds = append(fds, fd)
		}
		p.mu.Unlock()
	}
	return fds, nil
}

// Dropped is how many lines of this incarnation went over the rate.
func (c *Capture) Dropped() int64 { return c.dropped.Load() }

// Close ends reading at once (Drain first). A helper that still writes gets SIGPIPE. It may be called more than once.
func (c *Capture) Close() {
	c.end(true)
	c.hub.mu.Lock()
	delete(c.hub.captures, c)
	c.hub.mu.Unlock()
}

func (c *Capture) end(remove bool) {
	c.ended.Do(func() {
		for _, p := range []*pipe{c.out, c.err} {
			if p != nil {
				p.close(remove)
			}
		}
		c.source.notice()
		c.source.done()
	})
}

// ends is a pipe just made: where to read, where to write (nil when adopted), and the file it is, if it has a name.
type ends struct {
	read  int
	write *os.File
	name  string
}

// pipe reads one stream of one incarnation.
type pipe struct {
	capture *Capture
	poll    *poller
	stream  string
	id      uint64
	name    string        // of a named pipe
	state   atomic.Uint32 // idle, reading, again
	hungUp  atomic.Bool   // all writers have gone: read to the end of file

	mu    sync.Mutex // the right to read; the reads themselves never block
	fd    int        // -1: closed
	write *os.File
	lines splitter
	since time.Time // when the unfinished line became too long; zero: it is not
	timed bool      // a timer will look at it
	wide  bool      // it was full once and has been given more room
}

// The states of a pipe. An event that comes while it is read makes it again, and the reader looks once more.
const (
	pipeIdle uint32 = iota
	pipeReading
	pipeAgain
)

// overdue is how long a line that is too long may go on before what there is of it is given out.
const overdue = time.Second

// event starts reading, or makes sure that what is being read is looked at again.
func (p *pipe) event(hungUp bool) {
	if hungUp {
		p.hungUp.Store(true)
	}
	for {
		switch p.state.Load() {
		case pipeIdle:
			if p.state.CompareAndSwap(pipeIdle, pipeReading) {
				p.poll.start(p)
				return
			}
		case pipeReading:
			if p.state.CompareAndSwap(pipeReading, pipeAgain) {
				return
			}
		default:
			return
		}
	}
}

// read reads until the pipe is empty.
func (p *pipe) read() {
	for {
		p.mu.Lock()
		_, more := p.readOnce(readSize)
		if !more {
			p.lines.release()
		}
		p.mu.Unlock()
		if more || p.state.CompareAndSwap(pipeReading, pipeIdle) {
			if more {
				continue
			}
			return
		}
		p.state.Store(pipeReading)
	}
}

// readSize is what a pipe holds unless somebody has changed it.
const readSize = 64 << 10

// buffer is what reading needs. Only pipes that are being read have one.
type buffer struct {
	data  [readSize]byte
	spans []span
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// readOnce reads at most limit bytes and hands their lines on. more is false if the pipe is empty or closed. The caller
// holds mu.
func (p *pipe) readOnce(limit int) (n int, more bool) {
	if p.fd < 0 {
		return 0, false
	}
	h := p.capture.hub
	p.capture.source.await()
	h.slots <- struct{}{}
	buf := buffers.Get().(*buffer)
	hungUp := p.hungUp.Load()
	n, end := readPipe(p.fd, buf.data[:min(limit, readSize)])
	if n > readSize/2 && !p.wide {
		p.wide = true
		widen(p.fd)
	}
	if n > 0 {
		buf.spans = p.lines.split(buf.data[:n], buf.spans[:0])
		p.deliver(buf.spans)
		p.watchLength()
	}
	buffers.Put(buf)
	<-h.slots
	if end {
		p.finish()
		return n, false
	}
	// A short read means empty, unless the end of file is behind it: that makes no further event.
	return n, n == min(limit, readSize) || n > 0 && hungUp
}

// deliver hands lines on. The caller holds mu.
func (p *pipe) deliver(spans []span) {
	c := p.capture
	if match := c.match.Load(); match != nil {
		for i := range spans {
			(*match)(spans[i].text)
		}
	}
	c.dropped.Add(c.source.accept(c.incarnation, p.stream, spans))
}

// giveOut hands the unfinished line on. The caller holds mu.
func (p *pipe) giveOut() {
	p.deliver(p.lines.giveOut(nil))
	p.since = time.Time{}
}

// watchLength sees to it that an endless line shows while it goes on. The caller holds mu.
func (p *pipe) watchLength() {
	switch {
	case p.lines.cut == 0:
		p.since = time.Time{}
	case p.since.IsZero():
		p.since = time.Now()
		if !p.timed {
			p.timed = true
			time.AfterFunc(overdue, p.lookAtLength)
		}
	}
}

func (p *pipe) lookAtLength() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timed = false
	if p.since.IsZero() || p.fd < 0 {
		return
	}
	if left := overdue - time.Since(p.since); left > 0 {
		p.timed = true
		time.AfterFunc(left, p.lookAtLength)
		return
	}
	p.giveOut()
	p.lines.release()
}

// finish gives out what is left and closes the reading end. The caller holds mu.
func (p *pipe) finish() {
	if p.fd < 0 {
		return
	}
	p.giveOut()
	p.poll.remove(p)
	closePipe(p.fd)
	p.fd = -1
	p.lines.release()
}

// drain reads as many bytes as are there now, so that a writer which goes on cannot hold it.
func (p *pipe) drain(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd < 0 {
		return
	}
	left, more := waiting(p.fd), true
	for left > 0 && more && ctx.Err() == nil {
		var n int
		n, more = p.readOnce(left)
		left -= n
	}
	p.giveOut()
}

func (p *pipe) close(remove bool) {
	p.closeWriteEnd()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
	if remove && p.name != "" {
		os.Remove(p.name)
	}
}

func (p *pipe) writeEnd() *os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.write
}

func (p *pipe) closeWriteEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.write != nil {
		p.write.Close()
		p.write = nil
	}
}

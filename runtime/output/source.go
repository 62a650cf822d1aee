package output

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/coppice-run/coppice/tree"
	"golang.org/x/time/rate"
)

// source is the output of one worker over all its incarnations: it owns the ring, the file and the counters. mu is never
// held while anything is written or waited for.
type source struct {
	hub  *Hub
	path string

	mu        sync.Mutex
	users     int // captures that are open
	ring      ring
	limiter   *rate.Limiter // nil: no limit
	maxLine   int
	toStdout  bool
	file      *logFile
	fileSink  *sink // nil: no file
	toFile    bool
	followers []*Follower
	n         Count

	closed bool

	missed   Line // notice in the making: Dropped is how many
	noticing bool // a timer will send it
}

// noticeEvery is the shortest time between two notices of dropped lines.
const noticeEvery = time.Second

// use counts one more capture and takes over its settings.
func (s *source) use(logs tree.Logs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
	s.ring.keep = int(min(max(logs.Keep, 0), 1<<30))
	s.maxLine = int(min(logs.MaxLine, lengthMask/2))
	if s.maxLine <= 0 {
		s.maxLine = 8 << 10
	}
	s.limit(logs)
	s.toStdout = s.hub.stdout != nil && (logs.To == "stdout" || logs.To == "both" || logs.To == "")
	s.toFile = s.hub.cfg.Dir != "" && (logs.To == "file" || logs.To == "both")
	if !s.toFile {
		return
	}
	if s.file == nil {
		s.file = &logFile{dir: s.hub.cfg.Dir, path: s.path, log: s.hub.cfg.Log}
		s.fileSink = newSink(fileLimit, filePatience, s.file.write, s.file.note)
	}
	s.file.maxSize.Store(logs.MaxSize)
	s.file.keep.Store(int64(max(logs.MaxFiles, 1)))
}

// limit sets the rate. A bucket that is there goes on: a worker does not earn a new burst by crashing.
func (s *source) limit(logs tree.Logs) {
	burst := max(logs.Burst, 1)
	switch {
	case logs.Rate <= 0:
		s.limiter = nil
	case s.limiter == nil:
		s.limiter = rate.NewLimiter(rate.Limit(logs.Rate), burst)
	default:
		if s.limiter.Limit() != rate.Limit(logs.Rate) {
			s.limiter.SetLimit(rate.Limit(logs.Rate))
		}
		if s.limiter.Burst() != burst {
			s.limiter.SetBurst(burst)
		}
	}
}

// await waits for the writers, within their patience, before lines are accepted.
func (s *source) await() {
	s.mu.Lock()
	toStdout, file := s.toStdout, s.fileSink
	if !s.toFile {
		file = nil
	}
	s.mu.Unlock()
	if toStdout {
		s.hub.stdout.await()
	}
	if file != nil {
		file.await()
	}
}

// accept takes the lines of one read. All of them get the same time: a clock read for each costs more than the rest.
// It returns how many went over the rate.
func (s *source) accept(incarnation int, stream string, spans []span) (dropped int64) {
	if len(spans) == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := Line{Time: time.Now(), Path: s.path, Incarnation: incarnation, Stream: stream}
	if s.limiter != nil {
		sent := len(spans)
		spans = s.admit(l, spans)
		dropped = int64(sent - len(spans))
		if len(spans) == 0 {
			return dropped
		}
	}
	size := 0
	for i := range spans {
		size += len(spans[i].text)
		if spans[i].cut > 0 {
			s.n.Cut++
		}
	}
	s.n.Lines += int64(len(spans))
	s.n.Bytes += int64(size)
	s.distribute(l, spans, size)
	return dropped
}

// admit returns the lines that the rate allows and counts the others.
func (s *source) admit(l Line, spans []span) []span {
	// They all have one time, by its monotonic reading: all pass together, or those before the first that does not.
	if s.limiter.AllowN(l.Time, len(spans)) {
		return spans
	}
	kept := spans[:0]
	for len(kept) < len(spans) && s.limiter.AllowN(l.Time, 1) {
		kept = spans[:len(kept)+1]
	}
	if n := int64(len(spans) - len(kept)); n > 0 {
		s.n.Dropped += n
		s.missed = Line{Incarnation: l.Incarnation, Stream: l.Stream, Dropped: s.missed.Dropped + n}
		if !s.noticing {
			s.noticing = true
			time.AfterFunc(noticeEvery, s.timedNotice)
		}
	}
	return kept
}

func (s *source) timedNotice() {
	s.mu.Lock()
	s.noticing = false
	s.mu.Unlock()
	s.notice()
}

// notice tells how many lines were dropped since the last notice, if any were.
func (s *source) notice() {
	s.mu.Lock()
	l := s.missed
	s.missed = Line{}
	if l.Dropped > 0 && !s.closed {
		l.Time, l.Path = time.Now(), s.path
		l.Text = fmt.Appendf(nil, "[coppice: dropped %d lines: more than the rate allows]", l.Dropped)
		s.distribute(l, []span{{text: l.Text}}, len(l.Text))
	}
	s.mu.Unlock()
	if l.Dropped > 0 { // outside of the lock: it is not our code
		s.hub.cfg.Dropped(s.path, l.Incarnation, l.Dropped)
	}
}

// distribute puts lines, all with l's attributes, into the ring and to everybody who wants them. The caller holds mu.
func (s *source) distribute(l Line, spans []span, size int) {
	s.keep(l, spans)
	if s.toFile {
		s.writeFile(l, spans, size)
	}
	if s.toStdout {
		s.writeStdout(l, spans, size)
	}
	for _, f := range s.followers {
		for i := range spans {
			l.Text, l.Cut = spans[i].text, spans[i].cut
			f.offer(l)
		}
	}
}

func (s *source) writeFile(l Line, spans []span, size int) {
	prefix := appendFilePrefix(make([]byte, 0, 64), l)
	buf := s.fileSink.begin(size + len(spans)*(len(prefix)+1))
	if buf == nil {
		s.fileSink.end(nil, int64(len(spans)))
		return
	}
	for i := range spans {
		buf = append(buf, prefix...)
		buf = append(buf, spans[i].text...)
		buf = appendCut(buf, spans[i].cut)
		buf = append(buf, '\n')
	}
	s.fileSink.end(buf, 0)
}

func (s *source) writeStdout(l Line, spans []span, size int) {
	sink := s.hub.stdout
	buf := sink.begin(size + len(spans)*(len(s.path)+64))
	if buf == nil {
		sink.end(nil, int64(len(spans)))
		return
	}
	for i := range spans {
		l.Text, l.Cut = spans[i].text, spans[i].cut
		buf = s.hub.appendStdout(buf, l)
	}
	sink.end(buf, 0)
}

// keep puts lines into the ring.
func (s *source) keep(l Line, spans []span) {
	now := l.Time.UnixNano()
	var flags uint32
	if l.Stream == Err {
		flags = flagErr
	}
	if l.Dropped > 0 {
		s.ring.add(now, l.Incarnation, l.Dropped, flags|flagDropped, l.Text)
		return
	}
	for i := range spans {
		s.ring.add(now, l.Incarnation, spans[i].cut, flags, spans[i].text)
	}
}

const fileTime = "2006-01-02T15:04:05.000000Z07:00"

// appendFilePrefix appends what stands before the text in a log file's record.
func appendFilePrefix(dst []byte, l Line) []byte {
	dst = l.Time.UTC().AppendFormat(dst, fileTime)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(l.Incarnation), 10)
	dst = append(dst, ' ')
	dst = append(dst, l.Stream...)
	return append(dst, ' ')
}

// cursor reads the ring from its newest line; nil if it is empty.
func (s *source) cursor() *cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cursorLocked()
}

func (s *source) cursorLocked() *cursor {
	if len(s.ring.segs) == 0 {
		return nil
	}
	return &cursor{path: s.path, segs: s.ring.view()}
}

// follow adds a follower and returns a cursor over exactly what came before it; nil if that is nothing.
func (s *source) follow(f *Follower) *cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers = append(s.followers, f)
	return s.cursorLocked()
}

func (s *source) unfollow(f *Follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make([]*Follower, 0, len(s.followers))
	for _, g := range s.followers {
		if g != f {
			kept = append(kept, g)
		}
	}
	s.followers = kept
}

// done counts one capture less.
func (s *source) done() {
	s.mu.Lock()
	s.users--
	users, file, sink := s.users, s.file, s.fileSink
	s.mu.Unlock()
	if users == 0 && file != nil {
		sink.afterwards(file.close)
	}
}

// lineLimit is how long a line may be.
func (s *source) lineLimit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxLine
}

func (s *source) unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users == 0
}

// written tells whether nothing waits for the log file.
func (s *source) written() bool {
	s.mu.Lock()
	sink := s.fileSink
	s.mu.Unlock()
	return sink == nil || sink.idle()
}

func (s *source) count() Count {
	s.mu.Lock()
	n := s.n
	file, sink := s.file, s.fileSink
	s.mu.Unlock()
	n.Path = s.path
	if file != nil {
		n.Unfiled = file.lost.Load() + sink.losses()
	}
	return n
}

// close writes out what waits and closes the file; false if stop closed before.
func (s *source) close(stop <-chan struct{}) bool {
	s.notice()
	s.mu.Lock()
	s.closed = true
	file, sink := s.file, s.fileSink
	s.mu.Unlock()
	if file == nil {
		return true
	}
	sink.afterwards(file.close)
	return sink.flush(stop)
}

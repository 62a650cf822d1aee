package actors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/coppice-run/coppice/tree"
)

var errCancelled = errors.New("cannot start: cancelled")

// handle holds one launch and what came of it. It is not part of the worker's actor value, and what turns up after the worker
// gave up is still killed and released by it.
type handle struct {
	house *house
	ref   tree.Ref
	shell *shell // the worker's
	// stop cancels a launch that runs, dequeue takes back one that waits; both belong to the worker's mailbox and are nil
	// when the launch is over.
	stop    func()
	dequeue func() bool

	gone atomic.Bool // nothing of the process runs

	mu     sync.Mutex
	inst   Instance
	lost   bool // the worker is no more
	closed bool
}

// launch runs in a slot of the spawn queue.
func (h *handle) launch(ctx context.Context, spec *tree.Spec) {
	var result launched
	inst := func() (inst Instance) {
		finished := false
		defer func() {
			if cause := recover(); !finished {
				result.stack, result.err = panicError(cause)
			}
		}()
		if ctx.Err() != nil || h.shell.halting.Load() {
			result.err = errCancelled
		} else {
			inst, result.err = h.house.launcher.Launch(ctx, h.ref, spec, h.tell)
		}
		finished = true
		return inst
	}()
	if result.err == nil && inst == nil {
		result.err = errors.New("cannot start: the launcher returned nothing")
	}
	h.mu.Lock()
	h.inst = inst
	lost := h.lost
	h.mu.Unlock()
	if !lost {
		h.shell.PostUserMessage(result)
		return
	}
	if inst != nil {
		h.kill("nobody waits for it")
		if h.gone.Load() {
			h.close()
		}
	}
}

// tell is what the launcher calls, from any goroutine.
func (h *handle) tell(fact tree.Fact) {
	_, gone := fact.(tree.Gone)
	if gone {
		h.gone.Store(true)
	}
	h.mu.Lock()
	lost := h.lost
	h.mu.Unlock()
	switch {
	case !lost:
		h.shell.PostUserMessage(fact)
	case gone:
		h.close()
	}
}

// cancel takes back a launch. True: it had not begun and nothing comes of it. False: it runs, was told to give up, and its
// answer comes.
func (h *handle) cancel() bool {
	if h.dequeue == nil {
		return false
	}
	if h.dequeue() {
		return true
	}
	h.stop()
	return false
}

// over frees what only a launch needs.
func (h *handle) over() {
	if h.stop != nil {
		h.stop()
	}
	h.stop, h.dequeue = nil, nil
}

// do hands an order to the instance, if there is one.
func (h *handle) do(order tree.Order) {
	if inst := h.instance(); inst != nil {
		inst.Do(order)
	}
}

// kill orders the end of a process whose worker is broken, or gone. It does not panic, whatever the instance does.
func (h *handle) kill(reason string) {
	defer func() {
		if cause := recover(); cause != nil {
			h.house.log.Error("could not kill", "path", h.ref.Path, "incarnation", h.ref.Inc, "reason", textOf(cause))
		}
	}()
	h.do(tree.Kill{Reason: reason})
}

func (h *handle) instance() Instance {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inst
}

func (h *handle) pid() int {
	if inst := h.instance(); inst != nil {
		return inst.PID()
	}
	return 0
}

// release is called once, when the worker quits. What still runs then is killed: now, or when its launch is over. The
// instance is closed outside the mailbox.
func (h *handle) release() {
	h.over()
	h.mu.Lock()
	h.lost = true
	h.mu.Unlock()
	if !h.gone.Load() {
		h.kill("nobody waits for it")
	}
	h.close()
}

func (h *handle) close() {
	h.mu.Lock()
	inst, closed := h.inst, h.closed
	if inst != nil {
		h.closed = true
	}
	h.mu.Unlock()
	if inst == nil || closed {
		return
	}
	h.house.loose.Go(func() {
		defer func() {
			if cause := recover(); cause != nil {
				h.house.log.Error("closing panicked", "path", h.ref.Path, "incarnation", h.ref.Inc, "reason", cause)
			}
		}()
		inst.Close()
	})
}

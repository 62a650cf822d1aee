package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/tree"
)

// underWay is how the starts under path that began before a request and have not ended look among the events after it.
func (h *Host) underWay(path string) (events []tree.Event) {
	for _, n := range h.options.Journal.Nodes() {
		if tree.Under(path, n.Path) && n.Leaf != nil && n.State == tree.StateStarting {
			events = append(events, tree.Event{Path: n.Path, Incarnation: n.Incarnation, Kind: tree.EventStarting})
		}
	}
	return events
}

// await returns when what was asked of the node at path is done, or has failed. events are what it goes on from, after is
// the number of the request's event.
func (h *Host) await(ctx context.Context, asked tree.Asked, path string, ask Ask, events []tree.Event, after tree.Seq) error {
	if ask.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, ask.Timeout, ErrTimeout)
		defer cancel()
	}
	waitsFor := path
	for {
		began := time.Now()
		outcome := tree.Judge(asked, path, h.options.Journal.Nodes(), events)
		switch {
		case outcome.Done:
			return nil
		case outcome.Failed && outcome.Path == path:
			return errors.New(outcome.Reason)
		case outcome.Failed:
			return fmt.Errorf("%s: %s", outcome.Path, outcome.Reason)
		}
		waitsFor = outcome.Path
		// In a large tree judging costs; it may take a tenth of the time, however fast events come.
		if err := pause(ctx, 10*time.Since(began)); err != nil {
			return waitError(ctx, err, waitsFor)
		}
		var err error
		if events, after, err = h.more(ctx, asked, path, events, after); err != nil {
			return waitError(ctx, err, waitsFor)
		}
	}
}

// more waits until something happened to the node or below it.
func (h *Host) more(ctx context.Context, asked tree.Asked, path string, events []tree.Event, after tree.Seq) ([]tree.Event, tree.Seq, error) {
	for had := len(events); len(events) == had; {
		news, err := h.options.Journal.Next(ctx, after)
		if err != nil {
			return nil, 0, err
		}
		for _, ev := range news {
			after = ev.Seq
			if overruled(&ev, asked, path) {
				return nil, 0, conflict(ev.Path + " was " + ev.Reason + " meanwhile")
			}
			if tree.Under(path, ev.Path) {
				events = append(events, ev)
			}
		}
	}
	return events, after, nil
}

// overruled tells whether an operator has asked for the contrary.
func overruled(ev *tree.Event, asked tree.Asked, path string) bool {
	if ev.Kind != tree.EventIntent || !tree.Under(ev.Path, path) {
		return false
	}
	stopped := ev.Data["intent"] == "stopped"
	return stopped != (asked == tree.AskedStop)
}

// pause waits for d.
func pause(ctx context.Context, d time.Duration) error {
	if d < time.Millisecond {
		return ctx.Err()
	}
	timer := time.NewTimer(min(d, 200*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitError says what was still waited for when the time was over.
func waitError(ctx context.Context, err error, path string) error {
	if errors.Is(context.Cause(ctx), ErrTimeout) {
		return fmt.Errorf("%w for %s", ErrTimeout, path)
	}
	return err
}

package actors

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
)

// NewSystem makes an ActorSystem that logs to log, at Trace what protoactor calls Info or less. Nothing of it runs while it
// has no actor, so there is nothing to shut down: Shutdown stops nothing and must not be called twice.
func NewSystem(log hclog.Logger) *actor.ActorSystem {
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(logHandler{log: log}) }),
		// After a dead letter protoactor keeps a goroutine for this long.
		actor.WithDeadLetterThrottleInterval(time.Millisecond),
	)
	shrink(system.ProcessRegistry)
	return system
}

// shrink gives the registry of a new system fewer buckets. It comes with 1,024 of 32 maps each, 2.8 MiB that are as much as
// a thousand workers need; eight are plenty for a few cores.
func shrink(registry *actor.ProcessRegistryValue) {
	all := registry.LocalPIDs
	few := &actor.SliceMap{LocalPIDs: slices.Clone(all.LocalPIDs[:8])}
	for _, id := range []string{"deadletter", "eventstream"} {
		if process, ok := all.GetBucket(id).Pop(id); ok {
			few.GetBucket(id).Set(id, process)
		}
	}
	registry.LocalPIDs = few
}

// logHandler writes protoactor's records to hclog.
type logHandler struct {
	log   hclog.Logger
	attrs []any
}

// Enabled implements slog.Handler.
func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.log.IsTrace()
}

// Handle implements slog.Handler.
func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	args := h.attrs[:len(h.attrs):len(h.attrs)]
	r.Attrs(func(a slog.Attr) bool {
		args = append(args, a.Key, a.Value.Any())
		return true
	})
	switch {
	case r.Level >= slog.LevelError:
		h.log.Error(r.Message, args...)
	case r.Level >= slog.LevelWarn:
		h.log.Warn(r.Message, args...)
	default:
		h.log.Trace(r.Message, args...)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	args := h.attrs[:len(h.attrs):len(h.attrs)]
	for _, a := range attrs {
		args = append(args, a.Key, a.Value.Any())
	}
	return logHandler{log: h.log, attrs: args}
}

// WithGroup implements slog.Handler; protoactor has no groups.
func (h logHandler) WithGroup(string) slog.Handler { return h }

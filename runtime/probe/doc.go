// Package probe asks workers whether they are ready and well: by their socket, by HTTP over it, by a command, and by the
// pulse of a heartbeat file. Readiness (Until), health (Watch) and heartbeat (Heartbeat) are three things that know
// nothing of one another; none of them decides what becomes of the worker.
//
// Each runs on its caller's goroutine, ends with its context, makes one attempt at a time, and measures time by the
// monotonic clock: setting the wall clock fires nothing and delays nothing.
package probe

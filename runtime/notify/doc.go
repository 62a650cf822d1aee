// Package notify speaks sd_notify, all three ways: it hears what workers report on their NOTIFY_SOCKET, it reports for a
// shell worker (`coppice notify READY=1`), and it reports for the daemon itself to what supervises it.
//
// # Whose word counts
//
// A worker's socket lies in the folder of its incarnation, which is 0700 and belongs to the worker's user: other tenants
// cannot reach it. Other processes of the same user can, so each message is also judged by its sender, as the kernel
// attests it:
//
//   - The sender is alive and belongs to the worker: it counts.
//   - The sender is alive and does not: refused. A sibling that sent to the wrong socket cannot make this worker ready.
//   - The sender is gone by the time its message is read, as short-lived helpers of a shell worker may be: it counts if it
//     ran as the worker's user, as the daemon's, or as root. Nobody can tell any more whether it was the worker's own; that a
//     sibling of the same user could forge it crosses no boundary, as the same user may also kill or trace the worker.
//
// Where the kernel hands over a pidfd of the sender (Linux 6.5), a pid that was given to another process in between is
// noticed.
package notify

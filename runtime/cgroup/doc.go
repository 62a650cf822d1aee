// Package cgroup puts the processes of one worker incarnation into a control group of their own: to bound what they
// use, to know who belongs to them, to kill them all, and to tell a kill by the kernel's OOM killer from any other.
//
// A daemon has one [Root], below the group that it runs in. A tenant or app is a [Branch], whose limits everything below
// it shares. An incarnation is a [Leaf]. On disk, for the worker web.0 of acme/shop:
//
//	BASE/NAME.coppice/daemon.leaf                       the daemon itself, where its own group is not the top one
//	BASE/NAME.coppice/acme.tree/shop.tree/web%2E0-17.leaf
//
// The suffixes keep names that users choose apart from the kernel's own files. BASE is the daemon's own group, found in
// /proc/self/cgroup and /proc/self/mountinfo, wherever the host mounts it.
//
// cgroup v2 does everything where it can: an incarnation is born in its leaf ([Leaf.FD] with CLONE_INTO_CGROUP), and an
// OOM kill takes all of it. On a hybrid host, whose memory, pids or cpu controller sits in a v1 hierarchy, that limit is
// set there, and v2 (without controllers) still tells who belongs to the leaf. A process cannot be born in a v1 group:
// see [Leaf.JoinPaths].
//
// Controllers are switched on only on the way to a group that has a limit, so a leaf without one costs a mkdir, an open
// and a rmdir.
//
// A worker that runs as root, or as the daemon's own user where the daemon is not root, can leave its group or lift its
// limits. Limits bind tenants that have users of their own.
package cgroup

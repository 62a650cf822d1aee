package control

import (
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerOf asks the kernel who connected: the identity at connect time, which cannot be forged or changed afterwards.
func peerOf(c net.Conn) (Peer, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return Peer{}, fmt.Errorf("cannot tell the peer of %T", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var groups []int
	var credErr error
	err = raw.Control(func(fd uintptr) {
		if cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); credErr == nil {
			groups = peerGroups(fd)
		}
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return Peer{}, err
	}
	return Peer{UID: int(cred.Uid), GID: int(cred.Gid), PID: int(cred.Pid), Groups: groups}, nil
}

// peerGroups returns the supplementary groups of the peer, or none where the kernel does not tell.
func peerGroups(fd uintptr) []int {
	buf := make([]uint32, 1024)
	size := uint32(len(buf) * 4)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
		uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return nil
	}
	groups := make([]int, 0, size/4)
	for _, g := range buf[:size/4] {
		groups = append(groups, int(g))
	}
	return groups
}

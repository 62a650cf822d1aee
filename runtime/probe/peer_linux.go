package probe

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peer is the user as whom the listener ran when it began to listen, as the kernel says.
func peer(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = cerr
	}
	if err != nil {
		return -1, fmt.Errorf("cannot tell who holds its socket: %w", err)
	}
	return int(cred.Uid), nil
}

package notify

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// datagram is one message as it came, with every descriptor that came with it.
type datagram struct {
	data  []byte
	cred  unix.Ucred
	pidfd int // of the sender; -1 if the kernel gave none
	gone  bool
	fds   []int
	fault string // why it cannot be used, ""
}

// receive takes one message off the socket, or says EAGAIN.
func receive(fd int) (datagram, error) {
	// Room for the credentials, the pidfd and four descriptors. What does not fit the kernel closes itself, so a sender can
	// neither fill our table nor leave anything in it.
	buf := make([]byte, maxMessage)
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace(4)+unix.CmsgSpace(4*4))
	n, oobn, flags, _, err := unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	for err == unix.EINTR {
		n, oobn, flags, _, err = unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	}
	if err != nil {
		return datagram{}, err
	}
	d := datagram{data: buf[:n], pidfd: -1}
	d.control(oob[:oobn])
	if flags&unix.MSG_TRUNC != 0 {
		d.fault = "it is longer than 4096 bytes" // half a line may say the opposite
	}
	return d, nil
}

// control takes the sender and the descriptors out. It goes through all of it whatever is in it: a descriptor that is
// not seen here stays open for ever.
func (d *datagram) control(oob []byte) {
	known := false
	for len(oob) >= unix.CmsgLen(0) {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break
		}
		oob = rest
		if h.Level != unix.SOL_SOCKET {
			continue
		}
		switch h.Type {
		case unix.SCM_CREDENTIALS:
			if len(data) >= unix.SizeofUcred {
				d.cred.Pid = int32(binary.NativeEndian.Uint32(data))
				d.cred.Uid = binary.NativeEndian.Uint32(data[4:])
				d.cred.Gid = binary.NativeEndian.Uint32(data[8:])
				known = true
			}
		case unix.SCM_RIGHTS:
			for ; len(data) >= 4; data = data[4:] {
				d.fds = append(d.fds, int(int32(binary.NativeEndian.Uint32(data))))
			}
		case unix.SCM_PIDFD:
			if len(data) >= 4 {
				d.pidfd = int(int32(binary.NativeEndian.Uint32(data)))
				d.gone = d.pidfd < 0 // an errno in its place: the sender was reaped before we looked
			}
		}
	}
	if !known {
		d.fault = "its sender is not known"
	}
}

// alive tells whether the sender still runs. Zombies do not.
func (d *datagram) alive() bool {
	switch {
	case d.gone:
		return false
	case d.pidfd >= 0:
		return running(d.pidfd)
	}
	// No pidfd from the kernel: one by pid will do to see whether anybody is there.
	fd, err := unix.PidfdOpen(int(d.cred.Pid), 0)
	if err != nil {
		return !errors.Is(err, unix.ESRCH) && unix.Kill(int(d.cred.Pid), 0) != unix.ESRCH
	}
	defer unix.Close(fd)
	return running(fd)
}

// running: a pidfd is readable from the moment its process has ended.
func running(pidfd int) bool {
	p := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, 0)
		if err != unix.EINTR {
			return err == nil && n == 0
		}
	}
}

// close lets the sender's barrier go, and keeps nothing.
func (d *datagram) close() {
	for _, fd := range d.fds {
		unix.Close(fd)
	}
	if d.pidfd >= 0 {
		unix.Close(d.pidfd)
	}
}

package demo

import "syscall"

// childAttr: the kernel kills the child when the demo dies, however it dies; Ctrl-C reaches the demo only, which ends its children in order.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

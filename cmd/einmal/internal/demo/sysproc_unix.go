//go:build unix && !linux

package demo

import "syscall"

// childAttr: Ctrl-C reaches the demo only, which ends its children in order.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

//go:build !unix

package demo

import "syscall"

func childAttr() *syscall.SysProcAttr { return nil }

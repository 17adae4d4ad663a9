//go:build !linux

package testrig

import (
	"os/exec"
	"syscall"
)

func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as}
}

func startOnThread(cmd *exec.Cmd) error { return cmd.Start() }

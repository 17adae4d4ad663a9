package testrig

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as, Pdeathsig: syscall.SIGKILL}
}

// thread runs functions on a thread that lives as long as this process. Pdeathsig counts from the end of the thread that
// started a process, and other threads of Go end at any time.
var thread = sync.OnceValue(func() chan<- func() {
	tasks := make(chan func())
	go func() {
		runtime.LockOSThread()
		for task := range tasks {
			task()
		}
	}()
	return tasks
})

func startOnThread(cmd *exec.Cmd) error {
	started := make(chan error)
	thread() <- func() { started <- cmd.Start() }
	return <-started
}

// Package pager shows text on a terminal, page by page where it is longer than the screen.
package pager

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Terminal is the terminal that shows the text.
type Terminal struct {
	Out, Err io.Writer // Out is the terminal itself, so that a pager can detect its size
	Rows     int       // 0: unknown, no pager is started
	Getenv   func(name string) string
}

// Show writes text. Text longer than the screen goes through PAGER, or less; NO_PAGER=1 and PAGER=cat disable this. When no pager
// can be started, the text is written directly.
func (t Terminal) Show(ctx context.Context, text []byte) error {
	pager := t.pager()
	if t.Rows <= 0 || pager == "" || bytes.Count(text, []byte("\n")) < t.Rows {
		_, err := t.Out.Write(text)
		return err
	}
	shell := []string{"sh", "-c"}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/C"}
	}
	cmd := exec.CommandContext(ctx, shell[0], shell[1], pager) //nolint:gosec // the user's own pager
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), t.Out, t.Err
	cmd.Env = append(cmd.Environ(), "LESS="+cmp.Or(t.Getenv("LESS"), "FRX"))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it restores the terminal
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// Every other exit status of a pager means that it has shown the text: the user may quit early, or with a signal.
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() != 126 && exit.ExitCode() != 127 {
		return nil
	}
	if err != nil {
		_, err = t.Out.Write(text)
	}
	return err
}

func (t Terminal) pager() string {
	if t.Getenv("NO_PAGER") != "" || t.Getenv("PAGER") == "cat" {
		return ""
	}
	if named := t.Getenv("PAGER"); named != "" {
		return named
	}
	if _, err := exec.LookPath("less"); err != nil {
		return ""
	}
	return "less"
}

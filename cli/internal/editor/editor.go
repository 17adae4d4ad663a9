// Package editor lets people edit text in the program of their choice.
package editor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
)

// Editor is a program that edits a file, on the terminal of whoever uses it.
type Editor struct {
	Command        string // of the shell, such as "code --wait"; empty: vi
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Edit lets somebody edit text, and answers what they made of it and the file it is in, which stays: it may be all that is left of
// their work. The file is readable for them alone; its name is empty when there is none.
func (e Editor) Edit(ctx context.Context, text []byte) (edited []byte, file string, err error) {
	f, err := os.CreateTemp("", "flux-resourceset-edit-*.yaml")
	if err != nil {
		return nil, "", err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, f.Name(), err
	}
	command := e.Command
	if command == "" {
		command = "vi"
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command+` "$1"`, "sh", f.Name()) //nolint:gosec // the user's own editor
	if runtime.GOOS == "windows" {
		cmd = exec.CommandContext(ctx, "cmd", "/C", command, f.Name()) //nolint:gosec // the user's own editor
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, e.Stdout, e.Stderr
	if err := cmd.Run(); err != nil {
		return nil, f.Name(), fmt.Errorf("the editor %q: %w", command, err)
	}
	edited, err = os.ReadFile(f.Name())
	return edited, f.Name(), err
}

// Package editor opens text in the user's editor.
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

// Editor is an editor for files, which runs on the user's terminal.
type Editor struct {
	Command        string // shell command, such as "code --wait"; empty: vi
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Edit returns the edited text and its temporary file, which the caller removes: it may hold all that is left of the user's work.
// Only the user can read the file. Its name is empty when it was not created.
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

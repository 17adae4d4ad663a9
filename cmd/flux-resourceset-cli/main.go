// Command flux-resourceset-cli reads and changes a fleet through the flux-resourceset API. Package cli has the commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/flux-resourceset/flux-resourceset/cli"
	"github.com/flux-resourceset/flux-resourceset/offline"
	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

// version is set by the build.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return cli.Run(ctx, os.Args, cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		StdinTerminal:  isTerminal(os.Stdin),
		StdoutTerminal: isTerminal(os.Stdout),
		StderrTerminal: isTerminal(os.Stderr),
		Size:           size,
		Getenv:         os.Getenv,
		Version:        version,
		Offline:        func() cli.OfflineFleet { return new(offline.Fleet) },
	})
}

func isTerminal(f *os.File) bool { return isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()) }

// size returns the size of the terminal on standard output in characters; 0 if it is unknown.
func size() (columns, rows int) {
	columns, rows, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}

// Command flux-resourceset-cli looks at and changes a fleet through the flux-resourceset API.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/flux-resourceset/flux-resourceset/cli"
	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

// version is set by the build.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Run(ctx, os.Args, cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		StdinTerminal:  isTerminal(os.Stdin),
		StdoutTerminal: isTerminal(os.Stdout),
		StderrTerminal: isTerminal(os.Stderr),
		Size:           size,
		Getenv:         os.Getenv,
		Version:        version,
	})
}

func isTerminal(f *os.File) bool { return isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()) }

// size is that of the terminal on standard output; 0: it has none that is known.
func size() (columns, rows int) {
	columns, rows, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}

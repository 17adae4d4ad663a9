// Command flux-resourceset serves the desired state of a fleet of clusters to their Flux Operators, and maintains its store.
//
// This package reads the environment, connects the other packages, and sets the exit code; the rules are in fleet, the HTTP
// API is in server. Reading order: main.go (commands), config.go (settings), serve.go (the server), open.go (how a store is
// created, seeded and opened), database.go (backends). The other files each hold one command: accept, backup, copy, import
// (with reference*.go), migrate, token, validate, verify.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
)

// version is set by the linker.
var version = "dev"

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the program with its arguments and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := app(stdout, stderr)
	err := app.RunContext(ctx, reorderArgs(args, flags(), app.Commands))
	var config *configError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &config):
		fmt.Fprintf(stderr, "flux-resourceset: %s\n", config)
		return exitUsage
	}
	fmt.Fprintf(stderr, "flux-resourceset: %v\n", err)
	return exitError
}

func app(stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:    "flux-resourceset",
		Usage:   "serve the desired state of a fleet of clusters to their Flux Operators",
		Version: version,
		Description: "Every setting is an environment variable and a flag; the flag wins. Without a command, serve is run.\n" +
			"Exit codes: 0 done, 1 failed, 2 the configuration or the command line is not valid.",
		Writer: stdout, ErrWriter: stderr,
		HideHelpCommand: true,
		// A value of a repeated flag may contain commas: --set component/a/depends_on=["b","c"].
		DisableSliceFlagSeparator: true,
		Flags:                     flags(),
		Action:                    serve,
		OnUsageError:              usageError,
		ExitErrHandler:            func(*cli.Context, error) {}, // run sets the exit code
		Commands: []*cli.Command{
			{Name: "serve", Usage: "answer polls, and changes in mode crud (the default)", Action: serve, OnUsageError: usageError},
			{
				Name: "migrate", Usage: "manage the store's schema", OnUsageError: usageError,
				Action: func(c *cli.Context) error { return unknownCommand(c, "up or status") },
				Subcommands: []*cli.Command{
					{Name: "up", Usage: "bring the schema to this version's", Action: migrateUp, OnUsageError: usageError},
					{Name: "status", Usage: "show the schema's version", Action: migrateStatus, OnUsageError: usageError},
				},
			},
			importCommand(),
			copyCommand(),
			backupCommand(),
			restoreCommand(),
			verifyCommand(),
			acceptCommand(),
			tokenCommand(),
			validateCommand(),
		},
	}
}

func usageError(_ *cli.Context, err error, _ bool) error {
	return &configError{problems: []string{err.Error()}}
}

func unknownCommand(c *cli.Context, want string) error {
	return &configError{problems: []string{fmt.Sprintf("%q is not a command here; use %s", strings.Join(c.Args().Slice(), " "), want)}}
}

// Package cli is the command line of flux-resourceset: a thin layer of urfave/cli commands over the Go client. Every
// rule (validation, merge, conflicts) lives in the server; here are only arguments, output and advice.
package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/urfave/cli/v2"
)

// Exit codes of [Run].
const (
	exitOK    = 0
	exitError = 1 // the server refused, could not be reached, or something else failed
	exitUsage = 2 // the command line is wrong; nothing was sent

	// Of commands that compare (plan, diff, --plan), as of diff(1): 0 means that nothing differs.
	exitDiffers = 1
	exitTrouble = 3 // what is exitError elsewhere

	exitTimedOut = 2 // of wait: what was waited for did not come in time
)

// Env is the world a command runs in.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Which of the three are terminals: tables instead of JSON, questions instead of refusals, colours.
	StdinTerminal, StdoutTerminal, StderrTerminal bool
	// Size is that of the terminal that Stdout is, in characters; 0: not known. Nil: it is not known.
	Size func() (columns, rows int)
	// Getenv looks up an environment variable; empty when it is not set.
	Getenv func(name string) string
	// Version of the program.
	Version string
	// Now is the clock; nil: the system's.
	Now func() time.Time
}

// Run executes one command line, commandLine[0] being the program's name, and answers the exit code: 0 done, 1 failed, 2 the
// command line is wrong. Commands that compare answer 0 nothing differs, 1 something does, 2 the command line is wrong,
// 3 failed.
func Run(ctx context.Context, commandLine []string, env Env) int {
	if env.Now == nil {
		env.Now = time.Now
	}
	s := newSession(env)
	s.program = args.NameOf(commandLine[0])
	app := s.app()
	words := commandLine[1:]
	if len(words) > 0 && words[0] == "help" { // as others have it
		words = append(slices.Clone(words[1:]), "--help")
	}
	line, err := args.Arrange(app, words)
	switch {
	case err != nil:
	case line.Help:
		s.printUsage(app, line.Path)
		return exitOK
	default:
		err = app.RunContext(ctx, append([]string{args.Program}, line.Args...))
		s.moreWarnings()
		s.connection.saveSeenRevision()
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errDiffers):
		return exitDiffers
	}
	s.reportError(err)
	if errors.Is(err, errTimedOut) {
		return exitTimedOut
	}
	if _, ok := errors.AsType[args.Error](err); ok {
		return exitUsage
	}
	if line.Compares() {
		return exitTrouble
	}
	return exitError
}

// printUsage prints the help under the name that the program was called by.
func (s *session) printUsage(app *cli.App, path []*cli.Command) {
	var text strings.Builder
	args.PrintUsage(&text, app, path, changeFlags())
	_, _ = io.WriteString(s.env.Stdout, args.Renamed(text.String(), s.program))
}

// app is the whole command tree. It holds no state of its own: s does.
func (s *session) app() *cli.App {
	app := &cli.App{
		Name:     args.Program,
		HelpName: args.Program,
		Usage:    "Look at and change a fleet of clusters through the flux-resourceset API",
		Version:  s.env.Version,
		Flags:    globalFlags(),
		Commands: []*cli.Command{
			clusterCommands{s}.clusterCommand(), kindCommands{s, namespaces}.definitionCommand(), kindCommands{s, components}.definitionCommand(componentCommands{s}.commands()...),
			kindCommands{s, roleBindings}.definitionCommand(),
			s.resourceTypeCommand(), s.resourceCommand(), s.layerCommand(),
			tokenCommands{s}.tokenCommand(), authCommands{s}.authCommand(), revisionCommands{s}.revisionCommand(), ownershipCommands{s}.ownershipCommand(),
			s.applyCommand(), s.planCommand(), s.diffCommand(), exporter{s}.exportCommand(), s.restoreCommand(), s.backupCommand(),
			inputCommands{s}.inputsCommand(), s.explainCommand(), s.apiResourcesCommand(), statusCommands{s}.statusCommand(), s.waitCommand(), s.demoCommand(),
			bootstrapper{s}.bootstrapCommand(), renderer{s}.renderCommand(),
			contexts{s}.configCommand(), s.completionCommand(), statusCommands{s}.versionCommand(), s.completeCommand(), s.docsCommand(),
		},
		Reader: s.env.Stdin, Writer: s.env.Stdout, ErrWriter: s.env.Stderr,
		// A comma is data in `--set key=a,b`.
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		Before: func(c *cli.Context) error {
			s.quiet, s.verbose = c.Bool("quiet"), c.Bool("verbose")
			return nil
		},
		Action: func(c *cli.Context) error {
			if c.Bool("version") {
				return statusCommands{s}.printVersion(c)
			}
			s.printUsage(c.App, nil)
			return nil
		},
	}
	// Help is printed by printUsage: urfave's would take `help` and `h` as subcommands of every command, so that
	// nothing could have these names.
	app.HideHelp, app.HideHelpCommand, app.HideVersion = true, true, true
	app.OnUsageError = badFlag
	app.Setup() // names the commands; before finish, which names the ones below them
	for _, cmd := range app.Commands {
		finish(cmd)
	}
	s.root = app
	return app
}

// finish sets what is the same for every command.
func finish(cmd *cli.Command) {
	cmd.HideHelp, cmd.HideHelpCommand = true, true
	cmd.OnUsageError = badFlag
	name := cmd.HelpName
	if len(cmd.Subcommands) > 0 {
		cmd.Action = needsVerb
		if args.Operand(cmd) != "" {
			name += " " + cmd.ArgsUsage
		}
	}
	for _, sub := range cmd.Subcommands {
		sub.HelpName = name + " " + sub.Name
		finish(sub)
	}
}

func needsVerb(c *cli.Context) error {
	if operand := args.Operand(c.Command); operand != "" {
		return args.Errorf("%s takes %s, and then a command: %s", c.Command.HelpName, c.Command.ArgsUsage, args.ListOf(args.Visible(c.Command.Subcommands)))
	}
	return args.Errorf("%s needs a command: %s", c.Command.HelpName, args.ListOf(args.Visible(c.Command.Subcommands)))
}

// badFlag turns what the flag parser says into a usage error, without urfave's help on standard output.
func badFlag(_ *cli.Context, err error, _ bool) error {
	return args.Error{Err: err}
}

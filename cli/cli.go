// Package cli is the command line of flux-resourceset: urfave/cli commands over the Go client. Every rule (validation, merge,
// conflicts) is the server's; the package handles arguments, output, confirmation and hints.
//
// Invariants:
//
//   - A command line that cannot be understood sends no request. Lists are complete unless --limit is given, which a note reports.
//   - Standard output is the result in one format. Notes, warnings, prompts and errors go to standard error.
//   - A change that removes something is confirmed by a person at a terminal, or by a flag that names its size.
//   - A lost response to a change is reported with the request id under which the history has it.
//   - All commands of a kind follow from its descriptor, a [kinds.Kind]. Kinds of resource types have the same commands.
//
// A file has the commands of one noun, and uses what is below: verbs.go with the commands that all kinds have, assign.go with
// assignments, and the engine in internal/change, which makes changes of kinds (internal/kinds) over a connection (internal/conn).
// Begin with cli.go, a run from the command line to the exit code, then read a noun such as clusters.go.
//
// Below them, internal/args parses and documents command lines, internal/config finds server and tokens, internal/input reads JSON and
// YAML of users, internal/manifests files of documents, internal/bootstrap connects clusters to the API, internal/planview and fleetview
// format plans and the fleet, internal/render writes formats and tables, and internal/prompt, pager, editor and watch serve one purpose
// each.
package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

// Run executes one command line, whose first element is the program's name, and returns the exit code: 0 success, 1 failure, 2 a
// wrong command line. Commands that compare return 0 for no difference, 1 for a difference, 2 for a wrong command line and 3 for a
// failure. A run whose context is canceled before it has finished returns 130.
func Run(ctx context.Context, commandLine []string, env Env) int {
	if env.Now == nil {
		env.Now = time.Now
	}
	s := newSession(ctx, env)
	s.Program = args.NameOf(commandLine[0])
	app := s.app()
	words := commandLine[1:]
	if len(words) > 0 && words[0] == "help" { // as in other programs
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
		s.MoreWarnings()
		s.Connection.SaveSeenRevision()
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, change.ErrDiffers):
		return exitDiffers
	case ctx.Err() != nil:
		s.ReportInterrupted(err)
		return exitInterrupted
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

// printUsage prints the help under the name by which the program was called.
func (s *session) printUsage(app *cli.App, path []*cli.Command) {
	var text strings.Builder
	args.PrintUsage(&text, app, path, change.ChangeFlags())
	_, _ = io.WriteString(s.Env.Stdout, args.Renamed(text.String(), s.Program))
}

// app builds the command tree. All state is in s.
func (s *session) app() *cli.App {
	app := &cli.App{
		Name:     args.Program,
		HelpName: args.Program,
		Usage:    "Show and change a fleet of clusters through the flux-resourceset API",
		Version:  s.Env.Version,
		Flags:    globalFlags(),
		Commands: append(s.kindCommands(),
			s.resourceTypeCommand(), s.resourceCommand(), s.layerCommand(), rolloutCommands{s}.rolloutCommand(), rolloutCommands{s}.strategyCommand(), rolloutCommands{s}.freezeCommand(), rolloutCommands{s}.unfreezeCommand(),
			tokenCommands{s}.tokenCommand(), tokenCommands{s}.accessCommand(), webhookCommands{s}.webhookCommand(), sourceCommands{s}.sourceCommand(), policyCommands{s}.policyCommand(), approvalCommands{s}.approveCommand(), authCommands{s}.authCommand(), revisionCommands{s}.revisionCommand(), ownershipCommands{s}.ownershipCommand(),
			s.getCommand(), s.deleteCommand(), s.applyCommand(), s.planCommand(), s.diffCommand(), exporter{s}.exportCommand(), s.editCommand(), s.historyCommand(), s.suspendCommand(true), s.suspendCommand(false), s.reconcileCommand(), s.restoreCommand(), s.backupCommand(),
			inputCommands{s}.inputsCommand(), s.explainCommand(), s.apiResourcesCommand(), statusCommands{s}.statusCommand(), s.waitCommand(), s.demoCommand(),
			bootstrapper{s}.bootstrapCommand(), s.mcpCommand(), renderer{s}.renderCommand(), importer{s}.importCommand(), s.handoverCommand(),
			contexts{s}.configCommand(), s.completionCommand(), statusCommands{s}.versionCommand(), s.completeCommand(), s.docsCommand(),
		),
		Metadata: kindVerbNames(),
		Reader:   s.Env.Stdin, Writer: s.Env.Stdout, ErrWriter: s.Env.Stderr,
		// A comma is data in `--set key=a,b`.
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		Before: func(c *cli.Context) error {
			s.Quiet, s.Verbose = c.Bool("quiet"), c.Bool("verbose")
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
	// printUsage prints the help: urfave's would take `help` and `h` as subcommands of every command, so that these could not be
	// names.
	app.HideHelp, app.HideHelpCommand, app.HideVersion = true, true, true
	app.OnUsageError = badFlag
	app.Setup() // sets HelpName, from which finish derives those of subcommands
	for _, cmd := range app.Commands {
		finish(cmd)
	}
	s.root = app
	return app
}

// kindCommands returns the commands of clusters and of the definitions that they are assigned.
func (s *session) kindCommands() []*cli.Command {
	commands := []*cli.Command{clusterCommands{s}.clusterCommand()}
	for _, n := range kinds.Definitions() {
		var own []*cli.Command
		if n.API == kinds.Components.API {
			own = componentCommands{s}.commands()
		}
		commands = append(commands, kindCommands{s, n}.definitionCommand(own...))
	}
	return commands
}

// finish applies the settings that all commands share.
func finish(cmd *cli.Command) {
	cmd.HideHelp, cmd.HideHelpCommand = true, true
	cmd.OnUsageError = badFlag
	name := cmd.HelpName
	if len(cmd.Subcommands) > 0 {
		if cmd.Action == nil { // freeze --all needs none
			cmd.Action = needsVerb
		}
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
	if args.TakesKind(c.Command) {
		return args.Errorf("%s needs a kind: %s", c.Command.HelpName, args.ListOf(args.Visible(c.Command.Subcommands)))
	}
	if operand := args.Operand(c.Command); operand != "" {
		return args.Errorf("%s takes %s, and then a command: %s", c.Command.HelpName, c.Command.ArgsUsage, args.ListOf(args.Visible(c.Command.Subcommands)))
	}
	return args.Errorf("%s needs a command: %s", c.Command.HelpName, args.ListOf(args.Visible(c.Command.Subcommands)))
}

// badFlag turns an error of the flag parser into a usage error, without urfave's help on standard output.
func badFlag(c *cli.Context, err error, _ bool) error {
	return args.FlagError(slices.Concat(c.Command.Flags, c.App.Flags), err)
}

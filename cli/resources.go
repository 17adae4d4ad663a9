package cli

import (
	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

// resourceCommand is the command of the definitions of all resource types. It has the commands of every assignable kind; the type
// is known when one is run.
func (s *session) resourceCommand() *cli.Command {
	cmd := s.anyType().definitionCommand()
	cmd.Name, cmd.Aliases, cmd.ArgsUsage, cmd.Flags = kinds.ResourceKind, resourceAliases, "TYPE", typeOperand()
	for i, sub := range cmd.Subcommands {
		sub.Action = s.onType(func(v kindCommands) *cli.Command { return v.definitionCommand().Subcommands[i] })
	}
	return cmd
}

// resourceAliases are the names of definitions of resource types in commands.
var resourceAliases = []string{"resources", "res"}

// anyType are the definitions of a type that is known when a command is run.
func (s *session) anyType() kindCommands {
	v := kindCommands{s, kinds.ResourcesOfID("TYPE")}
	v.Title, v.Plural = "resource", "resources of a type"
	return v
}

// typeOperand makes TYPE an argument before a subcommand, or the first one.
func typeOperand() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "type", Hidden: true, Usage: "the resource type"}}
}

// ofType returns a command for the definitions of all resource types, whose first argument is the type.
func (s *session) ofType(build func(kindCommands) *cli.Command) *cli.Command {
	cmd := build(s.anyType())
	cmd.Name, cmd.Aliases, cmd.ArgsUsage = kinds.ResourceKind, resourceAliases, "TYPE "+cmd.ArgsUsage
	cmd.Flags = append(typeOperand(), cmd.Flags...)
	cmd.Action = s.onType(build)
	return cmd
}

// onType returns the action of the command that a function makes for the resource type in the command line.
func (s *session) onType(build func(kindCommands) *cli.Command) cli.ActionFunc {
	return func(c *cli.Context) error {
		client, err := s.Connect(c)
		if err != nil {
			return err
		}
		id := c.String("type")
		if err := args.CheckID("TYPE", id); err != nil {
			return err
		}
		of, err := s.typeOf(c.Context, client, id)
		if err != nil {
			return err
		}
		return build(kindCommands{s, kinds.ResourcesOf(of)}).Action(c)
	}
}

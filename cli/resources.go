package cli

import (
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

// resourceCommand is the command of the definitions of all resource types. It has the commands of every assignable kind; the type
// is known when one is run.
func (s *session) resourceCommand() *cli.Command {
	const operand = "TYPE"
	general := kindCommands{s, kinds.ResourcesOfID("TYPE")}
	general.Title, general.Plural = "resource", "resources of a type"
	cmd := general.definitionCommand()
	cmd.Name, cmd.Aliases = kinds.ResourceKind, []string{"resources", "res"}
	cmd.ArgsUsage = operand
	cmd.Flags = []cli.Flag{&cli.StringFlag{Name: strings.ToLower(operand), Hidden: true, Usage: "the resource type"}}
	for i, sub := range cmd.Subcommands {
		sub.Action = func(c *cli.Context) error {
			client, err := s.Connect(c)
			if err != nil {
				return err
			}
			id := c.String("type")
			if err := args.CheckID(operand, id); err != nil {
				return err
			}
			of, err := s.typeOf(c.Context, client, id)
			if err != nil {
				return err
			}
			return kindCommands{s, kinds.ResourcesOf(of)}.definitionCommand().Subcommands[i].Action(c)
		}
	}
	return cmd
}

package cli

import (
	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

// policyCommands are the commands about policies.
type policyCommands struct{ *session }

func (s policyCommands) policyCommand() *cli.Command {
	v := kindCommands{s.session, kinds.Policies}
	return &cli.Command{
		Name: "policy", Aliases: []string{"policies"}, Usage: "Policies: rules about the effect of changes",
		Subcommands: []*cli.Command{
			{
				Name: "create", Usage: "Create a policy from a file", ArgsUsage: "[NAME]",
				Description: "The rule and the message are CEL expressions. For example:\n\n" +
					"    id: prod-in-stages\n    match: {environments: [prod]}\n    rule: effect.clusters.size() <= 20\n    action: deny\n\n" +
					args.ExampleText("policy create -f prod-in-stages.yaml"),
				Flags: []cli.Flag{change.FileFlag("the policy"), change.DryRunFlag()},
				Action: func(c *cli.Context) error {
					if !c.IsSet("file") {
						return args.Errorf("%s needs --file", c.Command.HelpName)
					}
					_, body, err := s.DocumentFrom(c, kinds.Policies)
					if err != nil {
						return err
					}
					return v.changeOne(c, change.Operation{"op": "create", "kind": kinds.Policies.API, "document": body})
				},
			},
			policyTrials(s).testCommand(),
		},
	}
}

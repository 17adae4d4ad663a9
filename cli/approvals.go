package cli

import (
	"net/http"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

// approvalCommands are the commands about approvals of changes.
type approvalCommands struct{ *session }

// getCommand lists approvals, which have no names.
func (s approvalCommands) getCommand() *cli.Command {
	v := kindCommands{s.session, kinds.Approvals}
	cmd := v.getCommand()
	cmd.Usage, cmd.ArgsUsage = "List approvals", ""
	cmd.Action = args.WithOperands(func(c *cli.Context, _ []string) error { return v.list(c, nil) })
	return cmd
}

func (s approvalCommands) deleteCommand() *cli.Command {
	v := kindCommands{s.session, kinds.Approvals}
	return &cli.Command{
		Name: v.Name, Aliases: v.names(), Usage: "Delete an approval that was not used: it admits no change then", ArgsUsage: "ID", Flags: change.WriteFlags(),
		Action: args.WithOperands(func(c *cli.Context, ids []string) error {
			return v.send(c, func(client conn.Client) (*http.Response, error) {
				return conn.Send(c.Context, client, http.MethodDelete, v.Calls.Document(ids[0]), nil, change.WriteEdits(c))
			})
		}),
	}
}

func (s approvalCommands) approveCommand() *cli.Command {
	return &cli.Command{
		Name: "approve", Usage: "Approve a change of another person that policies with action approve refuse", ArgsUsage: "[PLAN_HASH]",
		Description: "The refusal of the change prints the command, with the hash of its plan and the subject that makes it. With --file, it shows the\n" +
			"plan of apply with these files, asks, and approves it. The approval admits the change once, within 24 hours, while no policy is\n" +
			"created or changed. It needs role write, or the right approve in an access document that covers the change.\n\n" +
			args.ExampleText("approve 9f2c1e0b7a6d5c4b3a29181706f5e4d3 --for token:ci --reason CHG-42", "approve -f fleet/ --for token:ci"),
		Flags: append([]cli.Flag{
			documentsFlag(), &cli.StringFlag{Name: "for", Usage: "the `SUBJECT` that makes the change, such as token:ci or oidc:ISSUER:SUB"}, change.YesFlag(), change.DryRunFlag(),
		}, pruneFlags()...),
		Action: func(c *cli.Context) error {
			if !c.IsSet("for") {
				return args.Errorf("%s needs --for", c.Command.HelpName)
			}
			approve := func(client conn.Client, hash string) (conn.Answer, error) {
				body := map[string]any{"plan_hash": hash, "subject": c.String("for")}
				if reason := c.String("reason"); reason != "" {
					body["reason"] = reason
				}
				return conn.Receive(conn.Send(c.Context, client, http.MethodPost, kinds.Approvals.Calls.Path, body, change.WriteEdits(c)))
			}
			show := func(_ conn.Client, a conn.Answer) error { return s.PrintChange(c, kinds.Approvals.Output(a.Body)) }
			if !c.IsSet("file") {
				ids, err := args.Operands(c, "PLAN_HASH")
				if err != nil {
					return err
				}
				client, err := s.Connect(c)
				if err != nil {
					return err
				}
				a, err := approve(client, ids[0])
				if err != nil {
					return err
				}
				return show(client, a)
			}
			a, err := s.newApplyRun(c)
			if err != nil {
				return err
			}
			return s.Perform(c, change.Change{
				Operations: a.operations, Describe: a.describe, Description: "approve this plan for " + c.String("for"), PrintsSummary: true, Show: show,
				Request: func(client conn.Client, hash string) (conn.Answer, error) {
					if hash == "" { // --yes
						ops, err := a.operations(client)
						if err != nil {
							return conn.Answer{}, err
						}
						plan, err := s.Plan(c, client, ops)
						if err != nil {
							return conn.Answer{}, err
						}
						hash = plan.PlanHash
					}
					return approve(client, hash)
				},
			})
		},
	}
}

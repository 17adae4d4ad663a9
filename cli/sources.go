package cli

import (
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/prompt"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// sourceCommands are the commands about sources.
type sourceCommands struct{ *session }

func (s sourceCommands) sourceCommand() *cli.Command {
	return &cli.Command{
		Name: "source", Aliases: []string{"sources"}, Usage: "Signed OCI artifacts with files of the fleet, which the server follows",
		Subcommands: []*cli.Command{
			s.createCommand(), s.setCommand(), s.approveCommand(),
		},
	}
}

func sourceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "url", Usage: "`URL` of the artifact without a tag, such as oci://registry.example.com/platform/fleet"},
		&cli.StringFlag{Name: "tag", Usage: "follow this `TAG`"},
		&cli.StringFlag{Name: "range", Usage: "follow the highest tag in this `RANGE` of versions, such as '>=1.0.0 <2'"},
		&cli.StringFlag{Name: "digest", Usage: "the artifact with this `DIGEST` and no other"},
		&cli.StringFlag{Name: "interval", Usage: "time between two checks, a `DURATION` from 30s to 24h (default: 1m)"},
		&cli.StringFlag{Name: "path", Usage: "only the files in this `FOLDER` of the artifact"},
		&cli.StringSliceFlag{Name: "kind", Usage: "only documents of this `KIND`; default: all that describe clusters. Others, such as access, must be named"},
		&cli.StringFlag{Name: "strategy", Usage: "deliver its changes as rollouts with the stages of this `STRATEGY`; empty: at once"},
		&cli.BoolFlag{Name: "prune", Usage: "delete documents that it manages when the files no longer have them"},
		&cli.StringSliceFlag{Name: "verify-key", Usage: "refuse artifacts without a signature by a public key in this `FILE`, such as cosign.pub; repeat for more"},
	}
}

// sourceBody returns the fields that flags set.
func sourceBody(c *cli.Context) (map[string]any, error) {
	body := map[string]any{}
	for _, name := range []string{"url", "tag", "range", "digest", "interval", "path", "strategy"} {
		if c.IsSet(name) {
			body[name] = c.String(name)
		}
	}
	if c.IsSet("prune") {
		body["prune"] = c.Bool("prune")
	}
	if c.IsSet("kind") {
		body["kinds"] = strings.Split(strings.Join(c.StringSlice("kind"), ","), ",")
	}
	if c.IsSet("verify-key") {
		var keys []string
		for _, file := range c.StringSlice("verify-key") {
			key, err := os.ReadFile(file)
			if err != nil {
				return nil, args.Error{Err: err}
			}
			keys = append(keys, string(key))
		}
		body["verify"] = map[string]any{"keys": keys}
	}
	return body, nil
}

func (s sourceCommands) createCommand() *cli.Command {
	return &cli.Command{
		Name: "create", Usage: "Follow an artifact", ArgsUsage: "NAME",
		Description: "The artifact is what flux push artifact pushes. A source changes only what an access document with its name as subject\n" +
			"permits, and nothing without one. What needs an approval is held: see get source and source approve.\n\n" +
			args.ExampleText(
				"source create platform --url oci://registry.example.com/platform/fleet --tag prod --verify-key cosign.pub --prune",
				"access create platform --source platform --may write",
			),
		Flags: append(sourceFlags(), change.DryRunFlag(), change.YesFlag()),
		Action: args.WithOperands(func(c *cli.Context, ids []string) error {
			if !c.IsSet("url") {
				return args.Errorf("%s needs --url", c.Command.HelpName)
			}
			body, err := sourceBody(c)
			if err != nil {
				return err
			}
			body["id"] = ids[0]
			create := change.Operation{"op": "create", "kind": kinds.Sources.API, "document": body}
			grants, command, err := s.offerAccess(c, ids[0])
			if err != nil {
				return err
			}
			err = s.PerformOn(c, kinds.Sources, change.Change{Operations: change.FixedOperations(append(grants, create)...)})
			if err == nil && command != "" {
				s.Note("The source changes nothing until an access document permits it: %s", command)
			}
			return err
		}),
	}
}

// offerAccess offers the access document that a new source needs. It returns the operation that creates it, or, if nobody is asked or
// agrees, the command; neither if the source has rights already.
func (s sourceCommands) offerAccess(c *cli.Context, id string) (grants []change.Operation, command string, err error) {
	client, err := s.Connect(c)
	if err != nil || c.Bool("dry-run") {
		return nil, "", err
	}
	docs, err := conn.ReceiveAs[[]api.Access](kinds.Access.Calls.List(c.Context, client))
	if err != nil {
		return nil, "", err
	}
	name := id
	for _, d := range docs {
		if slices.ContainsFunc(d.Subjects, func(subject api.AccessSubject) bool { return subject.Source == id }) {
			return nil, "", nil
		}
		if d.ID == id {
			name = "source-" + id
		}
	}
	command = "flux-resourceset-cli access create " + name + " --source " + id + " --may write"
	if name != id || c.Bool("yes") || !s.Interactive() {
		return nil, command, nil
	}
	err = s.Prompter.Yes("The source changes nothing until an access document permits it. Create the access document " + name + ", with the right to write everything")
	if errors.Is(err, prompt.ErrNotConfirmed) {
		return nil, command, nil
	}
	access := map[string]any{"id": name, "subjects": []any{map[string]any{"source": id}}, "may": []string{"write"}}
	return []change.Operation{{"op": "create", "kind": kinds.Access.API, "document": access}}, "", err
}

func (s sourceCommands) setCommand() *cli.Command {
	return &cli.Command{
		Name: "set", Usage: "Change what a source follows", ArgsUsage: "NAME",
		Description: args.ExampleText("source set platform --tag staging"),
		Flags:       append(sourceFlags(), change.WriteFlags()...),
		Action: args.WithOperands(func(c *cli.Context, ids []string) error {
			body, err := sourceBody(c)
			if err == nil && len(body) == 0 {
				err = args.Errorf("%s needs a flag such as --tag", c.Command.HelpName)
			}
			if err != nil {
				return err
			}
			return kindCommands{s.session, kinds.Sources}.changeOne(c, kinds.Sources.Operation("patch", ids[0], map[string]any{"patch": body}))
		}),
	}
}

func (s sourceCommands) approveCommand() *cli.Command {
	return &cli.Command{
		Name: "approve", Usage: "Approve the held artifact of a source: it is applied once, while its effect has this plan's hash", ArgsUsage: "NAME [PLAN_HASH]",
		Description: "Without PLAN_HASH, it shows the plan and asks: a person at a terminal approves exactly what it shows. A script names the hash of\n" +
			"the plan that --plan showed. An approval admits adoption of existing documents, removals, and an artifact that was applied before;\n" +
			"no invalid documents, missing rights or freezes.\n\n" +
			args.ExampleText("source approve platform", "source approve platform --plan --full", "source approve platform 9f2c1e0b7a6d5c4b3a29181706f5e4d3"),
		Flags: append(change.WriteFlags(),
			&cli.BoolFlag{Name: "plan", Usage: "show the effect on each cluster, without an approval; exit code 0: none, 1: changes, 3: error"}, change.FullFlag()),
		Action: func(c *cli.Context) error {
			ids, err := args.Operands(c, []string{"NAME", "PLAN_HASH"}[:min(max(c.NArg(), 1), 2)]...)
			if err != nil {
				return err
			}
			path := kinds.Sources.Calls.Document(ids[0])
			approve := func(client conn.Client, hash string) (*http.Response, error) {
				return conn.Send(c.Context, client, http.MethodPost, path+"/approve", map[string]any{"plan_hash": hash}, change.WriteEdits(c))
			}
			switch {
			case len(ids) == 2 && c.Bool("plan"):
				return args.Errorf("--plan shows the plan of the held artifact, so it excludes PLAN_HASH")
			case len(ids) == 2:
				return kindCommands{s.session, kinds.Sources}.send(c, func(client conn.Client) (*http.Response, error) { return approve(client, ids[1]) })
			case c.Bool("dry-run") && !c.Bool("plan"):
				return args.Errorf("--dry-run needs the PLAN_HASH that --plan shows")
			case !c.Bool("plan") && !s.Interactive():
				return args.Errorf("confirmation required: not a terminal; name the PLAN_HASH that --plan shows")
			}
			return s.Perform(c, change.Change{
				Operations: change.FixedOperations(), PlanPath: path + "/plan", Description: "approve this plan", PrintsSummary: true,
				Request: func(client conn.Client, hash string) (conn.Answer, error) { return conn.Receive(approve(client, hash)) },
				Show:    func(_ conn.Client, a conn.Answer) error { return s.PrintChange(c, kinds.Sources.Output(a.Body)) },
			})
		},
	}
}

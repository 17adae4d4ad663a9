package cli

import (
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

func (s tokenCommands) accessCommand() *cli.Command {
	return &cli.Command{
		Name: "access", Usage: "Rights of tokens and identities on parts of the fleet",
		Subcommands: []*cli.Command{
			s.createAccessCommand(),
		},
	}
}

func (s tokenCommands) createAccessCommand() *cli.Command {
	return &cli.Command{
		Name: "create", Usage: "Grant rights to a token of role scoped, to identities of an issuer, or to a source", ArgsUsage: "NAME",
		Description: "Rights are exactly those of --may: read, plan, write, revert, push_version, approve, override_freeze, override_source,\n" +
			"override_policy, policy, admin. policy and admin are possible only without limits, and admin requires read without limits. One access document must permit the whole of a change.\n\n" +
			args.ExampleText(
				"access create readers --issuer corp --group engineering --may read,plan",
				"access create team-web --issuer corp --group team-web --may write --selector team=web --kind cluster --kind layer",
				"access create ci-podinfo --token ci --may push_version --component podinfo --kind platform_component --kind rollout",
			),
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "token", Usage: "`NAME` of a token of role scoped"},
			&cli.StringFlag{Name: "issuer", Usage: "`NAME` of an issuer in the server's configuration, with --group or --claim"},
			&cli.StringFlag{Name: "source", Usage: "`NAME` of a source, whose artifacts then change what the rights permit"},
			&cli.StringSliceFlag{Name: "group", Usage: "a `GROUP` of the issuer; several: one of them is sufficient"},
			&cli.StringSliceFlag{Name: "claim", Usage: "a claim `NAME=VALUE` of the issuer's token, VALUE with * at its end for any text; several: all must be equal"},
			&cli.StringSliceFlag{Name: "may", Usage: "`RIGHTS`, separated by commas"},
			&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "changes may affect only the clusters with these labels, `SELECTOR` as in get clusters"},
			&cli.StringSliceFlag{Name: "kind", Usage: "only documents of this `KIND`, such as cluster"},
			&cli.StringSliceFlag{Name: "component", Usage: "of components, only this `ID`, with * at its end for any text"},
			&cli.StringSliceFlag{Name: "layer", Usage: "of layers, only this `ID`, with * at its end for any text"},
			&cli.StringSliceFlag{Name: "label", Usage: "changes may write this label `KEY` of clusters, with * at its end for any text; environment stands for that field"},
			&cli.StringFlag{Name: "description", Usage: "a note for readers"},
		}, expiryFlags(), []cli.Flag{change.DryRunFlag()}),
		Action: args.WithOperands(func(c *cli.Context, operands []string) error {
			body, err := accessBody(c, operands[0])
			if err != nil {
				return err
			}
			return s.PerformOn(c, kinds.Access, change.Change{Operations: change.FixedOperations(change.Operation{"op": "create", "kind": kinds.Access.API, "document": body})})
		}),
	}
}

// claimsOf returns the claims NAME=VALUE of a flag.
func claimsOf(c *cli.Context, flag string) (map[string]string, error) {
	claims := map[string]string{}
	for _, claim := range c.StringSlice(flag) {
		name, value, ok := strings.Cut(claim, "=")
		if !ok || name == "" {
			return nil, args.Errorf("--%s %q is not NAME=VALUE", flag, claim)
		}
		claims[name] = value
	}
	return claims, nil
}

// accessBody returns the access document that flags describe.
func accessBody(c *cli.Context, id string) (map[string]any, error) {
	subject := map[string]any{}
	for flag, field := range map[string]string{"token": "token", "issuer": "issuer", "source": "source"} {
		if c.IsSet(flag) {
			subject[field] = c.String(flag)
		}
	}
	if c.IsSet("group") {
		subject["groups"] = c.StringSlice("group")
	}
	if c.IsSet("claim") {
		claims, err := claimsOf(c, "claim")
		if err != nil {
			return nil, err
		}
		subject["claims"] = claims
	}
	for _, flag := range []string{"group", "claim"} {
		if c.IsSet(flag) && !c.IsSet("issuer") {
			return nil, args.Errorf("--%s needs --issuer", flag)
		}
	}
	if len(subject) == 0 || !c.IsSet("may") {
		return nil, args.Errorf("%s needs --may, and --token, --issuer or --source", c.Command.HelpName)
	}
	body := map[string]any{"id": id, "subjects": []any{subject}, "may": strings.Split(strings.Join(c.StringSlice("may"), ","), ",")}
	on := map[string]any{}
	if c.IsSet("selector") {
		on["selector"] = c.String("selector")
	}
	for flag, field := range map[string]string{"kind": "kinds", "component": "components", "layer": "layers", "label": "labels"} {
		if c.IsSet(flag) {
			on[field] = c.StringSlice(flag)
		}
	}
	if len(on) > 0 {
		body["on"] = on
	}
	if c.IsSet("description") {
		body["description"] = c.String("description")
	}
	at, err := expiresAt(c)
	if at != nil {
		body["expires_at"] = at
	}
	return body, err
}

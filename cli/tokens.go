package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

var tokenRoles = []string{"poll", "read", "write", "admin", "scoped"}

func (s tokenCommands) tokenCommand() *cli.Command {
	return &cli.Command{
		Name: "token", Aliases: []string{"tokens"}, Usage: "Tokens for single clusters, people and pipelines",
		Subcommands: []*cli.Command{
			s.createTokenCommand(),
			s.rotateTokenCommand(),
			s.revokeTokenCommand(),
		},
	}
}

const secretOutput = "The secret is printed once, on standard output, and cannot be shown again: as the only line with --quiet and\n" +
	"at a terminal, else as the field token."

// expiryNames are the flag for the time at which something ends, and its former names.
var expiryNames = []string{"expires", "expires-in", "expires-at"}

func expiryFlags() []cli.Flag {
	flags := []cli.Flag{&cli.StringFlag{Name: expiryNames[0], Usage: "when it expires, a `TIME` such as 2027-01-02T15:04:05Z, or 90d or 12h from now"}}
	for _, former := range expiryNames[1:] {
		flags = append(flags, &cli.StringFlag{Name: former, Hidden: true, Usage: "former name of --expires"})
	}
	return flags
}

// expiresAt returns the time of expiryFlags; nil without one.
func expiresAt(c *cli.Context) (any, error) {
	for _, name := range expiryNames {
		if !c.IsSet(name) {
			continue
		}
		now := time.Now()
		at, err := args.FutureTime(name, c.String(name), now)
		if err == nil && !at.After(now) {
			err = args.Errorf("--%s %q is not in the future", name, c.String(name))
		}
		return at, err
	}
	return nil, nil
}

func (s tokenCommands) createTokenCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "Create a token and print its secret",
		ArgsUsage: "NAME",
		Description: secretOutput + "\n\n" +
			"Role poll reads only the inputs of one cluster; read reads and plans everything; write changes the\n" +
			"fleet; admin manages tokens as well; scoped has the rights that access documents grant the token: see access create.\n\n" +
			args.ExampleText(
				"token create poll-demo-cluster-01 --cluster demo-cluster-01",
				"token create ci --role write --expires 90d --description 'pipeline of team a' --quiet > ci.token",
			),
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "role", Usage: "`ROLE`: " + args.ListOf(tokenRoles) + " (default: poll, with --cluster)"},
			&cli.StringFlag{Name: "cluster", Usage: "the `CLUSTER` that a poll token is for"},
			&cli.StringFlag{Name: "description", Usage: "where it is used, as a note for its rotation"},
		}, expiryFlags(), []cli.Flag{change.DryRunFlag()}),
		Action: args.WithOperands(func(c *cli.Context, operands []string) error {
			body := map[string]any{"name": operands[0], "role": c.String("role")}
			if c.IsSet("cluster") {
				body["cluster_id"], body["role"] = c.String("cluster"), cmp.Or(c.String("role"), "poll")
			}
			if body["role"] == "" {
				return args.Errorf("%s needs --role, or --cluster for a poll token", c.Command.HelpName)
			}
			if c.IsSet("description") {
				body["description"] = c.String("description")
			}
			if at, err := expiresAt(c); err != nil {
				return err
			} else if at != nil {
				body["expires_at"] = at
			}
			if err := s.checkSecretOutput(c); err != nil {
				return err
			}
			client, err := s.Connect(c)
			if err != nil {
				return err
			}
			a, err := s.createToken(c, client, body)
			if err != nil {
				return err
			}
			return s.printIssued(c, a)
		}),
	}
}

func (s tokenCommands) createToken(c *cli.Context, client conn.Client, body map[string]any) (conn.Answer, error) {
	return conn.Receive(kinds.Tokens.Calls.Create(c.Context, client, body, change.WriteEdits(c)...))
}

// checkSecretOutput rejects, before a secret exists, an output that would lose it.
func (s tokenCommands) checkSecretOutput(c *cli.Context) error {
	if format, err := s.Format(c); err == nil && format == "name" && !c.Bool("dry-run") {
		return args.Errorf("-o name would not show the secret, which cannot be shown later")
	}
	return nil
}

// printIssued prints a token with its new secret.
func (s tokenCommands) printIssued(c *cli.Context, a conn.Answer) error {
	var issued api.IssuedToken
	if err := a.Decode(&issued); err != nil {
		return err
	}
	format, err := s.Format(c)
	if err != nil {
		return err
	}
	switch {
	case issued.Token == "":
		return s.PrintChange(c, kinds.Tokens.Output(a.Body))
	case c.Bool("quiet"), format == "table", format == "wide":
		s.Note("Token %q (%s), role %s, expires: %s. Its secret, shown this once:", issued.Name, issued.ID, issued.Role, render.TimeOr(issued.ExpiresAt, "never"))
		_, err = fmt.Fprintln(s.Env.Stdout, issued.Token)
	default:
		err = s.Print(c, kinds.Tokens.Output(a.Body))
	}
	if err != nil {
		return conn.WithHint(err, "its secret was not shown; create another one with: token rotate "+issued.Name)
	}
	return nil
}

func (s tokenCommands) getCommand() *cli.Command {
	v := kindCommands{s.session, kinds.Tokens}
	cmd := v.getCommand()
	cmd.Description = "NAME is a name or an id; secrets are not shown. A fingerprint is the first 8 digits of a secret's SHA-256, so this finds the\n" +
		"token that a secret belongs to:\n\n    printf %s \"$SECRET\" | sha256sum | cut -c1-8"
	all := cmd.Action
	cmd.Action = func(c *cli.Context) error {
		if c.NArg() == 0 {
			return all(c)
		}
		names, err := args.SeveralOperands(c, "NAME")
		if err != nil {
			return err
		}
		client, err := s.Connect(c)
		if err != nil {
			return err
		}
		return v.getSeveral(c, names, func(name string) (conn.Answer, error) { return findToken(c, client, name) })
	}
	return cmd
}

// findToken finds a token by id, or else by name.
func findToken(c *cli.Context, client conn.Client, name string) (conn.Answer, error) {
	if strings.HasPrefix(name, "frs_") { // a secret must not be part of a URL
		return conn.Answer{}, args.Errorf("that is the secret of a token, not its name: get tokens shows the fingerprints, and get token --help how to take one")
	}
	a, err := conn.Receive(client.GetToken(c.Context, name, nil))
	if err == nil || apiclient.ErrorCode(err) != "not_found" {
		return a, err
	}
	list, listErr := conn.Receive(client.ListTokens(c.Context, nil, conn.Query(url.Values{"name": {name}})))
	if listErr != nil {
		return a, listErr
	}
	var found []json.RawMessage
	if listErr := list.Decode(&found); listErr != nil {
		return a, listErr
	}
	if len(found) != 1 {
		return a, err
	}
	list.Body = found[0]
	return list, nil
}

// tokenID returns the id of a token given by id or name.
func tokenID(c *cli.Context, client conn.Client, name string) (string, error) {
	a, err := findToken(c, client, name)
	if err != nil {
		return "", err
	}
	return kinds.DocumentID(a.Body)
}

func (s tokenCommands) rotateTokenCommand() *cli.Command {
	return &cli.Command{
		Name:      "rotate",
		Usage:     "Create a new secret for a token and print it; earlier ones keep working for a while",
		ArgsUsage: "NAME",
		Description: secretOutput + "\n\n" +
			"NAME is a name or an id. For a secret that leaked, --overlap 0s ends the ones from before at once.\n\n" +
			args.ExampleText("token rotate ci --overlap 24h --quiet > ci.token"),
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "overlap", Value: "24h", Usage: "how much longer secrets from before work, a `DURATION` up to 720h"},
		}, expiryFlags(), change.WriteFlags()),
		Action: args.WithOperands(func(c *cli.Context, operands []string) error {
			body := map[string]any{"overlap": c.String("overlap")}
			if at, err := expiresAt(c); err != nil {
				return err
			} else if at != nil {
				body["expires_at"] = at
			}
			if err := s.checkSecretOutput(c); err != nil {
				return err
			}
			client, err := s.Connect(c)
			if err != nil {
				return err
			}
			id, err := tokenID(c, client, operands[0])
			if err != nil {
				return err
			}
			a, err := conn.Receive(conn.Send(c.Context, client, http.MethodPost, kinds.Tokens.Calls.Document(id)+"/rotate", body, change.WriteEdits(c)))
			if err != nil {
				return err
			}
			return s.printIssued(c, a)
		}),
	}
}

func (s tokenCommands) revokeTokenCommand() *cli.Command {
	return &cli.Command{
		Name:      "revoke",
		Usage:     "Revoke a token: every server refuses it within a second",
		ArgsUsage: "NAME",
		Description: "NAME is a name or an id. A cluster whose poll token is revoked keeps its objects, and receives no changes until it has\n" +
			"another one.",
		Flags: slices.Concat([]cli.Flag{change.YesFlag()}, change.WriteFlags()),
		Action: s.Connected(func(c *cli.Context, client conn.Client, operands []string) error {
			id, err := tokenID(c, client, operands[0])
			if err != nil {
				return err
			}
			if err := s.Confirm(c, change.Change{Description: fmt.Sprintf("revoke the token %q", operands[0]), UnconfirmedInScripts: true}); err != nil {
				return err
			}
			a, err := conn.Receive(client.RevokeToken(c.Context, id, nil, change.WriteEdits(c)...))
			if err != nil {
				return err
			}
			s.Line = kinds.Tokens.Name + "/" + operands[0] + " revoked"
			return s.PrintChange(c, kinds.Tokens.Output(a.Body))
		}),
	}
}

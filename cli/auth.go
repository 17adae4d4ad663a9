package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// authCommands show the identity and the permissions of the tokens of this command line, as the server reports them.
type authCommands struct{ *session }

func (s authCommands) authCommand() *cli.Command {
	return &cli.Command{
		Name: "auth", Usage: "Your identity and permissions on the server",
		Subcommands: []*cli.Command{s.whoAmICommand(), s.canICommand(), s.loginCommand(), s.logoutCommand(), s.endSessionsCommand()},
	}
}

// Uses of a token.
const (
	forReads   = "reads"
	forChanges = "changes"
)

// caller is the identity that the server sees for one token.
type caller struct {
	For []string `json:"for"`
	api.Identity
}

func (s authCommands) whoAmICommand() *cli.Command {
	return &cli.Command{
		Name: "whoami", Usage: "Show the identity, expiry and permissions of your tokens",
		Description: "A row for each token: the one for reads, and the one for changes where that is another. Secrets are not shown.\n" +
			"-o json is a list of the server's responses for each token, with its use.\n\n" + args.ExampleText("auth whoami"),
		Action: s.connected(func(c *cli.Context, conn client, _ []string) error {
			known, problem := s.callers(c, conn)
			if len(known) == 0 {
				return problem
			}
			if err := s.printCallers(c, known); err != nil {
				return err
			}
			return problem
		}),
	}
}

// callers requests the identity of each token. With an error it also returns the identities that were found.
func (s authCommands) callers(c *cli.Context, conn client) ([]caller, error) {
	uses := [][]string{{forReads}, {forChanges}}
	if s.connection.settings.WriteToken == s.connection.settings.Token {
		uses = [][]string{{forReads, forChanges}}
	}
	var known []caller
	var problem error
	for _, use := range uses {
		who, err := s.identity(c.Context, conn, use[0])
		switch {
		case err != nil && len(uses) > 1:
			problem = fmt.Errorf("the token for %s: %w", use[0], err)
		case err != nil:
			problem = err
		default:
			known = append(known, caller{use, who})
		}
	}
	return known, problem
}

// identity returns the identity of the token that is used for reads or for changes.
func (s authCommands) identity(ctx context.Context, conn client, use string) (api.Identity, error) {
	var who api.Identity
	a, err := receive(conn.WhoAmI(ctx, nil, func(ctx context.Context, req *http.Request) error {
		return s.connection.sendToken(ctx, req, use == forReads)
	}))
	if err != nil {
		return who, err
	}
	return who, a.decode(&who)
}

var callerView = render.View{
	Header: []string{"ACTOR", "FOR", "ROLE", "CLUSTERS", "EXPIRES", "MAY", "SERVER", "CREDENTIAL"}, Narrow: 6,
	Row: render.RowOf(func(who caller) []string {
		clusters := "all"
		switch {
		case who.ClusterID != "":
			clusters = who.ClusterID
		case who.Credential == "certificate":
			clusters = strings.Join(who.ClusterDNS, ", ")
		}
		return []string{
			who.Actor, strings.Join(who.For, ", "), who.Role, clusters, render.TimeOr(who.ExpiresAt, "never"), strings.Join(who.May, ", "), who.Mode, who.Credential,
		}
	}),
}

func (s authCommands) printCallers(c *cli.Context, known []caller) error {
	rows := make([]json.RawMessage, len(known))
	names := make([]string, len(known))
	for i, who := range known {
		var err error
		if rows[i], err = render.Encode(who); err != nil {
			return err
		}
		names[i] = "actor/" + who.Actor
	}
	out := documentKind{view: callerView}.outputOf(known, rows...)
	out.Names = func() ([]string, error) { return names, nil }
	return s.print(c, out)
}

// permissionQuery is the request of can-i.
type permissionQuery struct {
	needs   string // role, by the server's name
	use     string // the use whose token is checked
	cluster string // the only cluster whose polls are allowed, by id, or by DNS name if the credential has that; empty: any
}

// permission is the result of can-i.
type permission struct {
	Allowed bool   `json:"allowed"`
	Needs   string `json:"needs"`
	Actor   string `json:"actor"`
	Role    string `json:"role"`
	Reason  string `json:"reason"` // reason of the refusal, or the limits; empty: allowed without limits
}

// errDenied makes can-i exit with 1 when the permission is missing.
var errDenied = errDiffers

func (s authCommands) canICommand() *cli.Command {
	return &cli.Command{
		Name: "can-i", Usage: "Check whether you have a permission", ArgsUsage: "VERB [NOUN]",
		Description: "VERB and NOUN as in commands, or kubectl's verbs: get, list, watch, create, update, patch, delete. poll is Flux's request;\n" +
			"for a client certificate, use the DNS name: poll cluster/DNS-NAME.\n" +
			"Prints yes or no, also when it is not read on a terminal, and why not on standard error; exits with 0 or 1. It is about\n" +
			"your token and the server's mode; the removal budget, protection and field managers are about each change: see --plan.\n\n" +
			args.ExampleText("auth can-i delete cluster", "auth can-i create tokens --quiet && echo admin", "auth can-i poll cluster/demo-cluster-01"),
		Action: func(c *cli.Context) error {
			operands := c.Args().Slice()
			if len(operands) == 0 || len(operands) > 2 {
				return args.Errorf("%s takes VERB and NOUN, such as: delete cluster", c.Command.HelpName)
			}
			q, err := permissionQueryOf(s.root.Commands, operands[0], strings.Join(operands[1:], ""))
			if err != nil {
				return err
			}
			conn, err := s.connect(c)
			if err != nil {
				return err
			}
			who, err := s.identity(c.Context, conn, q.use)
			if err != nil {
				return err
			}
			p := q.evaluate(who)
			if err := s.printPermission(c, p); err != nil {
				return err
			}
			if !p.Allowed {
				return errDenied
			}
			return nil
		},
	}
}

// Verbs of kubectl, including some that no command has.
var (
	readVerbs   = []string{"get", "list", "watch"}
	changeVerbs = []string{"create", "update", "patch", "delete"}
)

// permissionQueryOf returns the permission that a verb and a noun need. It follows from the commands: those that change something
// have --dry-run.
func permissionQueryOf(commands []*cli.Command, verb, noun string) (permissionQuery, error) {
	noun, name, _ := strings.Cut(noun, "/")
	switch {
	case verb == "poll" && (noun == "" || noun == clusters.name || noun == clusters.plural):
		return permissionQuery{needs: "poll", use: forReads, cluster: name}, nil
	case noun == "*":
		noun = tokens.name // the noun that needs most
	}
	cmd := args.FindCommand(commands, cmp.Or(noun, verb))
	if cmd == nil || cmd.Hidden || slices.Contains(offline, cmd.Name) {
		return permissionQuery{}, args.Errorf("can-i does not know %q: it takes a verb, and a noun such as cluster, component or token", cmp.Or(noun, verb))
	}
	of := cmd
	if noun != "" {
		cmd = args.FindCommand(cmd.Subcommands, verb)
	}
	changes := verb == "*" || slices.Contains(changeVerbs, verb)
	switch {
	case noun == "" && len(cmd.Subcommands) > 0:
		return permissionQuery{}, args.Errorf("a verb is missing for %s, such as: auth can-i get %s", cmd.Name, cmd.Name)
	case cmd == nil && !changes && !slices.Contains(readVerbs, verb):
		return permissionQuery{}, args.Errorf("%s has no command %q; it has %s", of.HelpName, verb, args.ListOf(args.Visible(of.Subcommands)))
	case of.Name == tokens.name, of.Name == accessDocuments.name, of.Name == webhookDocuments.name:
		return permissionQuery{needs: "admin", use: forChanges}, nil
	case changes, cmd != nil && args.FindFlag(cmd.Flags, "dry-run") != nil:
		return permissionQuery{needs: "write", use: forChanges}, nil
	}
	return permissionQuery{needs: "read", use: forReads}, nil
}

// offline are the commands that need no token.
var offline = []string{"auth", "config", "completion", "version"}

// evaluate compares an identity with the permission that is needed.
func (q permissionQuery) evaluate(who api.Identity) permission {
	p := permission{Needs: q.needs, Actor: who.Actor, Role: who.Role, Allowed: slices.Contains(who.May, q.needs)}
	switch {
	case who.Role == "scoped" && who.Mode == "crud":
		p.Allowed, p.Reason = q.evaluateScoped(who)
	case !p.Allowed && who.Mode != "crud" && q.needs != "poll":
		p.Reason = "this server is in mode " + who.Mode + ", and serves only polls of Flux"
	case !p.Allowed:
		p.Reason = fmt.Sprintf("it needs the role %s, and %s has the role %s", q.needs, who.Actor, who.Role)
	case q.cluster == "":
	case who.ClusterID != "" && q.cluster != who.ClusterID:
		p.Allowed, p.Reason = false, who.Actor+" polls only for "+who.ClusterID
	case who.Credential == "certificate" && !slices.ContainsFunc(who.ClusterDNS, func(dns string) bool { return sameDNS(dns, q.cluster) }):
		// This credential cannot resolve the cluster's id.
		p.Allowed, p.Reason = false, fmt.Sprintf("%s is a certificate, which names clusters by DNS name, and polls only for %s: "+
			"use poll cluster/DNS-NAME", who.Actor, args.ListOf(who.ClusterDNS))
	}
	return p
}

// evaluateScoped returns whether access documents grant a right, and the limits or the reason.
func (q permissionQuery) evaluateScoped(who api.Identity) (allowed bool, reason string) {
	var limits []string
	reads := false
	for _, a := range who.Access {
		reads = reads || (a.On == nil || q.needs == "read") && slices.Contains(a.May, "read")
		switch {
		case !slices.Contains(a.May, q.needs), a.On != nil && q.needs == "admin":
		case a.On == nil:
			allowed = true
		default:
			limits = append(limits, a.ID+": "+scopeText(a.On))
		}
	}
	switch {
	case !reads && q.needs == "read":
		return false, fmt.Sprintf("no access document grants read to %s", who.Actor)
	case !reads:
		return false, "no access document grants read without limits, which changes and plans need"
	case allowed:
		return true, ""
	case len(limits) > 0:
		return true, "limited by access documents: " + strings.Join(limits, " | ")
	}
	return false, fmt.Sprintf("no access document grants %s to %s", q.needs, who.Actor)
}

// sameDNS compares DNS names as the server does.
func sameDNS(a, b string) bool {
	return !strings.ContainsFunc(a+b, func(r rune) bool { return r > '~' }) && strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

func (s authCommands) printPermission(c *cli.Context, p permission) error {
	word := "no"
	if p.Allowed {
		word = "yes"
	}
	if p.Reason != "" {
		s.note("%s", render.Printable(p.Reason))
	}
	switch {
	case c.Bool("quiet"):
		return nil
	case !c.IsSet("output"):
		_, err := fmt.Fprintln(s.env.Stdout, word)
		return err
	}
	return s.print(c, render.Output{
		Document: p, Text: func(bool) string { return word + "\n" },
		Names: func() ([]string, error) { return []string{word}, nil },
	})
}

package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s authCommands) authCommand() *cli.Command {
	return &cli.Command{
		Name: "auth", Usage: "Your identity and permissions on the server",
		Subcommands: []*cli.Command{s.whoAmICommand(), s.canICommand(), s.loginCommand(), s.logoutCommand(), s.endSessionsCommand()},
	}
}

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
		Action: s.Connected(func(c *cli.Context, client conn.Client, _ []string) error {
			known, problem := s.callers(c, client)
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
func (s authCommands) callers(c *cli.Context, client conn.Client) ([]caller, error) {
	uses := [][]string{{forReads}, {forChanges}}
	if s.Connection.Settings.WriteToken == s.Connection.Settings.Token {
		uses = [][]string{{forReads, forChanges}}
	}
	var known []caller
	var problem error
	for _, use := range uses {
		who, err := s.identity(c.Context, client, use[0])
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

var callerView = render.View{
	Header: []string{"ACTOR", "FOR", "ROLE", "CLUSTERS", "EXPIRES", "MAY", "LIMITS", "SERVER", "CREDENTIAL"}, Narrow: 7,
	Row: render.RowOf(func(who caller) []string {
		clusters := "all"
		switch {
		case who.ClusterID != "":
			clusters = who.ClusterID
		case who.Credential == "certificate":
			clusters = strings.Join(who.ClusterDNS, ", ")
		}
		return []string{
			who.Actor, strings.Join(who.For, ", "), who.Role, clusters, render.TimeOr(who.ExpiresAt, "never"), strings.Join(who.May, ", "), limitList(who.Access), who.Mode, who.Credential,
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
	out := kinds.Kind{View: callerView}.OutputOf(known, rows...)
	out.Names = func() ([]string, error) { return names, nil }
	return s.Print(c, out)
}

// errDenied makes can-i exit with 1 when the permission is missing.
var errDenied = change.ErrDiffers

func (s authCommands) canICommand() *cli.Command {
	return &cli.Command{
		Name: "can-i", Usage: "Check whether you have a permission", ArgsUsage: "VERB [NOUN]",
		Description: "VERB and NOUN as in commands, kubectl's verbs: get, list, watch, create, update, patch, delete, or a right: write, push_version.\n" +
			"KIND/ID checks one document with the limits of access documents. poll is Flux's request; for a client certificate, use the\n" +
			"DNS name: poll cluster/DNS-NAME. --as and --as-issuer check another subject, --list lists rights with their limits.\n" +
			"Prints yes or no, also when it is not read on a terminal, and why not on standard error; exits with 0 or 1. It is about\n" +
			"your token and the server's mode. --list also lists the rules that may refuse a change: removal budget, protected environments,\n" +
			"second person, freezes and policies. approve PLAN_HASH is about your right; the approval counts if you did not make the change,\n" +
			"and your rights cover it.\n\n" +
			args.ExampleText("auth can-i delete cluster", "auth can-i create tokens --quiet && echo admin", "auth can-i poll cluster/demo-cluster-01",
				"auth can-i write cluster/demo-cluster-01 --as token:ci", "auth can-i --list --as-issuer corp --as-group team-web"),
		Flags: append(asFlags(), &cli.BoolFlag{Name: "list", Usage: "list all rights, with the limits and the access documents that grant them"}),
		Action: func(c *cli.Context) error {
			operands := c.Args().Slice()
			sub, err := checkedSubject(c)
			if err != nil {
				return err
			}
			if c.Bool("list") {
				if len(operands) > 0 {
					return args.Errorf("%s --list takes no VERB and NOUN", c.Command.HelpName)
				}
				return s.listRights(c, sub)
			}
			if len(operands) == 0 || len(operands) > 2 {
				return args.Errorf("%s takes VERB and NOUN, such as: delete cluster", c.Command.HelpName)
			}
			q, err := permissionQueryOf(s.root.Commands, operands[0], strings.Join(operands[1:], ""))
			if err != nil {
				return err
			}
			client, err := s.Connect(c)
			if err != nil {
				return err
			}
			p, err := s.permission(c, client, q, sub)
			if err != nil {
				return err
			}
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

// permission returns the permission of a subject, or of the caller.
func (s authCommands) permission(c *cli.Context, client conn.Client, q permissionQuery, sub *api.CheckedSubject) (permission, error) {
	if sub != nil {
		return s.checkRights(c, client, q, sub, subjectName(*sub))
	}
	who, err := s.identity(c.Context, client, q.use)
	if err != nil {
		return permission{}, err
	}
	if who.Role == "scoped" && who.Mode == "crud" && len(q.rights) > 0 {
		return s.checkRights(c, client, q, nil, who.Actor)
	}
	return q.evaluate(who), nil
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
	case verb == "poll" && (noun == "" || noun == kinds.Clusters.Name || noun == kinds.Clusters.Plural):
		return permissionQuery{needs: "poll", use: forReads, cluster: name}, nil
	case slices.Contains(rightNames, verb) && (noun == "" || apiKind(noun) != "" || verb == "approve" && planHash.MatchString(noun)):
		return rightQuery(verb, apiKind(noun), name), nil
	case noun == "*":
		noun = kinds.Tokens.Name // the noun that needs most
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
	case of.Name == kinds.Tokens.Name, of.Name == kinds.Access.Name, of.Name == kinds.Webhooks.Name, of.Name == kinds.Sources.Name:
		return rightQuery("admin", "", ""), nil
	case of.Name == kinds.Policies.Name && (changes || cmd != nil && args.FindFlag(cmd.Flags, "dry-run") != nil):
		return rightQuery("policy", "", ""), nil
	case changes, cmd != nil && args.FindFlag(cmd.Flags, "dry-run") != nil:
		return changeQuery(of, cmd, verb, name), nil
	}
	return rightQuery("read", apiKind(of.Name), name), nil
}

// planHash is the form of the hashes of plans. The server does not know the changes with a hash, so their approval is a right on any.
var planHash = regexp.MustCompile("^[0-9a-f]{32}$")

// rightNames are the rights of access documents, which can-i accepts as verbs. plan is a command as well.
var rightNames = []string{"read", "plan", "write", "revert", "push_version", "approve", "override_freeze", "override_source", "override_policy", "policy", "admin"}

// rightQuery returns the query for one right, and for the lowest role that includes it.
func rightQuery(right, kind, id string) permissionQuery {
	q := permissionQuery{needs: "write", rights: []string{right}, use: forChanges}
	if kind != "" {
		q.kinds, q.id = []string{kind}, id
	}
	switch right {
	case "admin", "policy":
		q.needs = "admin"
	case "read":
		q.needs, q.use = right, forReads
	case "plan":
		q.needs, q.use, q.rights = "read", forReads, []string{"plan", "write", "push_version", "revert"}
	}
	return q
}

// changeQuery returns the query for a command that changes something; cmd may be nil.
func changeQuery(noun, cmd *cli.Command, verb, id string) permissionQuery {
	q := rightQuery("write", apiKind(noun.Name), id)
	if noun.Name != kinds.Clusters.Name && cmd != nil && args.FindFlag(cmd.Flags, "cluster") != nil && verb != "create" && verb != "update" {
		q.kinds, q.id = []string{kinds.Clusters.API, kinds.Layers.API}, "" // it changes the settings on these
	}
	q.create, q.rights = verb == "create" && q.id != "", changeRights(noun.Name, verb)
	return q
}

// changeRights returns the rights of which one permits a command that changes something.
func changeRights(noun, verb string) []string {
	switch {
	case verb == "revert":
		return []string{"write", "revert"}
	case verb == "approve":
		return []string{"approve"}
	case noun == kinds.Components.Name && slices.Contains([]string{"update", "patch", "set"}, verb), noun == kinds.Rollouts.Name && verb != "delete", noun == "apply":
		return []string{"write", "push_version"}
	}
	return []string{"write"}
}

// apiKind returns the API's name of a kind that a noun of commands names, if access documents can limit rights to it; else empty.
func apiKind(noun string) string {
	if kind, ok := kinds.Find(noun); ok {
		return kind.API
	}
	for _, kind := range []kinds.Kind{kinds.Rollouts, kinds.Strategies, kinds.Freezes} {
		if noun == kind.Name || noun == kind.Plural {
			return kind.API
		}
	}
	return ""
}

// offline are the commands that need no token.
var offline = []string{"auth", "config", "completion", "version"}

// evaluate compares an identity with the permission that is needed.
func (q permissionQuery) evaluate(who api.Identity) permission {
	p := permission{Needs: q.needs, Actor: who.Actor, Role: who.Role, Allowed: slices.Contains(who.May, q.needs)}
	switch {
	case who.Role == "scoped" && who.Mode == "crud":
		p.Allowed, p.Reason = false, "a scoped credential cannot poll"
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
		s.Note("%s", render.Printable(p.Reason))
	}
	switch {
	case c.Bool("quiet"):
		return nil
	case !c.IsSet("output"):
		_, err := fmt.Fprintln(s.Env.Stdout, word)
		return err
	}
	return s.Print(c, render.Output{
		Document: p, Text: func(bool) string { return word + "\n" },
		Names: func() ([]string, error) { return []string{word}, nil },
	})
}

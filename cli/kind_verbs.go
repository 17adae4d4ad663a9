package cli

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/urfave/cli/v2"
)

// kindVerbs are the verbs that take KIND NAME, with the kinds for which they work. They are alike for all these kinds; a verb whose
// flags are those of a kind stands under the kind.
func kindVerbs() map[string][]kinds.Kind {
	all := kinds.All(kinds.ResourcesOfID("TYPE"))
	return map[string][]kinds.Kind{
		"history": append(slices.Clip(all), kinds.Rollouts), "edit": all, "restore": all,
		"suspend": {kinds.Sources, kinds.Webhooks}, "resume": {kinds.Sources, kinds.Webhooks}, "reconcile": {kinds.Clusters, kinds.Sources},
	}
}

// kindVerbNames returns the kinds of kindVerbs by their names in the command line.
func kindVerbNames() map[string]any {
	names := map[string]any{}
	for verb, of := range kindVerbs() {
		var list []string
		for _, n := range of {
			list = append(list, n.Name)
		}
		slices.Sort(list)
		names[verb] = list
	}
	return names
}

// onDocument returns the action of a verb on the document that its arguments name.
func (s *session) onDocument(run func(c *cli.Context, v kindCommands, name string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		kind, name, err := documentOf(c, c.Args().Slice())
		if err != nil {
			return err
		}
		return run(c, kindCommands{s, kind}, name)
	}
}

// documentOf reads KIND NAME or KIND/NAME, where the kind of a resource type's definitions is resource/TYPE or resource TYPE.
func documentOf(c *cli.Context, operands []string) (kinds.Kind, string, error) {
	verb := c.Command.Name
	word, name, named := documents.SplitName(strings.Join(operands, "/"))
	if last := len(operands) - 1; !named || last > 0 && name != operands[last] {
		return kinds.Kind{}, "", args.Errorf("%s takes %s, not %s", c.Command.HelpName, c.Command.ArgsUsage, args.Counted(c.Args().Slice()))
	}
	kind, found := kinds.FindIn(kindVerbs()[verb], word)
	if !found {
		return kind, "", args.Errorf("%s works for %s, not for %q", c.Command.HelpName, args.ListOf(kindVerbNames()[verb].([]string)), word)
	}
	return kind, name, args.CheckID("NAME", name)
}

// suspendCommand is suspend or resume.
func (s *session) suspendCommand(suspended bool) *cli.Command {
	verb, usage := "resume", "Resume a suspended source or webhook"
	description := "A source follows its artifact again. A webhook continues after the last revision that it delivered."
	if suspended {
		verb, usage = "suspend", "Suspend a source or webhook until it is resumed"
		description = "A suspended source applies no artifact; its documents stay managed, and its open rollout continues. A suspended webhook sends\n" +
			"nothing. Others have verbs of their own: cluster pin, rollout pause, component policy set --suspended."
	}
	return &cli.Command{
		Name: verb, Usage: usage, ArgsUsage: "KIND NAME", Flags: change.WriteFlags(),
		Description: description + "\n\n" + args.ExampleText(verb+" source platform", verb+" webhook change-log"),
		Action: s.onDocument(func(c *cli.Context, v kindCommands, name string) error {
			return v.changeOne(c, v.Operation("patch", name, map[string]any{"patch": map[string]any{"suspended": suspended}}))
		}),
	}
}

// reconcileCommand requests a reconciliation. Of a cluster, this is a value in the inputs of the next poll, which the templates write
// to the annotation that `flux reconcile` sets.
func (s *session) reconcileCommand() *cli.Command {
	return &cli.Command{
		Name: "reconcile", Usage: "Let Flux reconcile everything on clusters at their next poll, or check a source now", ArgsUsage: "KIND [NAME]",
		Description: "On clusters, Flux fetches the sources and applies all releases and Kustomizations again, although nothing changed; --cluster,\n" +
			"--selector or --all select them in place of NAME. Of a source, the artifact is applied, and documents that others have changed\n" +
			"are written back; it takes no flags.\n\n" +
			args.ExampleText("reconcile cluster demo-cluster-01", "reconcile cluster --selector environment=dev", "reconcile source platform"),
		Flags: slices.Concat(change.TargetFlags(), change.WriteFlags(), []cli.Flag{change.YesFlag()}, change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			kind, _ := kinds.Find(c.Args().First())
			if change.HasTargetFlags(c) && c.NArg() == 1 && kind.API == kinds.Clusters.API {
				on, err := change.TargetsOf(c)
				if err != nil {
					return err
				}
				return s.reconcileClusters(c, on)
			}
			kind, name, err := documentOf(c, c.Args().Slice())
			if err != nil {
				return err
			}
			for _, f := range c.Command.Flags {
				flag := f.Names()[0]
				if c.IsSet(flag) && kind.API != kinds.Clusters.API {
					return args.Errorf("%s --%s is for clusters, not for %s", c.Command.HelpName, flag, kind.OneTitle())
				}
			}
			switch {
			case kind.API == kinds.Sources.API:
				return kindCommands{s, kind}.send(c, func(client conn.Client) (*http.Response, error) {
					return conn.Send(c.Context, client, http.MethodPost, kind.Calls.Document(name)+"/reconcile", nil, nil)
				})
			case change.HasTargetFlags(c):
				return args.Errorf("%s takes NAME, or --cluster, --selector or --all", c.Command.HelpName)
			}
			return s.reconcileClusters(c, change.Targets{Ids: []string{name}})
		},
	}
}

func (s *session) reconcileClusters(c *cli.Context, on change.Targets) error {
	at := s.Env.Now().UTC().Format(time.RFC3339Nano)
	return s.Perform(c, change.Change{Operations: on.Planner("reconcile", map[string]any{"requested_at": at})})
}

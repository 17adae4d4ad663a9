package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

var clusters = documentKind{
	kind: "cluster", schema: "Cluster", name: "cluster", plural: "clusters", title: "cluster", list: "clusters",
	aliases: []string{"clusters"}, usage: "Clusters and their assignments", labeled: true,
	example: "cluster create edge-01 --dns edge-01.example.com --environment dev --label region=eu --component podinfo",
	fields: slices.Concat([]field{
		textField("dns", "cluster_dns", "DNS `NAME` under which the cluster polls"),
		textField("environment", "environment", "`TIER`: dev, qa, uat, prod, or those in the server's configuration"),
		textField("name", "cluster_name", "display `NAME` (default: the id)"),
		parsedField("label", "labels", "label `KEY=VALUE`; repeat for more; replaces all labels", input.Pairs),
	}, referenceFields("assign this %s"), []field{
		boolField("deletion-protection", "deletion_protection", "refuse to delete the cluster or change its DNS name"),
		numberField("node-count", "node_count", "number of nodes, for your information"),
		textField("vm-image", "vm_image", "`IMAGE` of the nodes, for your information"),
		textField("k0s-version", "k0s_version", "`VERSION` of k0s, for your information"),
	}),
	filters: clusterFilters,
	view:    clusterView(),
	api:     calls{path: "/clusters"},
}

// referenceFields are the lists of a document with the ids of each kind that is assigned to clusters. usage has a %s for the kind.
func referenceFields(usage string) []field {
	var fields []field
	for _, n := range definitions() {
		fields = append(fields, parsedField(n.name, n.list, fmt.Sprintf(usage, n.word)+", by `ID`; repeat for more; replaces all", input.References))
	}
	return fields
}

// countHeader has a column for the number of entries in each of these lists.
func countHeader() []string {
	var header []string
	for _, n := range definitions() {
		header = append(header, strings.ToUpper(n.name)+"S")
	}
	return header
}

// countCells counts the entries in each of these lists of a document.
func countCells(document json.RawMessage) ([]string, error) {
	var cells []string
	for _, n := range definitions() {
		entries, err := n.entries(document)
		if err != nil {
			return nil, err
		}
		cells = append(cells, strconv.Itoa(len(entries)))
	}
	return cells, nil
}

// clusterView counts the assignments of each kind.
func clusterView() render.View {
	return render.View{
		Header: slices.Concat([]string{"ID", "ENVIRONMENT", "DNS"}, countHeader(), []string{"REVISION", "NAME", "PROTECTED", "PINNED", "LABELS", "UPDATED"}),
		Narrow: 4 + len(definitions()),
		Row: func(raw json.RawMessage) ([]string, error) {
			counts, err := countCells(raw)
			if err != nil {
				return nil, err
			}
			return render.RowOf(func(d api.Cluster) []string {
				pinned := ""
				if d.Pinned != nil {
					pinned = d.Pinned.Reason
				}
				return slices.Concat([]string{d.ID, d.Environment, d.ClusterDNS}, counts, []string{
					strconv.FormatInt(d.Revision, 10), d.ClusterName, strconv.FormatBool(d.DeletionProtection), pinned, render.Labels(d.Labels), render.Time(d.UpdatedAt),
				})
			})(raw)
		},
	}
}

// clusterFilters are the filters of lists of clusters.
func clusterFilters() []filter {
	return []filter{
		{&cli.StringFlag{Name: "environment", Aliases: []string{"e"}, Usage: "only clusters of this `TIER`"}, "environment"},
		{&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "only clusters that match this label `SELECTOR`, such as 'region in (eu),team=web'"}, "selector"},
		{&cli.StringFlag{Name: "component", Usage: "only clusters that are assigned this `COMPONENT`"}, "component"},
		{&cli.StringFlag{Name: "component-version", Usage: "with --component: only clusters that run this `VERSION` of it"}, "component_version"},
		{&cli.StringFlag{Name: "oci-tag", Usage: "with --component: only clusters that have this `TAG` of it"}, "oci_tag"},
		{&cli.StringFlag{Name: "dns", Usage: "only the cluster with this DNS `NAME`"}, "cluster_dns"},
		{&cli.BoolFlag{Name: "pinned", Usage: "only pinned clusters"}, "pinned"},
		{&cli.BoolFlag{Name: "deleted", Usage: "only deleted clusters whose Flux is still served empty lists"}, "deleted"},
	}
}

// clusterCommands are the commands about clusters.
type clusterCommands struct{ *session }

func (s clusterCommands) clusterCommand() *cli.Command {
	pins := s.pinCommands()
	return &cli.Command{
		Name: clusters.name, Aliases: clusters.aliases, Usage: clusters.usage,
		Subcommands: []*cli.Command{
			kindCommands{s.session, clusters}.listCommand(),
			kindCommands{s.session, clusters}.getCommand(),
			s.describeCommand(),
			s.statusCommand(),
			kindCommands{s.session, clusters}.historyCommand(),
			kindCommands{s.session, clusters}.createDocumentCommand(),
			kindCommands{s.session, clusters}.setCommand(),
			kindCommands{s.session, clusters}.editCommand(),
			s.labelCommand(),
			s.reconcileCommand(),
			s.protectCommand(),
			pins[0], pins[1],
			s.excludeCommand(),
			s.deleteClusterCommand(),
		},
	}
}

func (s clusterCommands) labelCommand() *cli.Command {
	return &cli.Command{
		Name:      "label",
		Usage:     "Set and remove labels of clusters; the others stay",
		ArgsUsage: "[NAME] KEY=VALUE... KEY-...",
		Description: "Without --cluster, --selector or --all the first argument names the cluster.\n\n" +
			args.ExampleText("cluster label demo-cluster-01 tier=web old-", "cluster label --selector environment=dev canary=true --plan"),
		Flags: slices.Concat(targetFlags(), writeFlags(), []cli.Flag{yesFlag()}, plannedFlags(),
			[]cli.Flag{&cli.BoolFlag{Name: "overwrite", Hidden: true, Usage: "accepted for compatibility with kubectl; labels are always overwritten"}}),
		Action: func(c *cli.Context) error {
			operands := c.Args().Slice()
			on := targets{}
			if c.IsSet("cluster") || c.IsSet("selector") || c.IsSet("all") {
				var err error
				if on, err = targetsOf(c); err != nil {
					return err
				}
			} else if len(operands) > 0 {
				if err := args.CheckID("NAME", operands[0]); err != nil {
					return err
				}
				on.ids, operands = operands[:1], operands[1:]
			}
			if len(operands) == 0 {
				return args.Errorf("%s takes NAME, or --cluster, --selector or --all, and at least one KEY=VALUE or KEY-", c.Command.HelpName)
			}
			labels, err := labelsFrom(operands)
			if err != nil {
				return err
			}
			return s.onTargets(c, on, change{operations: on.planner("set_labels", map[string]any{"labels": labels})})
		},
	}
}

// reconcileCommand requests a reconciliation: a value in the inputs of the next poll, which the templates write to the annotation
// that `flux reconcile` sets.
func (s clusterCommands) reconcileCommand() *cli.Command {
	return &cli.Command{
		Name:      "reconcile",
		Usage:     "Let Flux reconcile everything on clusters at their next poll",
		ArgsUsage: "[NAME]",
		Description: "Flux fetches the sources and applies all releases and Kustomizations again, although nothing changed. Without --cluster, " +
			"--selector or --all the argument names the cluster.\n\n" +
			args.ExampleText("cluster reconcile demo-cluster-01", "cluster reconcile --selector environment=dev"),
		Flags: slices.Concat(targetFlags(), writeFlags(), []cli.Flag{yesFlag()}, plannedFlags()),
		Action: func(c *cli.Context) error {
			var on targets
			operands := c.Args().Slice()
			switch many := c.IsSet("cluster") || c.IsSet("selector") || c.IsSet("all"); {
			case many && len(operands) > 0, !many && len(operands) != 1:
				return args.Errorf("%s takes NAME, or --cluster, --selector or --all", c.Command.HelpName)
			case many:
				var err error
				if on, err = targetsOf(c); err != nil {
					return err
				}
			default:
				if err := args.CheckID("NAME", operands[0]); err != nil {
					return err
				}
				on.ids = operands
			}
			at := s.env.Now().UTC().Format(time.RFC3339Nano)
			return s.perform(c, change{operations: on.planner("reconcile", map[string]any{"requested_at": at})})
		},
	}
}

// labelsFrom reads KEY=VALUE and KEY-, the latter as null.
func labelsFrom(operands []string) (map[string]any, error) {
	labels := map[string]any{}
	for _, arg := range operands {
		key, value, isSet := strings.Cut(arg, "=")
		gone, isGone := strings.CutSuffix(arg, "-")
		switch {
		case isSet && key != "":
			labels[key] = value
		case isGone && !isSet && gone != "":
			labels[gone] = nil
		default:
			return nil, args.Errorf("%q is neither KEY=VALUE nor KEY-", arg)
		}
	}
	return labels, nil
}

func (s clusterCommands) protectCommand() *cli.Command {
	return &cli.Command{
		Name:      "protect",
		Usage:     "Protect a cluster against deletion and a change of its DNS name",
		ArgsUsage: "NAME",
		Flags:     slices.Concat(writeFlags(), []cli.Flag{yesFlag(), &cli.BoolFlag{Name: "off", Usage: "lift the protection"}}, plannedFlags()),
		Action: withArguments(func(c *cli.Context, operands []string) error {
			return kindCommands{s.session, clusters}.mergePatch(c, operands[0], map[string]any{"deletion_protection": !c.Bool("off")})
		}),
	}
}

func (s clusterCommands) deleteClusterCommand() *cli.Command {
	return &cli.Command{
		Name:      "delete",
		Usage:     "Delete a cluster: Flux on it removes everything that came from here",
		ArgsUsage: "NAME",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "mode", Value: "uninstall", Usage: "`MODE`: uninstall makes Flux remove everything; orphan forgets the cluster, and Flux keeps its objects"},
			yesFlag(),
		}, writeFlags(), plannedFlags()),
		Action: withArguments(func(c *cli.Context, operands []string) error {
			mode, what := c.String("mode"), fmt.Sprintf("delete the cluster %q; Flux removes all its objects of this service", operands[0])
			switch mode {
			case "uninstall":
			case "orphan":
				what = fmt.Sprintf("forget the cluster %q; Flux keeps its objects", operands[0])
			default:
				return args.Errorf("--mode is uninstall or orphan, not %q", mode)
			}
			return s.performOn(c, clusters, change{
				operations:  fixedOperations(operation{"op": "delete", "kind": clusters.kind, "id": operands[0], "mode": mode}),
				description: what,
			})
		}),
	}
}

// patchesOf returns the patches of one component in a cluster's document; {} without any.
func patchesOf(cluster json.RawMessage, component string) (map[string]json.RawMessage, error) {
	var doc struct {
		Patches map[string]map[string]json.RawMessage `json:"patches"`
	}
	if err := json.Unmarshal(cluster, &doc); err != nil {
		return nil, errors.New("unexpected response of the server: it is not a cluster")
	}
	if values := doc.Patches[component]; values != nil {
		return values, nil
	}
	return map[string]json.RawMessage{}, nil
}

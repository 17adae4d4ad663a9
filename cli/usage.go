package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/argv"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// usageView shows what clusters run of a component.
var usageView = view{
	header: []string{"VERSION", "TAG", "PATH", "CLUSTERS", "OVERRIDING", "PATCHED", "DISABLED", "ENVIRONMENTS", "NAMES"},
	narrow: 8,
	row: rowOf(func(v api.ComponentVariant) []string {
		var tiers []string
		for _, tier := range render.SortedKeys(v.Environments) {
			tiers = append(tiers, fmt.Sprintf("%s %d", tier, v.Environments[tier]))
		}
		return []string{
			v.ComponentVersion, v.OCITag, v.ComponentPath, strconv.Itoa(v.Clusters), strconv.Itoa(v.Overriding), strconv.Itoa(v.Patched),
			strconv.Itoa(v.Disabled), strings.Join(tiers, ", "), strings.Join(v.ClusterIds, ","),
		}
	}),
}

func (s componentCommands) usageCommand() *cli.Command {
	return &cli.Command{
		Name: "usage", Usage: "Show which clusters run a component, at which version, and how many say so themselves",
		ArgsUsage: "NAME",
		Description: "Clusters that run the same are one line; OVERRIDING says how many have it from a setting of their own, and not from the catalog. " +
			"-o wide names the first 100, and cluster list --component NAME --component-version VERSION all.\n\n" +
			argv.ExampleText("component usage podinfo", "cluster list --component podinfo --component-version 6.9.0"),
		Action: func(c *cli.Context) error {
			args, err := arguments(c, "NAME")
			if err != nil {
				return err
			}
			conn, err := s.ready(c)
			if err != nil {
				return err
			}
			a, err := receive(conn.GetPlatformComponentUsage(c.Context, args[0], nil))
			if err != nil {
				return err
			}
			var usage struct {
				Variants []json.RawMessage `json:"variants"`
			}
			if err := a.decode(&usage); err != nil {
				return err
			}
			out := noun{view: usageView}.shown(a.body, usage.Variants...)
			out.Names = func() ([]string, error) { return usageNames(usage.Variants) }
			return s.print(c, out)
		},
	}
}

func usageNames(variants []json.RawMessage) ([]string, error) {
	var names []string
	for _, raw := range variants {
		var v api.ComponentVariant
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, err
		}
		for _, id := range v.ClusterIds {
			names = append(names, clusters.name+"/"+id)
		}
	}
	return names, nil
}

func (s clusterCommands) describeCommand() *cli.Command {
	return &cli.Command{
		Name: "describe", Usage: "Show a cluster, what it runs of each component, and its last changes, for people",
		ArgsUsage: "NAME",
		Action: func(c *cli.Context) error {
			args, err := arguments(c, "NAME")
			if err != nil {
				return err
			}
			conn, err := s.ready(c)
			if err != nil {
				return err
			}
			text, document, err := s.describe(c, conn, args[0])
			if err != nil {
				return err
			}
			out := render.Output{
				Document: document, Text: func(bool) string { return text },
				Names: func() ([]string, error) { return []string{clusters.name + "/" + args[0]}, nil },
			}
			if !c.IsSet("output") {
				return s.printAs(c, "table", out)
			}
			return s.print(c, out)
		},
	}
}

func (s clusterCommands) describe(c *cli.Context, conn client, id string) (string, json.RawMessage, error) {
	a, err := receive(conn.GetCluster(c.Context, id, nil))
	if err != nil {
		return "", nil, err
	}
	var doc api.Cluster
	if err := a.decode(&doc); err != nil {
		return "", nil, err
	}
	polled, err := receive(conn.PollPlatformComponents(c.Context, doc.ClusterDNS, nil))
	if err != nil {
		return "", nil, err
	}
	var inputs struct{ Inputs []api.FluxPlatformComponent }
	if err := polled.decode(&inputs); err != nil {
		return "", nil, err
	}
	changed, err := receive(conn.GetClusterHistory(c.Context, id, nil, query(url.Values{"limit": {"5"}})))
	var history []api.RevisionSummary
	if err == nil {
		err = changed.decode(&history)
	}
	if err != nil {
		return "", nil, err
	}
	w := planWriter{paint: func(code, text string) string { return s.paint(s.env.StdoutTerminal, code, text) }}
	w.cluster(doc, inputs.Inputs)
	w.linef("Last changes:")
	for _, rev := range history {
		w.linef("  %d   %s   %s   %s", rev.Revision, when(rev.At), render.Printable(who(rev)), render.Printable(what(rev)))
	}
	return w.b.String(), a.body, nil
}

// cluster writes a cluster and what it runs of each component.
func (w *planWriter) cluster(doc api.Cluster, components []api.FluxPlatformComponent) {
	field := func(name, value string) { w.linef("%-14s %s", name+":", render.Printable(first(value, "-"))) }
	field("Name", doc.ID)
	field("DNS name", doc.ClusterDNS)
	field("Environment", doc.Environment)
	field("Labels", pairs(doc.Labels))
	field("Protected", strconv.FormatBool(doc.DeletionProtection))
	field("Revision", fmt.Sprintf("%d, %s", doc.Revision, when(doc.UpdatedAt)))
	own := map[string]api.ComponentAssignment{}
	for _, e := range doc.PlatformComponents {
		own[e.ID] = e
	}
	w.linef("Components:")
	for _, in := range components {
		line := fmt.Sprintf("  %s   %s %s", in.ID, in.Type, in.ComponentVersion)
		if in.Source.OCITag != "latest" {
			line += ", tag " + in.Source.OCITag
		}
		if e := own[in.ID]; e.ComponentVersion+e.OCITag+e.ComponentPath != "" {
			line += " (its own)"
		}
		if n := len(doc.Patches[in.ID]); n > 0 {
			line += fmt.Sprintf(", patches: %d", n)
		}
		if !in.Enabled {
			line += ", disabled"
		}
		w.linef("%s", render.Printable(line))
	}
	var spaces, bindings []string
	for _, ref := range doc.Namespaces {
		spaces = append(spaces, ref.ID)
	}
	for _, ref := range doc.Rolebindings {
		bindings = append(bindings, ref.ID)
	}
	field("Namespaces", strings.Join(spaces, ", "))
	field("Role bindings", strings.Join(bindings, ", "))
	for _, id := range render.SortedKeys(doc.Resources) {
		var names []string
		for _, ref := range doc.Resources[id] {
			names = append(names, ref.ID)
		}
		field(id, strings.Join(names, ", "))
	}
}

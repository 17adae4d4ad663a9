package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// commands returns them in the order of the help.
func (s componentCommands) commands() []*cli.Command {
	return append([]*cli.Command{
		s.usageCommand(), s.statusCommand(), s.setCommand(), ownershipCommands(s).relinquishCommand(),
	}, versionCommands(s).commands()...)
}

// setCommand changes the settings and values of a component where it is assigned, or its entry in the catalog.
func (s componentCommands) setCommand() *cli.Command {
	entry := slices.DeleteFunc(slices.Clone(kinds.Components.Fields), func(f kinds.Field) bool { return isSetting(f.Flag) })
	return &cli.Command{
		Name: "set", Usage: "Change the given settings and Helm values of a component; the others stay",
		ArgsUsage: "NAME [" + change.AssigningUsage + "]",
		Description: "With --cluster, --selector or --all it changes clusters that have the component, with --layer a layer. Without them it changes the\n" +
			"catalog, and so every cluster that does not override it.\n\n" +
			args.ExampleText("component set grafana --component-version 17.1.0 --plan",
				"component set grafana --selector environment=dev --component-version 17.1.0 --plan",
				"component set grafana --all --component-version ''",
				"component set podinfo -f values.yaml --plan",
				"component set podinfo --cluster demo-cluster-01 --set replicaCount=3 --set ui.message='Hello, all'",
				"component set podinfo --cluster demo-cluster-01 -f values.yaml --unset ui.color --dry-run",
				"component set podinfo --selector environment=dev --set image.tag=6.9.0 --field-manager ci --plan"),
		Flags: slices.Concat(change.AssigningFlags(), kinds.FlagsOf(kinds.ComponentSettings), valueFlags(), ownerFlags(), ofCatalog(kinds.FlagsOf(entry)),
			[]cli.Flag{&cli.StringFlag{Name: "file", Usage: "of the catalog: fields of the document, from a YAML or JSON `FILE` (-: standard input)"}},
			change.WriteFlags(), []cli.Flag{change.YesFlag()}, change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			if !slices.ContainsFunc(change.AssigningFlags(), func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) }) {
				return s.setEntry(c)
			}
			id, on, err := change.AssignmentOf(c)
			if err != nil {
				return err
			}
			for _, f := range entry {
				if c.IsSet(f.Flag) {
					return args.Errorf("--%s is a field of the catalog: set it without --cluster, --selector, --all and --layer", f.Flag)
				}
			}
			return s.setThere(c, on, id)
		},
	}
}

// isSetting reports whether a flag of components sets a setting of their assignments.
func isSetting(flag string) bool {
	return slices.ContainsFunc(kinds.ComponentSettings, func(f kinds.Field) bool { return f.Flag == flag })
}

// ofCatalog says of flags that they set fields of the catalog.
func ofCatalog(flags []cli.Flag) []cli.Flag {
	for _, flag := range flags {
		switch f := flag.(type) {
		case *cli.StringFlag:
			f.Usage = "of the catalog: " + f.Usage
		case *cli.StringSliceFlag:
			f.Usage = "of the catalog: " + f.Usage
		case *cli.BoolFlag:
			f.Usage = "of the catalog: " + f.Usage
		}
	}
	return flags
}

// setEntry changes the catalog.
func (s componentCommands) setEntry(c *cli.Context) error {
	for _, f := range slices.Concat(kinds.FlagsOf(kinds.ComponentSettings[:1]), ownerFlags()) {
		if c.IsSet(f.Names()[0]) {
			return args.Errorf("--%s needs --cluster, --selector, --all or --layer", f.Names()[0])
		}
	}
	id, fields, err := s.DocumentFrom(c, kinds.Components)
	if err != nil {
		return err
	}
	values, err := s.catalogValues(c, id, fields)
	if err != nil {
		return err
	}
	ops := s.catalogValueOperations(id, values)
	switch {
	case len(fields) > 1:
		ops = append(kinds.Components.ChangeOperations("update", id, fields), ops...)
	case len(ops) == 0:
		return args.Errorf("nothing to change: set at least one field or value")
	}
	return s.PerformOn(c, kinds.Components, change.Change{Operations: change.FixedOperations(ops...)})
}

// setThere changes settings and values of a component on clusters and in layers that have it.
func (s componentCommands) setThere(c *cli.Context, on change.Targets, id string) error {
	settings, err := settingsOf(c, kinds.ComponentSettings)
	if err != nil {
		return err
	}
	values := slices.ContainsFunc(slices.Concat(valueFlags(), ownerFlags()), func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) })
	changed := change.Change{Operations: on.Planner("set_component", kinds.WithID(kinds.Components, id, settings))}
	enabled, given := settings["enabled"].(bool)
	if _, single := on.Single(); !single && given && !enabled {
		changed.Description = fmt.Sprintf("let Flux remove the component %q from %s", id, on)
	}
	switch {
	case len(settings) == 0 && values:
		return s.patchValues(c, on, id)
	case len(settings) == 0:
		return args.Errorf("nothing to change: set at least one of %s, or values with --set or -f", kinds.FlagNames(kinds.ComponentSettings))
	case values:
		op, err := s.valuesOperation(c, on, id)
		if err != nil {
			return err
		}
		changed.Operations = change.FixedOperations(on.Operation("set_component", kinds.WithID(kinds.Components, id, settings)), op)
		return s.Perform(c, changed)
	}
	return s.setAssigned(c, on, id, changed)
}

// setAssigned changes settings of a component where it is assigned.
func (s componentCommands) setAssigned(c *cli.Context, on change.Targets, id string, ch change.Change) error {
	if cluster, single := on.Single(); single {
		ch.Refused = func(client conn.Client, err error) error {
			if apiclient.ErrorCode(err) != "validation_error" {
				return err
			}
			a, unread := s.effectiveCluster(c, client, cluster)
			var doc api.Cluster
			if unread != nil || a.Decode(&doc) != nil || hasAssigned(doc, id) {
				return err
			}
			return conn.WithHint(
				fmt.Errorf("the component %q is not assigned to %q", id, cluster),
				fmt.Sprintf("assign it with: component assign %s --cluster %s", id, cluster),
			)
		}
	}
	return s.OnTargets(c, on, ch)
}

func hasAssigned(doc api.Cluster, component string) bool {
	return slices.ContainsFunc(doc.PlatformComponents, func(a api.ComponentAssignment) bool { return a.ID == component })
}

// patchValues changes a component's patches. For one cluster it prints them before and after.
func (s componentCommands) patchValues(c *cli.Context, on change.Targets, component string) error {
	op, err := s.valuesOperation(c, on, component)
	if err != nil {
		return err
	}
	cluster, single := on.Single()
	ch := change.Change{Operations: change.FixedOperations(op)}
	if single && !c.IsSet("plan-hash") {
		ch.Show = func(_ conn.Client, a conn.Answer) error {
			results, err := change.ResultsOf(a)
			if err != nil {
				return err
			}
			before, err := patchesOf(results[0].Before, component)
			if err != nil {
				return err
			}
			after, err := patchesOf(results[0].Document, component)
			if err != nil {
				return err
			}
			return s.printValues(c, cluster, component, before, after)
		}
	}
	return s.OnTargets(c, on, ch)
}

func (s componentCommands) printValues(c *cli.Context, cluster, component string, old, now map[string]json.RawMessage) error {
	// The reference's CLI prints the first three.
	document := struct {
		Cluster   string                     `json:"cluster_id"`
		Component string                     `json:"component_id"`
		Patches   map[string]json.RawMessage `json:"component_patches"`
		Before    map[string]json.RawMessage `json:"before"`
		After     map[string]json.RawMessage `json:"after"`
	}{cluster, component, now, old, now}
	return s.PrintChange(c, render.Output{
		Document: document,
		Tables: func() ([]render.Table, error) {
			t := render.Table{Header: []string{"VALUE", "BEFORE", "AFTER"}}
			for _, path := range render.SortedKeys(old, now) {
				t.Rows = append(t.Rows, []string{path, string(old[path]), string(now[path])})
			}
			return []render.Table{t}, nil
		},
		Names: func() ([]string, error) {
			return []string{kinds.Clusters.Name + "/" + cluster, kinds.Components.Name + "/" + component}, nil
		},
	})
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

package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

var components = documentKind{
	kind: "platform_component", schema: "PlatformComponent", name: "component", plural: "platform components", title: "platform component", list: "platform_components",
	aliases: []string{"components", "platform-component"}, usage: "Platform components: the catalog, and its use on clusters",
	example: "component create redis --component-path redis --oci-url https://charts.example.com --component-version 20.1.0",
	fields: []field{
		textField("component-path", "component_path", "`PATH` of the chart, or of the manifests in the artifact"),
		textField("component-version", "component_version", "`VERSION`; latest: not pinned"),
		textField("oci-url", "oci_url", "`URL` of the source: oci:// or a Helm repository"),
		textField("oci-tag", "oci_tag", "`TAG` of the artifact"),
		textField("oci-digest", "oci_digest", "`DIGEST` of the artifact, sha256:…, which Flux installs regardless of the tag; empty: none"),
		boolField("cluster-env-enabled", "cluster_env_enabled", "append the cluster's environment to the path"),
		listField("depends-on", "depends_on", "`ID` of a component that must be ready first; repeat for more; replaces all"),
		textField("type", "type", "how it is deployed: helm or kustomize"),
		textField("release-name", "release_name", "`NAME` of the Helm release (default: the id)"),
		textField("target-namespace", "target_namespace", "`NAMESPACE` it is installed in (default: the id)"),
		textField("secret-ref", "secret_ref", "`NAME` of the pull secret on the cluster"),
		parsedField("values-from", "values_from", "Helm values from a Secret or ConfigMap on the cluster, as secret/`NAME[:KEY][?]`; repeat for more; replaces all", input.ValuesFrom),
		parsedField("image", "images", "an image to replace in the manifests, as `NAME[=NEW_NAME][:TAG][@DIGEST]`; repeat for more; replaces all", input.Images),
	},
	view: render.View{
		Header: []string{"ID", "TYPE", "VERSION", "TAG", "PATH", "REVISION", "SOURCE", "DEPENDS ON", "UPDATED"},
		Narrow: 6,
		Row: render.RowOf(func(d api.PlatformComponent) []string {
			return []string{
				d.ID, d.Type, d.ComponentVersion, d.OCITag, d.ComponentPath, strconv.FormatInt(d.Revision, 10), d.OCIURL,
				strings.Join(d.DependsOn, ","), render.Time(d.UpdatedAt),
			}
		}),
	},
	filters: func() []filter {
		return []filter{{&cli.StringFlag{Name: "component-version", Usage: "only entries with this `VERSION`"}, "component_version"}}
	},
	assignable: &assignable{
		word: "component", removed: "it, and its patches are deleted", unconfirmedInScripts: true,
		overrides: assignmentSettings, assigned: slices.Concat(componentSettings, hiddenFields(assignmentSettings[1:])), values: true,
		inputs: inputType{
			name: "platform-components",
			view: render.View{
				Header: []string{"ID", "ENABLED", "TYPE", "VERSION", "TAG", "PATH", "PATCHES", "SOURCE", "DEPENDENCIES"},
				Narrow: 7,
				Row: render.RowOf(func(d api.FluxPlatformComponent) []string {
					dependencies := make([]string, len(d.Dependencies))
					for i, dep := range d.Dependencies {
						dependencies[i] = dep.ID
					}
					return []string{
						d.ID, strconv.FormatBool(d.Enabled), d.Type, d.ComponentVersion, d.Source.OCITag, d.ComponentPath,
						strconv.Itoa(len(d.Patches)), d.Source.OCIURL, strings.Join(dependencies, ","),
					}
				}),
			},
		},
	},
	api: calls{path: "/platform_components"},
}

// assignmentSettings are the fields of a component's assignment to a cluster; componentSettings the same for commands that change no
// catalog entry, under shorter names.
var assignmentSettings, componentSettings = settingFields("cluster-", "on this cluster"), settingFields("", "there")

func settingFields(prefix, where string) []field {
	const catalog = " instead of the catalog's; empty: the catalog's"
	return []field{
		boolField("enabled", "enabled", "run it there; --enabled=false: Flux removes it, the assignment stays").initially(true),
		clearableField(prefix+"oci-tag", "oci_tag", "`TAG` "+where+catalog),
		clearableField(prefix+"oci-digest", "oci_digest", "`DIGEST` "+where+", beside its tag or version; empty: none"),
		clearableField(prefix+"component-path", "component_path", "`PATH` "+where+catalog),
		clearableField(prefix+"component-version", "component_version", "`VERSION` "+where+catalog),
		parsedField(prefix+"values-from", "values_from", "Helm values from a Secret or ConfigMap "+where+", over the catalog's, as secret/`NAME[:KEY][?]`; repeat for more; replaces all; empty: none", input.ValuesFrom),
		parsedField(prefix+"image", "images", "an image to replace in the manifests "+where+", as `NAME[=NEW_NAME][:TAG][@DIGEST]`; repeat for more; replaces all of the assignment; NAME alone: not replaced; empty: none", input.Images),
	}
}

// hiddenFields returns fields whose flags help does not show.
func hiddenFields(fields []field) []field {
	out := make([]field, len(fields))
	for i, f := range fields {
		out[i] = f.hidden()
	}
	return out
}

// componentCommands are the commands that only components have.
type componentCommands struct{ *session }

// commands returns them in the order of the help.
func (s componentCommands) commands() []*cli.Command {
	return append([]*cli.Command{
		s.usageCommand(), s.statusCommand(), s.setCommand(), s.switchCommand("enable", true), s.switchCommand("disable", false), ownershipCommands(s).relinquishCommand(),
	}, versionCommands(s).commands()...)
}

// switchCommand is enable or disable. Unlike assign it creates no assignment, so that a typing error cannot install a component.
func (s componentCommands) switchCommand(verb string, enabled bool) *cli.Command {
	usage := "Let Flux run a component on clusters that it is assigned to"
	if !enabled {
		usage = "Let Flux remove a component from clusters; its assignment and patches stay"
	}
	return &cli.Command{
		Name: verb, Usage: usage, ArgsUsage: "NAME " + assigningUsage,
		Flags: slices.Concat(assigningFlags(), writeFlags(), []cli.Flag{yesFlag()}, plannedFlags()),
		Action: func(c *cli.Context) error {
			id, on, err := assignmentOf(c)
			if err != nil {
				return err
			}
			ch := change{operations: on.planner("set_component", withID(components, id, map[string]any{"enabled": enabled}))}
			if _, single := on.single(); !single && !enabled {
				ch.description = fmt.Sprintf("let Flux remove the component %q from %s", id, on)
			}
			return s.setAssigned(c, on, id, ch)
		},
	}
}

// setCommand changes the settings and values of a component where it is assigned, or its entry in the catalog.
func (s componentCommands) setCommand() *cli.Command {
	entry := slices.DeleteFunc(slices.Clone(components.fields), func(f field) bool { return isSetting(f.flag) })
	return &cli.Command{
		Name: "set", Usage: "Change the given settings and Helm values of a component; the others stay",
		ArgsUsage: "NAME [" + assigningUsage + "]",
		Description: "With --cluster, --selector or --all it changes clusters that have the component, with --layer a layer. Without them it changes the\n" +
			"catalog, and so every cluster that does not override it.\n\n" +
			args.ExampleText("component set grafana --component-version 17.1.0 --plan",
				"component set grafana --selector environment=dev --component-version 17.1.0 --plan",
				"component set grafana --all --component-version ''",
				"component set podinfo --cluster demo-cluster-01 --set replicaCount=3 --set ui.message='Hello, all'",
				"component set podinfo --cluster demo-cluster-01 -f values.yaml --unset ui.color --dry-run",
				"component set podinfo --selector environment=dev --set image.tag=6.9.0 --field-manager ci --plan"),
		Flags: slices.Concat(assigningFlags(), flagsOf(componentSettings), valueFlags(), ownerFlags(), ofCatalog(flagsOf(entry)),
			[]cli.Flag{&cli.StringFlag{Name: "file", Usage: "of the catalog: fields of the document, from a YAML or JSON `FILE` (-: standard input)"}},
			writeFlags(), []cli.Flag{yesFlag()}, plannedFlags()),
		Action: func(c *cli.Context) error {
			if !slices.ContainsFunc(assigningFlags(), func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) }) {
				return s.setEntry(c)
			}
			id, on, err := assignmentOf(c)
			if err != nil {
				return err
			}
			for _, f := range entry {
				if c.IsSet(f.flag) {
					return args.Errorf("--%s is a field of the catalog: set it without --cluster, --selector, --all and --layer", f.flag)
				}
			}
			return s.setThere(c, on, id)
		},
	}
}

// isSetting reports whether a flag of components sets a setting of their assignments.
func isSetting(flag string) bool {
	return slices.ContainsFunc(componentSettings, func(f field) bool { return f.flag == flag })
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
	for _, f := range slices.Concat(flagsOf(componentSettings[:1]), valueFlags(), ownerFlags()) {
		if c.IsSet(f.Names()[0]) {
			return args.Errorf("--%s needs --cluster, --selector, --all or --layer", f.Names()[0])
		}
	}
	return kindCommands{s.session, components}.setFields(c)
}

// setThere changes settings and values of a component on clusters and in layers that have it.
func (s componentCommands) setThere(c *cli.Context, on targets, id string) error {
	settings, err := settingsOf(c, componentSettings)
	if err != nil {
		return err
	}
	values := slices.ContainsFunc(slices.Concat(valueFlags(), ownerFlags()), func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) })
	change := change{operations: on.planner("set_component", withID(components, id, settings))}
	switch {
	case len(settings) == 0 && values:
		return s.patchValues(c, on, id)
	case len(settings) == 0:
		return args.Errorf("nothing to change: set at least one of %s, or values with --set or -f", flagNames(componentSettings))
	case values:
		op, err := s.valuesOperation(c, on, id)
		if err != nil {
			return err
		}
		change.operations = fixedOperations(on.operation("set_component", withID(components, id, settings)), op)
		return s.perform(c, change)
	}
	return s.setAssigned(c, on, id, change)
}

// setAssigned changes settings of a component where it is assigned.
func (s componentCommands) setAssigned(c *cli.Context, on targets, id string, ch change) error {
	if cluster, single := on.single(); single {
		ch.refused = func(conn client, err error) error {
			if apiclient.ErrorCode(err) != "validation_error" {
				return err
			}
			a, unread := s.effectiveCluster(c, conn, cluster)
			var doc api.Cluster
			if unread != nil || a.decode(&doc) != nil || hasAssigned(doc, id) {
				return err
			}
			return withHint(
				fmt.Errorf("the component %q is not assigned to %q", id, cluster),
				fmt.Sprintf("assign it with: component assign %s --cluster %s", id, cluster),
			)
		}
	}
	return s.onTargets(c, on, ch)
}

func hasAssigned(doc api.Cluster, component string) bool {
	return slices.ContainsFunc(doc.PlatformComponents, func(a api.ComponentAssignment) bool { return a.ID == component })
}

// valuesOperation returns the operation on the values of a component that flags describe.
func (s componentCommands) valuesOperation(c *cli.Context, on targets, component string) (operation, error) {
	values, err := s.valuesFrom(c)
	if err != nil {
		return nil, err
	}
	if len(on.layers) > 0 && (c.IsSet("field-manager") || c.Bool("apply") || c.Bool("force")) {
		return nil, args.Errorf("--field-manager, --apply and --force are for clusters: layers have no field managers")
	}
	op := "patch_values"
	if c.Bool("apply") {
		op = "apply_values"
		for path, value := range values {
			if value == nil {
				return nil, args.Errorf("--apply sets all values of the manager: omit %q instead of --unset", path)
			}
		}
	}
	fields := withID(components, component, map[string]any{"values": values})
	if m := c.String("field-manager"); m != "" {
		fields["field_manager"] = m
	}
	if c.Bool("force") {
		fields["force"] = true
	}
	return on.operation(op, fields), nil
}

// patchValues changes a component's patches. For one cluster it prints them before and after.
func (s componentCommands) patchValues(c *cli.Context, on targets, component string) error {
	op, err := s.valuesOperation(c, on, component)
	if err != nil {
		return err
	}
	cluster, single := on.single()
	ch := change{operations: fixedOperations(op)}
	if single && !c.IsSet("plan-hash") {
		ch.show = func(_ client, a answer) error {
			results, err := resultsOf(a)
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
	return s.onTargets(c, on, ch)
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
	return s.printChange(c, render.Output{
		Document: document,
		Tables: func() ([]render.Table, error) {
			t := render.Table{Header: []string{"VALUE", "BEFORE", "AFTER"}}
			for _, path := range render.SortedKeys(old, now) {
				t.Rows = append(t.Rows, []string{path, string(old[path]), string(now[path])})
			}
			return []render.Table{t}, nil
		},
		Names: func() ([]string, error) {
			return []string{clusters.name + "/" + cluster, components.name + "/" + component}, nil
		},
	})
}

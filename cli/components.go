package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

var components = noun{
	name: "component", plural: "platform components", title: "platform component",
	example: "component create redis --component-path redis --oci-url https://charts.example.com --component-version 20.1.0",
	fields: []field{
		textField("component-path", "component_path", "`PATH` of the chart, or of the manifests in the artifact"),
		textField("component-version", "component_version", "`VERSION`; latest: not pinned"),
		textField("oci-url", "oci_url", "`URL` of the source: oci:// or a Helm repository"),
		textField("oci-tag", "oci_tag", "`TAG` of the artifact"),
		boolField("cluster-env-enabled", "cluster_env_enabled", "append the cluster's environment to the path"),
		listField("depends-on", "depends_on", "`ID` of a component that must be ready first; repeat for more; replaces all"),
		textField("type", "type", "how it is deployed: helm or kustomize"),
		textField("release-name", "release_name", "`NAME` of the Helm release (default: the id)"),
		textField("target-namespace", "target_namespace", "`NAMESPACE` it is installed in (default: the id)"),
		textField("secret-ref", "secret_ref", "`NAME` of the pull secret on the cluster"),
	},
	view: view{
		header: []string{"ID", "TYPE", "VERSION", "TAG", "PATH", "REVISION", "SOURCE", "DEPENDS ON", "UPDATED"},
		narrow: 6,
		row: rowOf(func(d api.PlatformComponent) []string {
			return []string{
				d.ID, d.Type, d.ComponentVersion, d.OCITag, d.ComponentPath, strconv.FormatInt(d.Revision, 10), d.OCIURL,
				strings.Join(d.DependsOn, ","), when(d.UpdatedAt),
			}
		}),
	},
	api: calls{
		list: func(ctx context.Context, c client, e ...edit) (*http.Response, error) {
			return c.ListPlatformComponents(ctx, nil, e...)
		},
		get: func(ctx context.Context, c client, id string, e ...edit) (*http.Response, error) {
			return c.GetPlatformComponent(ctx, id, nil, e...)
		},
		create: func(ctx context.Context, c client, body []byte, e ...edit) (*http.Response, error) {
			return c.CreatePlatformComponentWithBody(ctx, nil, contentJSON, bytes.NewReader(body), e...)
		},
		update: func(ctx context.Context, c client, id string, body []byte, e ...edit) (*http.Response, error) {
			return c.UpdatePlatformComponentWithBody(ctx, id, nil, contentJSON, bytes.NewReader(body), e...)
		},
		patch: func(ctx context.Context, c client, id string, body []byte, e ...edit) (*http.Response, error) {
			return c.PatchPlatformComponentWithBody(ctx, id, nil, contentMergePatch, bytes.NewReader(body), e...)
		},
		delete: func(ctx context.Context, c client, id string, e ...edit) (*http.Response, error) {
			return c.DeletePlatformComponent(ctx, id, nil, e...)
		},
		assign: func(ctx context.Context, c client, cluster, id string, body []byte, e ...edit) (*http.Response, error) {
			return c.AssignPlatformComponentWithBody(ctx, cluster, id, nil, contentJSON, bytes.NewReader(body), e...)
		},
		unassign: func(ctx context.Context, c client, cluster, id string, e ...edit) (*http.Response, error) {
			return c.UnassignPlatformComponent(ctx, cluster, id, nil, e...)
		},
	},
}

// assignmentSettings are the fields of a component's assignment to a cluster.
var assignmentSettings = []field{
	boolField("enabled", "enabled", "run it there; --enabled=false: Flux removes it, the assignment stays"),
	clearableField("cluster-oci-tag", "oci_tag", "`TAG` on this cluster instead of the catalog's; empty: the catalog's"),
	clearableField("cluster-component-path", "component_path", "`PATH` on this cluster instead of the catalog's; empty: the catalog's"),
	clearableField("cluster-component-version", "component_version", "`VERSION` on this cluster instead of the catalog's; empty: the catalog's"),
}

func (s *session) componentCommand() *cli.Command {
	return &cli.Command{
		Name: "component", Aliases: []string{"components", "platform-component"},
		Usage: "Platform components: the catalog, and what clusters run of it",
		Subcommands: []*cli.Command{
			s.listCommand(components, filter{
				&cli.StringFlag{Name: "component-version", Usage: "only entries with this `VERSION`"}, "component_version",
			}),
			s.getCommand(components),
			s.createCommand(components, assignmentSettings...),
			s.updateCommand(components),
			s.assignCommand(components, assignmentSettings...),
			s.unassignCommand(components, "it; its patches go too", true),
			s.switchCommand("enable", true),
			s.switchCommand("disable", false),
			s.patchValuesCommand(),
			s.deleteCommand(components, true),
		},
	}
}

// switchCommand is enable or disable. Unlike assign it does not create an assignment: a typing error must not put a
// component on a cluster.
func (s *session) switchCommand(verb string, enabled bool) *cli.Command {
	usage := "Let Flux run a component that is assigned to a cluster"
	if !enabled {
		usage = "Let Flux remove a component from a cluster; its assignment and patches stay"
	}
	return &cli.Command{
		Name: verb, Usage: usage, ArgsUsage: "NAME",
		Flags: append([]cli.Flag{clusterFlag("the `CLUSTER` (required)")}, writeFlags()...),
		Action: func(c *cli.Context) error {
			id, cluster, err := assignmentOf(c)
			if err != nil {
				return err
			}
			return s.change(c, clusters, func(conn client) (answer, error) {
				_, after, err := s.onVersion(c, conn, cluster, func(now answer, unchanged edit) (answer, error) {
					var doc api.Cluster
					if err := now.decode(&doc); err != nil {
						return answer{}, err
					}
					if !slices.ContainsFunc(doc.PlatformComponents, func(a api.ComponentAssignment) bool { return a.ID == id }) {
						return answer{}, hintedError{
							fmt.Errorf("the component %q is not assigned to %q", id, cluster),
							fmt.Sprintf("assign it with: component assign %s --cluster %s", id, cluster),
						}
					}
					return s.assign(c, components, conn, cluster, id, map[string]any{"enabled": enabled}, unchanged)
				})
				return after, err
			})
		},
	}
}

func (s *session) patchValuesCommand() *cli.Command {
	return &cli.Command{
		Name:      "patch",
		Usage:     "Set and remove Helm values of a component on one cluster; the others stay",
		ArgsUsage: "NAME",
		Description: exampleText("component patch podinfo --cluster demo-cluster-01 --set replicaCount=3 --set ui.message='Hello, all'",
			"component patch podinfo --cluster demo-cluster-01 -f values.yaml --unset ui.color --dry-run"),
		Flags: slices.Concat([]cli.Flag{clusterFlag("the `CLUSTER` (required)")}, valueFlags(), writeFlags()),
		Action: func(c *cli.Context) error {
			id, cluster, err := assignmentOf(c)
			if err != nil {
				return err
			}
			return s.patchValues(c, cluster, id)
		},
	}
}

// patchValues changes a component's patches on a cluster and prints them as they were and as they are.
func (s *session) patchValues(c *cli.Context, cluster, component string) error {
	values, err := s.valuesFrom(c)
	if err != nil {
		return err
	}
	body, err := encode(map[string]any{"patches": map[string]any{component: values}})
	if err != nil {
		return err
	}
	conn, err := s.ready(c)
	if err != nil {
		return err
	}
	before, after, err := s.onVersion(c, conn, cluster, func(_ answer, unchanged edit) (answer, error) {
		return receive(clusters.api.patch(c.Context, conn, cluster, body, append(writeEdits(c), unchanged)...))
	})
	if err != nil {
		return err
	}
	return s.printValues(c, cluster, component, before.body, after.body)
}

func (s *session) printValues(c *cli.Context, cluster, component string, before, after json.RawMessage) error {
	old, err := patchesOf(before, component)
	if err != nil {
		return err
	}
	now, err := patchesOf(after, component)
	if err != nil {
		return err
	}
	document, err := encode(struct {
		Before map[string]json.RawMessage `json:"before"`
		After  map[string]json.RawMessage `json:"after"`
	}{old, now})
	if err != nil {
		return err
	}
	return s.printChange(c, output{
		document: document,
		tables: func() ([]table, error) {
			t := table{header: []string{"VALUE", "BEFORE", "AFTER"}}
			for _, path := range sortedKeys(old, now) {
				t.rows = append(t.rows, []string{path, string(old[path]), string(now[path])})
			}
			return []table{t}, nil
		},
		names: func() ([]string, error) {
			return []string{clusters.name + "/" + cluster, components.name + "/" + component}, nil
		},
	})
}

// sortedKeys are the keys of all the maps, each once.
func sortedKeys[V any](maps ...map[string]V) []string {
	var keys []string
	for _, m := range maps {
		for k := range m {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

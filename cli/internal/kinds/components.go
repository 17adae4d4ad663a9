package kinds

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// Components are the entries of the catalog.
var Components = Kind{
	API: "platform_component", Schema: "PlatformComponent", Name: "component", Plural: "platform components", Title: "platform component", List: "platform_components",
	Aliases: []string{"components", "platform-component"}, Usage: "Platform components: the catalog, and its use on clusters",
	Example: "component create redis --component-path redis --oci-url https://charts.example.com --component-version 20.1.0",
	Fields: []Field{
		textField("component-path", "component_path", "`PATH` of the chart, or of the manifests in the artifact or repository"),
		textField("component-version", "component_version", "`VERSION`; latest: not pinned; in a Git repository a tag, a range of tags, a commit, or a reference such as refs/heads/main"),
		textField("oci-url", "oci_url", "`URL` of the source: oci://, a Helm repository, or git+https:// or git+ssh:// for a Git repository"),
		textField("oci-tag", "oci_tag", "`TAG` of the artifact, or reference in the Git repository"),
		textField("oci-digest", "oci_digest", "`DIGEST` of the artifact, sha256:…, which Flux installs regardless of the tag; empty: none"),
		boolField("cluster-env-enabled", "cluster_env_enabled", "append the cluster's environment to the path"),
		listField("depends-on", "depends_on", "`ID` of a component that must be ready first; repeat for more; replaces all"),
		textField("type", "type", "how it is deployed: helm or kustomize"),
		textField("release-name", "release_name", "`NAME` of the Helm release (default: the id)"),
		textField("target-namespace", "target_namespace", "`NAMESPACE` it is installed in; default: the id (helm), or the namespaces in the manifests (kustomize)"),
		textField("secret-ref", "secret_ref", "`NAME` of the Secret on the cluster with the credentials of the source"),
		parsedField("values-from", "values_from", "Helm values from a Secret or ConfigMap on the cluster, as `[PATH=]secret/NAME[:KEY][?]`, with PATH the key's content as one value; repeat for more; replaces all", input.ValuesFrom),
		parsedField("image", "images", "an image to replace in the manifests, as `NAME[=NEW_NAME][:TAG][@DIGEST]`; repeat for more; replaces all", input.Images),
		fluxField("flux", "setting of the HelmRelease or Kustomization"),
	},
	View: render.View{
		Header: []string{"ID", "TYPE", "VERSION", "TAG", "PATH", "REVISION", "SOURCE", "DEPENDS ON", "UPDATED"},
		Narrow: 6,
		Row: render.RowOf(func(d api.PlatformComponent) []string {
			return []string{
				d.ID, d.Type, d.ComponentVersion, d.OCITag, d.ComponentPath, strconv.FormatInt(d.Revision, 10), d.OCIURL,
				strings.Join(d.DependsOn, ","), render.Time(d.UpdatedAt),
			}
		}),
	},
	parts: func(document json.RawMessage) ([]render.Table, error) {
		t, err := PolicyTable(document)
		if err != nil || len(t.Rows) == 0 {
			return nil, err
		}
		return []render.Table{t}, nil
	},
	Filters: func() []Filter {
		return []Filter{{&cli.StringFlag{Name: "component-version", Usage: "only entries with this `VERSION`"}, "component_version"}}
	},
	Assignable: &Assignable{
		Word: "component", Removed: "it, and its patches are deleted", UnconfirmedInScripts: true,
		Overrides: AssignmentSettings, Assigned: slices.Concat(ComponentSettings, hiddenFields(AssignmentSettings[1:])), Values: true,
		Inputs: InputType{
			Name: "platform-components",
			View: render.View{
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
	Calls: conn.Calls{Path: "/platform_components"},
}

// AssignmentSettings are the fields of a component's assignment to a cluster. ComponentSettings are the same fields under shorter names,
// for commands that change no catalog entry.
var (
	AssignmentSettings = settingFields("cluster-", "on this cluster")
	ComponentSettings  = settingFields("", "there")
)

func settingFields(prefix, where string) []Field {
	const catalog = " instead of the catalog's; empty: the catalog's"
	return []Field{
		boolField("enabled", "enabled", "run it there; --enabled=false: Flux removes it, the assignment stays").initially(true),
		clearableField(prefix+"oci-tag", "oci_tag", "`TAG` "+where+catalog),
		clearableField(prefix+"oci-digest", "oci_digest", "`DIGEST` "+where+", beside its tag or version; empty: none"),
		clearableField(prefix+"component-path", "component_path", "`PATH` "+where+catalog),
		clearableField(prefix+"component-version", "component_version", "`VERSION` "+where+catalog),
		parsedField(prefix+"values-from", "values_from", "Helm values from a Secret or ConfigMap "+where+", over the catalog's, as `[PATH=]secret/NAME[:KEY][?]`, with PATH the key's content as one value; repeat for more; replaces all; empty: none", input.ValuesFrom),
		parsedField(prefix+"image", "images", "an image to replace in the manifests "+where+", as `NAME[=NEW_NAME][:TAG][@DIGEST]`; repeat for more; replaces all of the assignment; NAME alone: not replaced; empty: none", input.Images),
		fluxField(prefix+"flux", "setting of the HelmRelease or Kustomization "+where+", over the catalog's"),
	}
}

// hiddenFields returns fields whose flags help does not show.
func hiddenFields(fields []Field) []Field {
	out := make([]Field, len(fields))
	for i, f := range fields {
		out[i] = f.hidden()
	}
	return out
}

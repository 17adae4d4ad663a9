package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// newFluxFleet has a release and a kustomize component that a layer assigns to two clusters.
func newFluxFleet(t *testing.T) *world {
	t.Helper()
	return newWorld(t,
		string(KindComponent), `{"id":"app","component_path":"app","oci_url":"https://charts.example.com"}`,
		string(KindComponent), `{"id":"tree","component_path":"p","oci_url":"oci://registry.example.com/tree","type":"kustomize"}`,
		string(KindLayer), `{"id":"base","priority":10,"all":true,"platform_components":[{"id":"app"},{"id":"tree"}]}`,
		string(KindLayer), `{"id":"prod","priority":20,"selector":"tier=prod"}`,
		string(KindCluster), `{"id":"dev","cluster_dns":"dev.example.com","environment":"dev"}`,
		string(KindCluster), `{"id":"prod","cluster_dns":"prod.example.com","environment":"dev","labels":{"tier":"prod"}}`)
}

// TestFluxSettingsByPath: of the documents that set a setting, the highest determines it. A write of some settings keeps the others.
func TestFluxSettingsByPath(t *testing.T) {
	t.Parallel()
	w := newFluxFleet(t)
	served := func(cluster, want string) {
		t.Helper()
		in := component(t, w.state, cluster+".example.com", "app")
		if want == "" {
			require.NotContains(t, in, "flux")
			return
		}
		require.JSONEq(t, want, mustJSON(t, in["flux"]))
	}
	w.must(patch(KindComponent, "app", `{"flux":{"timeout":"10m","upgrade":{"remediation":{"retries":3}}}}`))
	w.must(patch(KindComponent, "app", `{"flux":{"upgrade":{"crds":"CreateReplace"}}}`))
	served("dev", `{"timeout":"10m","upgrade":{"crds":"CreateReplace","remediation":{"retries":3}}}`)
	w.must(patch(KindLayer, "prod", `{"overrides":{"app":{"flux":{"upgrade":{"remediation":{"retries":5}},"driftDetection":{"mode":"warn"}}}}}`))
	served("prod", `{"timeout":"10m","upgrade":{"crds":"CreateReplace","remediation":{"retries":5}},"driftDetection":{"mode":"warn"}}`)
	served("dev", `{"timeout":"10m","upgrade":{"crds":"CreateReplace","remediation":{"retries":3}}}`)

	w.must(assign("prod", KindComponent, "app", `{"flux":{"upgrade":{"remediation":{"retries":0}},"timeout":"1m"}}`))
	w.must(assign("prod", KindComponent, "app", `{"flux":{"timeout":null,"maxHistory":2}}`))
	served("prod", `{"timeout":"10m","maxHistory":2,"upgrade":{"crds":"CreateReplace","remediation":{"retries":0}},"driftDetection":{"mode":"warn"}}`)
	w.must(batch(`{"op":"set_component","layers":["prod"],"component_id":"app","flux":{"driftDetection":{"mode":null},"test":{"enable":true}}}`))
	w.must(batch(`{"op":"set_component","cluster_ids":["prod"],"component_id":"app","flux":{"upgrade":{"remediation":{"retries":null}}}}`))
	served("prod", `{"timeout":"10m","maxHistory":2,"upgrade":{"crds":"CreateReplace","remediation":{"retries":5}},"test":{"enable":true}}`)
	w.must(batch(`{"op":"set_component","layers":["prod"],"component_id":"app","flux":null}`))
	w.must(assign("prod", KindComponent, "app", `{"flux":{"maxHistory":null}}`))
	w.must(patch(KindComponent, "app", `{"flux":null}`))
	served("prod", "")
	require.False(t, w.mentions("flux\""))
}

// TestFluxSettingsAreChecked: in every document, with the place and the page that has the table.
func TestFluxSettingsAreChecked(t *testing.T) {
	t.Parallel()
	w := newFluxFleet(t)
	for settings, pointer := range map[string]string{
		`{"commonMetadata":{"annotations":{"overrides":"${cluster.id}"}}}`: "/commonMetadata/annotations/overrides",
		`{"timeout":"10"}`:                                "/timeout",
		`{"unknown":1}`:                                   "/unknown",
		`{"uninstall":{"keepHistory":true}}`:              "/uninstall",
		`{"prune":false}`:                                 "/prune",
		`{"upgrade":{"remediation":{"retries":"3"}}}`:     "/upgrade/remediation/retries",
		`{"storageNamespace":"${cluster.id}"}`:            "/storageNamespace",
		`{"commonMetadata":{"labels":{"a":"${vars.a}"}}}`: "/commonMetadata/labels/a",
		`{"commonMetadata":{"annotations":{"a":"` + strings.Repeat("x", maxFluxBytes) + `"}}}`: "",
	} {
		for at, edit := range map[string]func(*Tx) error{
			"":                       patch(KindComponent, "app", `{"flux":`+settings+`}`),
			"/platform_components/0": put(KindCluster, "dev", `{"platform_components":[{"id":"app","flux":`+settings+`}]}`),
			"/overrides/app":         patch(KindLayer, "prod", `{"overrides":{"app":{"flux":`+settings+`}}}`),
		} {
			refused := w.refused(CodeInvalid, edit)
			require.Equal(t, at+"/flux"+pointer, refused.Problems[0].Pointer, settings)
		}
	}
	twice := w.refused(CodeInvalid, patch(KindLayer, "base", `{"overrides":{"app":{"flux":{"timeout":"1m"}}},"platform_components":[{"id":"app","flux":{"interval":"1m"}}]}`))
	require.Equal(t, "/platform_components/0/flux", twice.Problems[0].Pointer)

	// Another type of the component makes the settings of layers and clusters wrong.
	w.must(patch(KindLayer, "prod", `{"overrides":{"app":{"flux":{"maxHistory":2}}}}`))
	oci := `"type":"kustomize","oci_url":"oci://registry.example.com/app"`
	require.Contains(t, w.refused(CodeInvalid, patch(KindComponent, "app", `{`+oci+`}`)).Error(), "maxHistory")
	w.must(patch(KindLayer, "prod", `{"overrides":{"app":{"flux":null}}}`))
	w.must(assign("dev", KindComponent, "app", `{"flux":{"maxHistory":2}}`))
	require.Contains(t, w.refused(CodeInvalid, patch(KindComponent, "app", `{`+oci+`}`)).Error(), "maxHistory")
}

// TestEndOfRolloutChecksFluxSettings: Flux Operator applies no component of a cluster if one object has a setting of the other type, so a
// rollout that has changed the type on a cluster is not taken back while the cluster has settings for the new one.
func TestEndOfRolloutChecksFluxSettings(t *testing.T) {
	t.Parallel()
	for _, action := range []string{RolloutAbort, RolloutBack} {
		w := newFluxFleet(t)
		w.must(rollOut(w, "r", []RolloutStage{{Name: "first", Selector: "id=dev"}}, patchOp(KindComponent, "app", `{"type":"kustomize","oci_url":"oci://registry.example.com/app"}`)))
		w.must(act("r", RolloutStart))
		w.must(assign("dev", KindComponent, "app", `{"flux":{"wait":true}}`))
		refused := w.refused(CodeInvalid, withoutGuard(act("r", action)))
		require.Contains(t, refused.Detail, `cluster "dev": platform_components/app/flux/wait: the setting wait applies to components of type kustomize`)
		w.must(assign("dev", KindComponent, "app", `{"flux":{"wait":null}}`))
		w.must(withoutGuard(act("r", action)))
	}
}

// TestFluxSettingsOfSeveralDocuments: the limit of their size is for each document.
func TestFluxSettingsOfSeveralDocuments(t *testing.T) {
	t.Parallel()
	w := newFluxFleet(t)
	large := `{"flux":{"test":{"filters":[` + strings.TrimSuffix(strings.Repeat(`{"name":"`+strings.Repeat("z", 250)+`"},`, 64), ",") + `]}}}`
	other := `{"flux":{"driftDetection":{"ignore":[` + strings.TrimSuffix(strings.Repeat(`{"paths":["/`+strings.Repeat("y", 400)+`"]},`, 50), ",") + `]}}}`
	w.must(patch(KindLayer, "base", `{"overrides":{"app":`+large+`}}`))
	w.must(patch(KindLayer, "prod", `{"overrides":{"app":`+other+`}}`))
	w.must(patch(KindCluster, "dev", `{"labels":{"tier":"prod"}}`))
}

// TestNoRemediationWithAStorageNamespace: a warning tells that a remediation of a failed install has no effect on a cluster with a storage
// namespace, whichever documents set the two.
func TestNoRemediationWithAStorageNamespace(t *testing.T) {
	t.Parallel()
	w := newFluxFleet(t)
	w.must(patch(KindComponent, "app", `{"flux":{"install":{"remediation":{"retries":3}}}}`))
	for settings, warned := range map[string]bool{
		`{"storageNamespace":"apps"}`: true,
		`{"timeout":"1m"}`:            false,
		`{"storageNamespace":"apps","install":{"remediation":{"retries":0}}}`:                             false,
		`{"storageNamespace":"apps","install":{"remediation":{"retries":0,"remediateLastFailure":true}}}`: true,
	} {
		warnings := strings.Join(w.plan(assign("dev", KindComponent, "app", `{"flux":`+settings+`}`)).Warnings, "\n")
		require.Equal(t, warned, strings.Contains(warnings, `install.remediation in flux of component "app" has no effect on cluster "dev"`), "%s: %s", settings, warnings)
	}
}

// TestNoFluxSettings: answers and stored documents are the bytes of the version before the field, unless it is used.
func TestNoFluxSettings(t *testing.T) {
	t.Parallel()
	w := newFluxFleet(t)
	before := answersTo(t, w.state, "dev.example.com")
	w.must(patch(KindComponent, "app", `{"flux":{"upgrade":{}}}`))
	w.must(patch(KindLayer, "base", `{"overrides":{"app":{"flux":{}}}}`))
	w.must(put(KindCluster, "prod", `{"platform_components":[{"id":"app","flux":null}]}`))
	require.Equal(t, before, answersTo(t, w.state, "dev.example.com"))
	require.False(t, w.mentions("flux\""))
}

// TestFluxIdentityIsGuarded: a change of a setting that identifies what Flux has installed counts as a removal, and needs a confirmation;
// no other setting does. Random changes of random documents.
func TestFluxIdentityIsGuarded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newFluxFleet(t)
		w.state.rules.MaxRemovals = 0
		identity := func(cluster, component string) string {
			for _, one := range inputsOf(rt, w.state, cluster+".example.com", KindComponent) {
				if one["id"] == component {
					flux, _ := one["flux"].(map[string]any)
					parts := []any{}
					for _, path := range []string{"storageNamespace", "targetNamespace", "namePrefix", "nameSuffix", "prune", "components", "ignoreMissingComponents"} {
						value := flux[path]
						if path == "storageNamespace" && value == "flux-system" || path == "prune" && fmt.Sprint(value) == "true" || path == "ignoreMissingComponents" && fmt.Sprint(value) == "false" || fmt.Sprint(value) == "[]" {
							value = nil
						}
						parts = append(parts, value)
					}
					return fmt.Sprint(parts)
				}
			}
			return "none"
		}
		for range rapid.IntRange(1, 6).Draw(rt, "changes") {
			component := rapid.SampledFrom([]string{"app", "tree"}).Draw(rt, "component")
			settings := rapid.SampledFrom(map[string][]string{
				"app":  {`{"storageNamespace":"a"}`, `{"storageNamespace":"flux-system"}`, `{"storageNamespace":null}`, `{"timeout":"2m"}`, `{"upgrade":{"force":true},"storageNamespace":"b"}`, `null`},
				"tree": {`{"prune":false}`, `{"prune":true}`, `{"namePrefix":"x"}`, `{"namePrefix":null,"nameSuffix":"y"}`, `{"components":["c"]}`, `{"components":[]}`, `{"ignoreMissingComponents":true}`, `{"ignoreMissingComponents":false}`, `{"targetNamespace":"a"}`, `{"targetNamespace":null}`, `{"wait":false}`, `null`},
			}[component]).Draw(rt, "settings")
			edit := rapid.SampledFrom([]func(*Tx) error{
				patch(KindComponent, component, `{"flux":`+settings+`}`),
				batch(`{"op":"set_component","layers":["base"],"component_id":"` + component + `","flux":` + settings + `}`),
				batch(`{"op":"set_component","layers":["prod"],"component_id":"` + component + `","flux":` + settings + `}`),
				assign("dev", KindComponent, component, `{"flux":`+settings+`}`),
				patch(KindCluster, "prod", `{"platform_components":[{"id":"`+component+`","flux":`+settings+`}]}`),
				patch(KindCluster, "dev", `{"labels":{"tier":"prod"}}`),
				patch(KindCluster, "prod", `{"labels":{"tier":null}}`),
			}).Draw(rt, "edit")
			was := map[string]string{}
			for _, cluster := range []string{"dev", "prod"} {
				for _, id := range []string{"app", "tree"} {
					was[cluster+id] = identity(cluster, id)
				}
			}
			res, err := w.try(edit)
			if err != nil {
				var refused *Error
				require.ErrorAs(rt, err, &refused)
				require.Equal(rt, CodeConfirm, refused.Code, refused.Detail)
				plan := w.plan(edit)
				require.Positive(rt, plan.Totals.Removals)
				w.must(confirmed(plan.PlanHash, edit))
				moved := 0
				for _, cluster := range []string{"dev", "prod"} {
					for _, id := range []string{"app", "tree"} {
						if was[cluster+id] != identity(cluster, id) {
							moved++
						}
					}
				}
				require.Equal(rt, plan.Totals.Removals, moved, "what needs a confirmation is a change of identity")
				continue
			}
			w.keep(res)
			for _, cluster := range []string{"dev", "prod"} {
				for _, id := range []string{"app", "tree"} {
					require.Equal(rt, was[cluster+id], identity(cluster, id), "unconfirmed on %s", cluster)
				}
			}
		}
	})
}

// TestDeploymentOfFluxSettings: what a definition and an entry determine is what the input shows.
func TestDeploymentOfFluxSettings(t *testing.T) {
	t.Parallel()
	p := &api.PlatformComponent{ID: "tree", Type: typeKustomize, OCIURL: "oci://registry.example.com/tree", TargetNamespace: "a", Flux: map[string]any{"prune": false}}
	e := api.ComponentAssignment{ID: "tree", Enabled: true, Flux: map[string]any{"targetNamespace": "b"}}
	in, err := componentInput(p, e, nil, &inputContext{cluster: &Effective{cluster: &api.Cluster{}}})
	require.NoError(t, err)
	require.Equal(t, deploymentOn(p, &e, ""), inputDeployment(in))
	require.Equal(t, deployment{Type: typeKustomize, Namespace: "b", URL: p.OCIURL, Flux: `{"prune":false}`}, deploymentOn(p, &e, ""))
}

// TestReleaseNamesPerStorageNamespace: two components of a cluster may have one release name, if neither the histories nor the objects of
// their releases are in one namespace.
func TestReleaseNamesPerStorageNamespace(t *testing.T) {
	t.Parallel()
	w := newFluxFleet(t)
	second := func(fields string) func(*Tx) error {
		return both(create(KindComponent, `{"id":"second","component_path":"app","oci_url":"https://charts.example.com","release_name":"app"`+fields+`}`), assign("dev", KindComponent, "second", ""))
	}
	for _, fields := range []string{``, `,"target_namespace":"app","flux":{"storageNamespace":"other"}`, `,"flux":{"storageNamespace":"flux-system"}`} {
		require.Contains(t, w.refused(CodeInvalid, second(fields)).Error(), `are the same Helm release "app"`, fields)
	}
	w.must(second(`,"flux":{"storageNamespace":"other"}`))
	for name, edit := range map[string]func(*Tx) error{
		"catalog": patch(KindComponent, "second", `{"flux":null}`),
		"cluster": assign("dev", KindComponent, "second", `{"flux":{"storageNamespace":"flux-system"}}`),
		"layer":   patch(KindLayer, "base", `{"overrides":{"second":{"flux":{"storageNamespace":"flux-system"}}}}`),
		"other":   patch(KindComponent, "app", `{"flux":{"storageNamespace":"other"}}`),
		"target":  patch(KindComponent, "second", `{"target_namespace":"app"}`),
	} {
		_, err := w.try(edit)
		require.ErrorContains(t, err, `are the same Helm release "app"`, name)
	}
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

const treeAPI = "kustomize.toolkit.fluxcd.io/v1"

// settingValues has a value for each setting, by path.
var settingValues = map[string]string{
	"interval": `"3h"`, "timeout": `"2m"`, "commonMetadata.labels": `{"team.example.com/a":"b"}`, "commonMetadata.annotations": `{"note":"a: b {}"}`,
	"maxHistory": `3`, "persistentClient": `false`, "storageNamespace": `"fx-histories"`, "rollback.timeout": `"3m"`, "rollback.cleanupOnFail": `true`,
	"rollback.disableHooks": `true`, "rollback.disableWait": `true`, "rollback.disableWaitForJobs": `true`, "rollback.force": `true`, "rollback.recreate": `true`,
	"test.enable": `true`, "test.timeout": `"4m"`, "test.ignoreFailures": `true`, "test.filters": `[{"exclude":true,"name":"bad"}]`,
	"driftDetection.mode": `"warn"`, "driftDetection.ignore": `[{"paths":["/spec/replicas"],"target":{"kind":"Deployment"}}]`,
	"upgrade.remediation.strategy": `"rollback"`, "upgrade.cleanupOnFail": `true`, "upgrade.force": `true`,
	"retryInterval": `"5m"`, "wait": `false`, "force": `false`, "healthChecks": `[{"apiVersion":"apps/v1","kind":"Deployment","name":"a","namespace":"b"}]`,
	"healthCheckExprs": `[{"apiVersion":"v1","current":"has(data.ready) \u0026\u0026 1 \u003c 2","kind":"ConfigMap"}]`,
	"decryption":       `{"provider":"sops","secretRef":{"name":"fx-age"}}`,
	"targetNamespace":  `"fx-target"`, "namePrefix": `"a-"`, "nameSuffix": `"-z"`, "prune": `false`,
	"components": `["../../components/extra"]`, "ignoreMissingComponents": `true`,
}

func init() {
	for _, action := range []string{"install.", "upgrade."} {
		for setting, value := range map[string]string{
			"timeout": `"1m"`, "crds": `"CreateReplace"`, "remediation.retries": `-1`, "remediation.remediateLastFailure": `true`, "remediation.ignoreTestFailures": `true`,
			"strategy": `{"name":"RetryOnFailure","retryInterval":"1m"}`, "disableHooks": `true`, "disableWait": `true`, "disableWaitForJobs": `true`,
			"disableOpenAPIValidation": `true`, "disableSchemaValidation": `true`, "disableTakeOwnership": `true`,
		} {
			settingValues[action+setting] = value
		}
	}
}

// withoutEffect are settings whose effect TestFluxSettingsOfTheTable does not show, with the reason.
var withoutEffect = map[string]string{
	"helm persistentClient":                       "how helm-controller reads the API",
	"kustomize force":                             "only the default, false, is accepted",
	"helm upgrade.remediation.ignoreTestFailures": "as that of install",
	"helm install.disableOpenAPIValidation":       "the API server validates; a chart with an unknown field was installed without it",
	"helm upgrade.disableOpenAPIValidation":       "likewise",
	"helm rollback.cleanupOnFail":                 "Helm cleans up only if the API server refuses an object of the rollback",
	"helm rollback.disableWaitForJobs":            "as that of install and upgrade",
}

// settingCase is a component with settings, and their effect.
type settingCase struct {
	id       string
	rows     []string // the settings whose effect it shows
	artifact string   // a chart, or with "tree:" a path of manifests; empty: the chart web
	flux     string
	values   object
	// then has the values, or the version or tag, that the component gets once it is ready.
	then    object
	version string
	effect  func(c *settingCluster)
}

// settingCluster is the cluster of one case, whose component has its objects in the namespace of its id.
type settingCluster struct {
	*cluster
	id   string
	kind string
	pod  string // of the Deployment, before the upgrade
}

// release returns the HelmRelease or Kustomization.
func (c *settingCluster) release(ctx context.Context) (*unstructured.Unstructured, error) {
	return c.get(ctx, map[string]string{"HelmRelease": helmAPI, "Kustomization": treeAPI}[c.kind], c.kind, c.ns, "platform-"+c.id)
}

// says waits until a condition has a status, and its message contains a text.
func (c *settingCluster) says(condition, status, text string) {
	c.Helper()
	c.eventually(c.id+" "+condition, func(ctx context.Context) error {
		release, err := c.release(ctx)
		if err != nil {
			return err
		}
		if got, message := rig.Condition(release, condition); got != status || !strings.Contains(message, text) {
			return fmt.Errorf("%s of %s is %s: %s", condition, c.id, got, message)
		}
		return nil
	})
}

func says(condition, status, text string) func(*settingCluster) {
	return func(c *settingCluster) { c.says(condition, status, text) }
}

// history waits until the history of the release, as VERSION STATUS, newest first, satisfies a condition.
func (c *settingCluster) history(what string, holds func(history []string) bool) {
	c.Helper()
	c.eventually(c.id+" "+what, func(ctx context.Context) error {
		release, err := c.release(ctx)
		if err != nil {
			return err
		}
		list, _, _ := unstructured.NestedSlice(release.Object, "status", "history")
		var history []string
		for _, one := range list {
			one, _ := one.(object)
			history = append(history, fmt.Sprintf("%v %v", one["version"], one["status"]))
		}
		if !holds(history) {
			return fmt.Errorf("the history of %s is %v", c.id, history)
		}
		return nil
	})
}

// status waits until a field of the status has a value.
func (c *settingCluster) status(field string, want any) {
	c.Helper()
	release, err := c.release(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	c.field(release, want, "status", field)
}

// own waits for an object of the release.
func (c *settingCluster) own(kind, name string) *unstructured.Unstructured {
	c.Helper()
	apiVersion := "v1"
	if kind == "Deployment" {
		apiVersion = "apps/v1"
	}
	return c.exists(apiVersion, kind, c.id, name)
}

// edit changes an object as another manager.
func (c *settingCluster) edit(o *unstructured.Unstructured, patch string) {
	c.Helper()
	if err := c.w.Kube.Patch(c.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("kubectl-edit")); err != nil {
		c.Fatal(err)
	}
}

// definition waits until the CustomResourceDefinition of a chart has a description.
func (c *settingCluster) definition(chart, want string) {
	c.Helper()
	c.eventually("CustomResourceDefinition of "+chart, func(ctx context.Context) error {
		found, err := c.get(ctx, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "things."+chart+".example.com")
		if err != nil {
			return err
		}
		if !strings.Contains(canonical(found.Object["spec"]), want) {
			return fmt.Errorf("its spec is %s", canonical(found.Object["spec"]))
		}
		return nil
	})
}

// settingCases has the effects on helm-controller and kustomize-controller.
func settingCases() []settingCase {
	const failFast = `"timeout":"2s","install":{"remediation":{"retries":0}},"upgrade":{"remediation":{"retries":0}}`
	yes := func(names ...string) object {
		out := object{}
		for _, name := range names {
			out[name] = true
		}
		return out
	}
	failed := says("Stalled", "True", "")
	ready := says("Ready", "True", "")
	return []settingCase{
		// The controls: what a setting below prevents.
		{id: "fx-0-hook", flux: `{` + failFast + `}`, values: yes("hookFails"), effect: failed},
		{id: "fx-0-slow", rows: []string{"helm timeout", "helm install.remediation.retries"}, flux: `{` + failFast + `}`, values: yes("slow"), effect: says("Released", "False", "deadline exceeded")},
		{id: "fx-0-job", flux: `{` + failFast + `}`, values: yes("job"), effect: failed},
		{id: "fx-0-schema", artifact: "schema-fx-0", flux: `{` + failFast + `}`, effect: says("Released", "False", "missing")},
		{id: "fx-0-wait", artifact: "tree:slow", flux: `{"timeout":"30s"}`, effect: says("Ready", "False", "health check failed after")},

		{
			id: "fx-disables", rows: []string{"helm install.disableHooks", "helm install.disableWait", "helm upgrade.disableHooks", "helm upgrade.disableWait"},
			flux:   `{"timeout":"2s","install":{"disableHooks":true,"disableWait":true},"upgrade":{"disableHooks":true,"disableWait":true}}`,
			values: yes("hookFails", "slow"), then: object{"replicaCount": 2}, effect: func(c *settingCluster) {
				c.history("is upgraded", func(history []string) bool { return slices.Equal(history, []string{"2 deployed", "1 superseded"}) })
			},
		},
		{
			id: "fx-jobs", rows: []string{"helm install.disableWaitForJobs", "helm upgrade.disableWaitForJobs"},
			flux:   `{"timeout":"9s","install":{"disableWaitForJobs":true},"upgrade":{"disableWaitForJobs":true}}`,
			values: yes("job"), then: object{"replicaCount": 2}, effect: func(c *settingCluster) {
				c.history("is upgraded", func(history []string) bool { return slices.Equal(history, []string{"2 deployed", "1 superseded"}) })
			},
		},
		{
			id: "fx-validation", artifact: "schema-fx", rows: []string{"helm install.disableSchemaValidation", "helm upgrade.disableSchemaValidation"},
			flux: `{"install":{"disableSchemaValidation":true},"upgrade":{"disableSchemaValidation":true}}`,
			then: object{"replicaCount": 2}, effect: func(c *settingCluster) {
				c.history("is upgraded", func(history []string) bool { return slices.Equal(history, []string{"2 deployed", "1 superseded"}) })
			},
		},
		{
			id: "fx-install-time", rows: []string{"helm install.timeout"}, flux: `{"install":{"timeout":"2s","remediation":{"retries":0}}}`, values: yes("slow"),
			effect: says("Released", "False", "deadline exceeded"),
		},
		{
			id: "fx-retries", rows: []string{"helm install.remediation.remediateLastFailure"},
			flux: `{"install":{"remediation":{"retries":1,"remediateLastFailure":true}}}`, values: yes("hookFails"), effect: func(c *settingCluster) {
				failed(c)
				c.status("installFailures", int64(2))
				c.history("is uninstalled", func(history []string) bool { return len(history) > 0 && strings.Contains(history[0], " uninstall") })
			},
		},
		{
			id: "fx-strategy", rows: []string{"helm install.strategy", "helm upgrade.strategy", "helm maxHistory"}, // after a failed install it upgrades
			flux:   `{"maxHistory":2,"install":{"strategy":{"name":"RetryOnFailure","retryInterval":"2s"}},"upgrade":{"strategy":{"name":"RetryOnFailure","retryInterval":"2s"}}}`,
			values: yes("hookFails"), effect: func(c *settingCluster) {
				c.history("is retried", func(history []string) bool {
					return len(history) > 3 && strings.HasSuffix(history[0], " failed")
				})
				c.gone("v1", "Secret", c.ns, "sh.helm.release.v1.fx-strategy.v1")
			},
		},
		{
			id: "fx-upgrade", rows: []string{"helm upgrade.remediation.retries", "helm upgrade.timeout", "helm upgrade.cleanupOnFail"},
			flux: `{"upgrade":{"timeout":"2s","cleanupOnFail":true,"remediation":{"retries":0}}}`, then: object{"slow": true, "extra": true, "replicaCount": 2}, effect: func(c *settingCluster) {
				c.says("Released", "False", "deadline exceeded")
				c.status("upgradeFailures", int64(1))
				c.field(c.own("Deployment", c.id), int64(2), "spec", "replicas") // so the ConfigMap was created too
				c.gone("v1", "ConfigMap", c.id, c.id+"-extra")
			},
		},
		{
			id: "fx-rollback", rows: []string{"helm upgrade.remediation.remediateLastFailure", "helm upgrade.remediation.strategy", "helm rollback.disableHooks", "helm rollback.disableWait"},
			flux: `{"install":{"disableHooks":true,"disableWait":true},"rollback":{"disableHooks":true,"disableWait":true,"timeout":"2s"},
				"upgrade":{"remediation":{"retries":0,"remediateLastFailure":true,"strategy":"rollback"}}}`,
			values: yes("hookFails", "slow"), then: object{"replicaCount": 2}, effect: func(c *settingCluster) {
				c.says("Remediated", "True", "rollback")
				c.history("is rolled back", func(history []string) bool { return len(history) > 0 && history[0] == "3 deployed" })
			},
		},
		{
			id: "fx-rollback-fails", rows: []string{"helm rollback.timeout"}, flux: `{"install":{"disableWait":true},"rollback":{"timeout":"2s"},"upgrade":{"timeout":"2s","remediation":{"retries":0,"remediateLastFailure":true}}}`,
			values: yes("slow"), then: object{"replicaCount": 2}, effect: says("Remediated", "False", "deadline exceeded"),
		},
		{
			id: "fx-force", rows: []string{"helm upgrade.force"}, flux: `{"upgrade":{"force":true}}`, then: object{"replicaCount": 2}, effect: func(c *settingCluster) {
				c.field(c.own("Deployment", c.id), int64(2), "spec", "replicas")
				if note := c.own("ConfigMap", c.id+"-values").GetAnnotations()["note"]; note != "" {
					c.Errorf("the replaced object of %s has the annotation of another manager", c.id)
				}
			},
		},
		{
			id: "fx-rollback-force", rows: []string{"helm rollback.force", "helm rollback.recreate"},
			flux: `{"rollback":{"force":true,"recreate":true},"upgrade":{"timeout":"2s","remediation":{"retries":0,"remediateLastFailure":true}}}`, then: yes("slow"), effect: func(c *settingCluster) {
				c.says("Remediated", "True", "rollback")
				if note := c.own("ConfigMap", c.id+"-values").GetAnnotations()["note"]; note != "" {
					c.Errorf("the replaced object of %s has the annotation of another manager", c.id)
				}
				c.gone("v1", "Pod", c.id, c.pod)
			},
		},
		{
			id: "fx-own", rows: []string{"helm install.disableTakeOwnership"}, flux: `{"install":{"disableTakeOwnership":true,"remediation":{"retries":1,"remediateLastFailure":true}}}`,
			effect: func(c *settingCluster) {
				c.says("Released", "False", "invalid ownership metadata") // Helm stores no release then, so that no remediation follows
				c.own("ConfigMap", c.id+"-values")
			},
		},
		{
			id: "fx-own-later", rows: []string{"helm upgrade.disableTakeOwnership"}, flux: `{"upgrade":{"disableTakeOwnership":true,"remediation":{"retries":0}}}`, then: yes("extra"),
			effect: says("Released", "False", "invalid ownership metadata"),
		},
		{
			id: "fx-crds", artifact: "crd-fx", rows: []string{"helm install.crds"}, flux: `{"install":{"crds":"Skip"},"upgrade":{"crds":"Create"}}`, version: "1.1.0",
			effect: func(c *settingCluster) { c.definition("crd-fx", "version 1.1.0") }, // not that of 1.0.0, which the upgrade would not have replaced
		},
		{
			id: "fx-crds-replace", artifact: "crd-fy", rows: []string{"helm upgrade.crds"}, flux: `{"upgrade":{"crds":"CreateReplace"}}`, version: "1.1.0",
			effect: func(c *settingCluster) { c.definition("crd-fy", "version 1.1.0") },
		},
		{
			id: "fx-tests", rows: []string{"helm test.enable", "helm test.filters"}, flux: `{"test":{"enable":true,"filters":[{"name":"bad","exclude":true}]}}`,
			values: object{"tests": []string{"good", "bad"}}, effect: says("TestSuccess", "True", "completed successfully"),
		},
		{
			id: "fx-test-time", rows: []string{"helm test.timeout", "helm test.ignoreFailures"}, flux: `{"test":{"enable":true,"timeout":"2s","ignoreFailures":true}}`,
			values: object{"tests": []string{"pod"}}, effect: func(c *settingCluster) {
				c.says("TestSuccess", "False", "")
				ready(c)
			},
		},
		{
			id: "fx-test-fails", rows: []string{"helm install.remediation.ignoreTestFailures"},
			flux:   `{"test":{"enable":true},"install":{"remediation":{"retries":0,"remediateLastFailure":true,"ignoreTestFailures":true}}}`,
			values: object{"tests": []string{"bad"}}, effect: func(c *settingCluster) {
				c.says("TestSuccess", "False", "")
				c.history("stays", func(history []string) bool { return slices.Equal(history, []string{"1 deployed"}) })
			},
		},
		{
			id: "fx-drift", rows: []string{"helm interval", "helm driftDetection.mode", "helm driftDetection.ignore", "helm commonMetadata.labels", "helm commonMetadata.annotations"},
			flux: `{"interval":"2s","driftDetection":{"mode":"enabled","ignore":[{"paths":["/spec/replicas"],"target":{"kind":"Deployment"}}]},"commonMetadata":{"labels":{"team":"x"},"annotations":{"note":"y"}}}`,
			effect: func(c *settingCluster) {
				ready(c)
				deployment := c.own("Deployment", c.id)
				c.edit(deployment, `{"metadata":{"labels":{"team":"changed"}},"spec":{"replicas":7}}`)
				c.field(deployment, "x", "metadata", "labels", "team")
				c.field(deployment, int64(7), "spec", "replicas")
				c.field(deployment, "y", "metadata", "annotations", "note")
			},
		},
		{
			id: "fx-storage", rows: []string{"helm storageNamespace"}, flux: `{"storageNamespace":"fx-histories"}`,
			effect: func(c *settingCluster) { c.exists("v1", "Secret", "fx-histories", "sh.helm.release.v1.fx-storage.v1") },
		},

		{
			id: "fx-tree", artifact: "tree:", rows: []string{
				"kustomize targetNamespace", "kustomize namePrefix", "kustomize nameSuffix", "kustomize prune", "kustomize components", "kustomize ignoreMissingComponents",
				"kustomize commonMetadata.labels", "kustomize commonMetadata.annotations", "kustomize interval",
			},
			flux: `{"targetNamespace":"fx-target","namePrefix":"a-","nameSuffix":"-z","prune":false,"components":["../../components/extra","../../components/absent"],"ignoreMissingComponents":true,
				"commonMetadata":{"labels":{"team":"x"},"annotations":{"note":"y"}},"interval":"2s","wait":false}`, // the controller would wait five minutes for an object that is deleted while it waits
			version: "v2", effect: func(c *settingCluster) {
				made := c.exists("v1", "ConfigMap", "fx-target", "a-fx-tree-z")
				c.field(made, "x", "metadata", "labels", "team")
				c.field(made, "y", "metadata", "annotations", "note")
				c.field(made, "v2", "data", "tag")
				extra := c.exists("v1", "ConfigMap", "fx-target", "a-extra-z")
				c.exists("v1", "ConfigMap", "fx-target", "a-fx-tree-old-z") // which v2 does not have
				if err := c.w.Kube.Delete(c.Context(), extra); err != nil {
					c.Fatal(err)
				}
				c.exists("v1", "ConfigMap", "fx-target", "a-extra-z") // at the next interval
			},
		},
		{
			id: "fx-checks", artifact: "tree:", rows: []string{"kustomize healthChecks", "kustomize timeout", "kustomize retryInterval"},
			flux: `{"wait":false,"timeout":"31s","retryInterval":"1s","healthChecks":[{"apiVersion":"v1","kind":"ConfigMap","name":"fx-awaited","namespace":"default"}]}`,
			effect: func(c *settingCluster) {
				c.says("Ready", "False", "health check failed after")
				c.made("kubectl", "v1", "ConfigMap", "default", "fx-awaited", object{})
				ready(c)
			},
		},
		{
			id: "fx-exprs", artifact: "tree:", rows: []string{"kustomize healthCheckExprs"},
			flux:   `{"healthCheckExprs":[{"apiVersion":"v1","kind":"ConfigMap","current":"false","failed":"data.tag == 'v1'"}]}`,
			effect: says("Ready", "False", "'Failed'"),
		},
		{id: "fx-wait", artifact: "tree:slow", rows: []string{"kustomize wait"}, flux: `{"wait":false}`, effect: ready},
		{
			id: "fx-sops", artifact: "tree:", rows: []string{"kustomize decryption"}, flux: `{"retryInterval":"1s","decryption":{"provider":"sops","secretRef":{"name":"fx-age"}}}`,
			effect: func(c *settingCluster) {
				c.says("Ready", "False", "fx-age")
				c.made("kubectl", "v1", "Secret", c.ns, "fx-age", object{})
				ready(c)
			},
		},
	}
}

// settingRow matches a row of the table of accepted settings, which a test of package fluxsettings compares with its table.
var settingRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([a-z, ]+) \\| [^|]+ \\| [^|]* \\|$")

// settingRows returns the accepted settings as TYPE PATH.
func settingRows(t *testing.T) (rows []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/flux-settings.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range settingRow.FindAllStringSubmatch(string(page), -1) {
		for kind := range strings.SplitSeq(row[2], ", ") {
			rows = append(rows, kind+" "+row[1])
		}
	}
	if len(rows) < 60 {
		t.Fatalf("the page has %d rows", len(rows))
	}
	return rows
}

// component returns the component of a case, and its entry on the cluster, before or after the change.
func (s *settingCase) component(changed bool) (definition, entry object) {
	definition = object{"id": s.id, "component_path": "web", "oci_url": "https://charts.example.com", "component_version": "1.0.0", "flux": json.RawMessage(s.flux)}
	entry = object{"id": s.id, "enabled": true}
	path, isTree := strings.CutPrefix(s.artifact, "tree:")
	switch {
	case isTree:
		definition["type"], definition["oci_url"], definition["oci_tag"] = "kustomize", "oci://registry.example.com/"+s.id, "v1"
		definition["component_path"] = strings.TrimSuffix("apps/"+s.id+"/"+path, "/")
		delete(definition, "component_version")
		if changed && s.version != "" {
			entry["oci_tag"] = s.version
		}
	case s.artifact != "":
		definition["component_path"] = s.artifact
		fallthrough
	default:
		if changed && s.version != "" {
			entry["component_version"] = s.version
		}
	}
	return definition, entry
}

// TestFluxSettingsOfTheTable: each setting of the table arrives in the HelmRelease or Kustomization as the API server stores it, and has its
// effect on the controllers. A row of the table without a value and without an effect fails the test.
func TestFluxSettingsOfTheTable(t *testing.T) {
	t.Parallel()
	cases := settingCases()
	shown := map[string]string{}
	for _, one := range cases {
		for _, row := range one.rows {
			shown[row] = one.id
		}
	}
	nested := map[string]object{"helm": {}, "kustomize": {}}
	rows := settingRows(t)
	for _, row := range rows {
		kind, path, _ := strings.Cut(row, " ")
		if settingValues[path] == "" {
			t.Fatalf("settingValues has no value for %s", path)
		}
		if (shown[row] == "") == (withoutEffect[row] == "") {
			t.Errorf("%s: needs a case that shows its effect, or a reason why there is none", row)
		}
		at, steps := nested[kind], strings.Split(path, ".")
		for _, step := range steps[:len(steps)-1] {
			below, _ := at[step].(object)
			if below == nil {
				below = object{}
				at[step] = below
			}
			at = below
		}
		at[steps[len(steps)-1]] = json.RawMessage(settingValues[path])
	}

	// Components with all settings of their type. Their artifacts do not exist, so that nothing is installed.
	cases = append(cases,
		settingCase{id: "fx-all-helm", artifact: "absent", flux: canonical(nested["helm"])},
		settingCase{id: "fx-all-kustomize", artifact: "tree:absent", flux: canonical(nested["kustomize"])})
	entries, patches := []object{}, object{}
	for _, one := range cases {
		definition, entry := one.component(false)
		define(t, "platform_components", definition)
		entries = append(entries, entry)
		if one.values != nil {
			patches[one.id] = one.values
		}
	}
	c := prepare(t, "flux-rows", object{"platform_components": entries, "patches": patches})
	for _, namespace := range []string{"fx-histories", "fx-target", "fx-own", "fx-own-later"} {
		c.made("gitops", "v1", "Namespace", "", namespace, object{})
	}
	c.made("gitops", "v1", "ConfigMap", "fx-own", "fx-own-values", object{})
	c.made("gitops", "v1", "ConfigMap", "fx-own-later", "fx-own-later-extra", object{})
	c.join(rig.Cluster{NoReceipts: true})

	of := make([]*settingCluster, len(cases))
	entries = nil
	for i, one := range cases {
		of[i] = &settingCluster{cluster: c, id: one.id, kind: "HelmRelease"}
		if strings.HasPrefix(one.artifact, "tree:") {
			of[i].kind = "Kustomization"
		}
		if one.then != nil || one.version != "" {
			of[i].says("Ready", "True", "")
			if strings.Contains(one.id, "force") {
				of[i].edit(of[i].own("ConfigMap", one.id+"-values"), `{"metadata":{"annotations":{"note":"x"}}}`)
				for _, pod := range c.listObjects("v1", "Pod", one.id) {
					of[i].pod = pod.GetName()
				}
			}
		}
		_, entry := one.component(true)
		entries = append(entries, entry)
		values := object{}
		maps.Copy(values, one.values)
		maps.Copy(values, one.then)
		if len(values) > 0 {
			patches[one.id] = values
		}
	}
	c.api("PATCH", "/clusters/"+c.id, object{"platform_components": entries, "patches": patches})

	for _, row := range rows {
		kind, path, _ := strings.Cut(row, " ")
		release, err := (&settingCluster{cluster: c, id: "fx-all-" + kind, kind: map[string]string{"helm": "HelmRelease", "kustomize": "Kustomization"}[kind]}).release(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := settingValues[path]
		if strings.HasPrefix(path, "install.remediation.re") { // the template disables it, because there is a storageNamespace
			want = map[string]string{"install.remediation.retries": `0`, "install.remediation.remediateLastFailure": `false`}[path]
		}
		if got, _, err := unstructured.NestedFieldNoCopy(release.Object, append([]string{"spec"}, strings.Split(path, ".")...)...); err != nil || canonical(got) != want {
			t.Errorf("%s is %s, not %s", row, canonical(got), want)
		}
	}
	for i, one := range cases {
		if one.effect != nil {
			one.effect(of[i])
		}
	}
	c.cli("cluster", "delete", c.id, "--yes") // the controllers would try those that fail again
}

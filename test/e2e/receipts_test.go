package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// receipt is that of an input as the API answers it now.
func (c *cluster) receipt(list, id string) rig.Receipt {
	c.Helper()
	inputs, _ := c.api("GET", "/api/v2/flux/clusters/"+c.dns+"/"+list, nil)["inputs"].([]any)
	for _, input := range inputs {
		if input, ok := input.(object); ok && input["id"] == id {
			digest, _ := input["receipt"].(string)
			if digest == "" {
				c.Fatalf("input %s of %s has no receipt", id, list)
			}
			return rig.Receipt{List: list, ID: id, Input: digest}
		}
	}
	c.Fatalf("there is no input %s of %s", id, list)
	return rig.Receipt{}
}

// confirmed waits until the cluster has confirmed the input as it is now.
func (c *cluster) confirmed(list, id string) {
	c.Helper()
	want := c.receipt(list, id)
	c.eventually(fmt.Sprintf("receipt of %s/%s", list, id), func(context.Context) error {
		if !c.gate.HasReceipt(want) {
			return errors.New("it has not come")
		}
		return nil
	})
}

// refused waits until an object reports its failure, and returns the receipt that must never be sent.
func (c *cluster) refused(apiVersion, kind, id, why string) rig.Receipt {
	c.Helper()
	unwanted := c.receipt("platform-components", id)
	c.eventually(kind+" of "+id+" fails", func(ctx context.Context) error {
		found, err := c.get(ctx, apiVersion, kind, c.ns, "platform-"+id)
		if err != nil {
			return err
		}
		if input := found.GetAnnotations()["event.toolkit.fluxcd.io/input"]; input != unwanted.Input {
			return fmt.Errorf("it is of input %s", input)
		}
		// The generation of a failure is not always reported.
		if status, message := rig.Condition(found, "Ready"); status != "False" || !strings.Contains(message, why) {
			return fmt.Errorf("Ready is %q: %s", status, message)
		}
		return nil
	})
	return unwanted
}

// sendEvents makes the cluster send its events to the API.
func (c *cluster) sendEvents() {
	c.w.SendEvents(c.ns, c.gate.URL+"/api/v2/flux/clusters/"+c.dns+"/events")
}

// known is the output of `cluster status`.
type known struct {
	State  string
	Counts map[string]int
	Inputs []struct {
		List, ID, State, Receipt string
		ConfirmedBy              string `json:"confirmed_by"`
		Failure                  struct{ Message string }
	}
}

func (c *cluster) known(ctx context.Context) (k known, err error) {
	out, err := c.w.CLI(ctx, "cluster", "status", c.id, "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &k)
	}
	return k, err
}

// failed waits until `cluster status` reports that a component failed to apply its desired state, with a message of the cluster.
func (c *cluster) failed(id, words string) {
	c.Helper()
	c.eventually("the status says that "+id+" failed", func(ctx context.Context) error {
		status, err := c.known(ctx)
		if err != nil {
			return err
		}
		for _, in := range status.Inputs {
			if in.List == "platform-components" && in.ID == id {
				if in.State != "failed" || !strings.Contains(in.Failure.Message, words) {
					return fmt.Errorf("it is %s: %s", in.State, in.Failure.Message)
				}
				return nil
			}
		}
		return errors.New("there is no such input")
	})
}

// allConfirmed waits until all inputs, and exactly this number, are confirmed, in any process of the API.
func (c *cluster) allConfirmed(inputs int) {
	c.Helper()
	c.eventually("the API says that all is confirmed", func(ctx context.Context) error {
		status, err := c.known(ctx)
		if err == nil && (status.State != "confirmed" || status.Counts["confirmed"] != inputs) {
			err = fmt.Errorf("the cluster is %s, its inputs are %v, not %d confirmed", status.State, status.Counts, inputs)
		}
		return err
	})
}

// TestReceipts: the cluster reports each applied input of each kind. A failed input is not reported until it is fixed.
func TestReceipts(t *testing.T) {
	t.Parallel()
	define(t, "namespaces", object{"id": "rc-space"})
	define(t, "rolebindings", object{"id": "rc:binding", "role": "view", "subjects": []object{{"kind": "Group", "name": "rc"}}})
	define(t, "platform_components",
		object{"id": "rc-http", "component_path": "web", "oci_url": "https://charts.example.com", "component_version": "1.0.0"},
		object{"id": "rc-oci", "component_path": "web", "oci_url": "oci://registry.example.com/charts", "type": "helm", "oci_tag": "1.0.0"},
		object{"id": "rc-range", "component_path": "web", "oci_url": "oci://registry.example.com/charts", "type": "helm", "oci_tag": "~1"},
		object{"id": "rc-tree", "component_path": "apps/rc-tree", "oci_url": "oci://registry.example.com/trees/rc-tree", "oci_tag": "v1"},
	)
	c := setup(t, "rc", object{
		"namespaces": []object{{"id": "rc-space"}}, "rolebindings": []object{{"id": "rc:binding"}},
		"platform_components": []object{
			{"id": "rc-http", "enabled": true}, {"id": "rc-oci", "enabled": true}, {"id": "rc-range", "enabled": true}, {"id": "rc-tree", "enabled": true},
		},
	})
	c.sendEvents()
	c.confirmed("namespaces", "rc-space")
	c.confirmed("rolebindings", "rc:binding")
	components := []string{"rc-http", "rc-oci", "rc-range", "rc-tree"}
	for _, id := range components {
		c.confirmed("platform-components", id)
	}

	// Each is reported again when it changes: a label, a role, values, versions, tags.
	c.cli("namespace", "set", "rc-space", "--label", "team=rc")
	c.cli("rolebinding", "set", "rc:binding", "--role", "edit", "--yes")
	c.cli("component", "set", "rc-http", "--cluster", c.id, "--set", "replicaCount=2")
	c.cli("component", "set", "rc-oci", "--cluster", c.id, "--oci-tag", "1.1.0")
	c.cli("component", "set", "rc-range", "--cluster", c.id, "--oci-tag", "~2")
	c.cli("component", "set", "rc-tree", "--cluster", c.id, "--oci-tag", "v2")
	c.confirmed("namespaces", "rc-space")
	c.confirmed("rolebindings", "rc:binding")
	for _, id := range components {
		c.confirmed("platform-components", id)
	}
	c.field(c.exists("apps/v1", "Deployment", "rc-http", "rc-http"), int64(2), "spec", "replicas")

	// Values that the cluster refuses, a version and a tag that are not there, a hook that fails.
	c.cli("component", "set", "rc-http", "--cluster", c.id, "--set", "replicaCount=many")
	c.cli("component", "set", "rc-oci", "--cluster", c.id, "--set", "hookFails=true")
	c.cli("component", "set", "rc-tree", "--cluster", c.id, "--component-path", "apps/nowhere")
	var unwanted []rig.Receipt
	unwanted = append(unwanted,
		c.refused(helmAPI, "HelmRelease", "rc-http", ""), c.refused(helmAPI, "HelmRelease", "rc-oci", ""), c.refused(kustomizeAPI, "Kustomization", "rc-tree", "nowhere"))
	c.failed("rc-http", "Helm upgrade failed for release rc-http/rc-http with chart web@1.0.0")
	c.failed("rc-oci", "not a name")
	c.failed("rc-tree", "nowhere")
	c.cli("component", "set", "rc-http", "--cluster", c.id, "--component-version", "9.0.0")
	c.cli("component", "set", "rc-range", "--cluster", c.id, "--oci-tag", "9.0.0")
	c.cli("component", "set", "rc-tree", "--cluster", c.id, "--component-path", "", "--oci-tag", "9.0")
	unwanted = append(unwanted, c.refused(helmAPI, "HelmRelease", "rc-http", "does not have an artifact"))
	for id, kind := range map[string]string{"rc-range": "HelmRelease", "rc-tree": "Kustomization"} {
		unwanted = append(unwanted, c.receipt("platform-components", id))
		// The source reports the error; the release or Kustomization keeps its last state.
		c.eventually("the source of "+id+" fails", func(ctx context.Context) error {
			source, err := c.get(ctx, "source.toolkit.fluxcd.io/v1", "OCIRepository", c.ns, "charts-"+id)
			if err != nil {
				return err
			}
			if input := source.GetAnnotations()["event.toolkit.fluxcd.io/input"]; input != unwanted[len(unwanted)-1].Input {
				return fmt.Errorf("%s: the source is of input %s", kind, input)
			}
			return rig.HasCondition(source, "Ready", "False")
		})
	}

	c.failed("rc-http", `no version matches "9.0.0"`)
	c.failed("rc-range", "of version 9.0.0")
	c.failed("rc-tree", "no tag 9.0")

	// Mended.
	c.cli("component", "set", "rc-http", "--cluster", c.id, "--set", "replicaCount=1")
	c.cli("component", "set", "rc-http", "--cluster", c.id, "--component-version", "1.1.0")
	c.cli("component", "set", "rc-oci", "--cluster", c.id, "--set", "hookFails=false")
	c.cli("component", "set", "rc-range", "--cluster", c.id, "--oci-tag", "2.0.0")
	c.cli("component", "set", "rc-tree", "--cluster", c.id, "--oci-tag", "v3")
	for _, id := range components {
		c.confirmed("platform-components", id)
	}
	for _, r := range unwanted {
		if c.gate.HasReceipt(r) {
			t.Errorf("the cluster confirmed what failed: %v", r)
		}
	}

	// A process that did not receive the receipt reports it too.
	c.allConfirmed(len(components) + 2)

	// A removed input has no receipt.
	names := c.inventory("platform-components")
	c.cli("component", "unassign", "rc-range", "--cluster", c.id, "--yes")
	c.gone(helmAPI, "HelmRelease", c.ns, "platform-rc-range")
	c.settled()
	c.eventually("the inventory lost the source, the release and the receipt", func(context.Context) error {
		if left := c.inventory("platform-components"); len(left) != len(names)-3 {
			return fmt.Errorf("of %v there is still %v", names, left)
		}
		return nil
	})
}

// TestTemplateUpgrade: the step from templates without receipts to the current ones, and back, changes no running object.
func TestTemplateUpgrade(t *testing.T) {
	t.Parallel()
	define(t, "namespaces", object{"id": "up-space"}, object{"id": "up-kept", "deletion_policy": "orphan", "labels": object{"a": "b"}},
		object{"id": "default", "deletion_policy": "orphan", "labels": object{"up": "kept"}})
	define(t, "rolebindings", object{"id": "up-binding", "role": "view", "subjects": []object{{"kind": "Group", "name": "up"}}})
	define(t, "platform_components",
		object{"id": "up-http", "component_path": "web", "oci_url": "https://charts.example.com", "component_version": "1.0.0", "values_from": []object{{"kind": "ConfigMap", "name": "up-defaults"}}},
		object{"id": "up-oci", "component_path": "web", "oci_url": "oci://registry.example.com/charts", "type": "helm", "oci_tag": "1.1.0"},
		object{"id": "up-plain", "component_path": "web", "oci_url": "https://charts.example.com"},
		object{"id": "up-tree", "component_path": "apps/up-tree", "oci_url": "oci://registry.example.com/trees/up-tree", "oci_tag": "v1"},
	)
	c := prepare(t, "up", object{
		"namespaces": []object{{"id": "up-space"}, {"id": "up-kept"}, {"id": "default"}}, "rolebindings": []object{{"id": "up-binding"}},
		"platform_components": []object{
			{"id": "up-http", "enabled": true}, {"id": "up-oci", "enabled": true}, {"id": "up-plain", "enabled": true}, {"id": "up-tree", "enabled": true},
		},
		"patches": object{
			// Values that the two ways to Helm might treat differently: types, sizes, null, escaped text.
			"up-http": object{
				"replicaCount": "2", "level": "patch", "large": 1048576.0, "half": 0.5, "no": false, "list[2]": "gap",
				"list[0].name": "x", "deep": object{"a.b": []any{1.0, nil, object{"c": "d"}}}, "escaped": "a <&>\u2028b", "empty": object{}, "text": "line\nline\n",
			},
			"up-oci": object{"replicaCount": 3.0}, "up-tree": object{"color": "blue"},
		},
	})
	old := c.manifestsBefore()
	if err := c.w.Install(t.Context(), c.ns, old); err != nil {
		t.Fatal(err)
	}
	c.put("ConfigMap", "up-defaults", object{"data": object{"values.yaml": "level: defaults\nother: defaults\n"}})
	c.settled()
	releases := []string{"up-http", "up-oci", "up-plain"}
	for _, name := range releases {
		c.ready(helmAPI, "HelmRelease", c.ns, "platform-"+name)
	}
	c.ready(kustomizeAPI, "Kustomization", c.ns, "platform-up-tree")
	values := c.exists("v1", "ConfigMap", "up-http", "up-http-values")
	before := c.running(releases)

	// The compared content includes the text that the chart received.
	c.join(rig.Cluster{})
	c.settled()
	for _, name := range append([]string{"up-tree"}, releases...) {
		c.confirmed("platform-components", name)
	}
	c.confirmed("namespaces", "up-kept")
	// Another set owns this one now; it was not removed.
	c.confirmed("namespaces", "default")
	c.ready(fluxAPI, "ResourceSet", c.ns, "adopt-default")
	c.same("after the upgrade", before, c.running(releases))
	release := c.ready(helmAPI, "HelmRelease", c.ns, "platform-up-http")
	if inline, _, _ := unstructured.NestedMap(release.Object, "spec", "values"); len(inline) == 0 {
		t.Error("the release has no values in itself")
	}

	// Back, as when the chart is rolled back.
	if err := c.w.Install(t.Context(), c.ns, old); err != nil {
		t.Fatal(err)
	}
	c.eventually("the release has its values from outside again", func(ctx context.Context) error {
		release, err := c.get(ctx, helmAPI, "HelmRelease", c.ns, "platform-up-http")
		if err != nil {
			return err
		}
		if _, found, _ := unstructured.NestedMap(release.Object, "spec", "values"); found {
			return errors.New("it still has its own")
		}
		return rig.HasCondition(release, "Ready", "True")
	})
	c.settled()
	c.same("after the way back", before, c.running(releases))

	// And a changed value is still one upgrade.
	c.join(rig.Cluster{})
	c.cli("component", "set", "up-http", "--cluster", c.id, "--set", "level=next")
	c.eventually("the next value arrives", func(ctx context.Context) error {
		now, err := c.get(ctx, "v1", "ConfigMap", "up-http", "up-http-values")
		if err == nil && now.GetResourceVersion() == values.GetResourceVersion() {
			return errors.New("the values are as they were")
		}
		return err
	})
}

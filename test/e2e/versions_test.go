package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// The namespaces of clusters with the real source-controller, which pulls charts from a registry.
const (
	versionsCanary = "flux-versions-canary"
	versionsProd   = "flux-versions-prod"
)

func startRegistry(t *testing.T) *rig.Registry {
	t.Helper()
	registry, err := rig.StartRegistry(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

// digest returns the digest of what was pushed.
func digest(t *testing.T) func(digest string, err error) string {
	return func(digest string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
}

// joinVersions creates a cluster with the component, which pulls from a registry without TLS.
func joinVersions(t *testing.T, name, component string) staged {
	t.Helper()
	c := prepare(t, "versions-"+name, object{
		"labels":              object{"versions": name},
		"platform_components": []object{{"id": component, "enabled": true}},
		"patches":             object{component: object{"suffix": name}},
	})
	c.sendEvents()
	c.join(rig.Cluster{})
	c.patch(fluxAPI, "ResourceSetInputProvider", "platform-components", object{"spec": object{"defaultValues": object{"settings": object{"ociInsecure": true}}}})
	return staged{c, component, name}
}

// runsImage waits until the Deployment of the cluster is of a version of the chart and has an image.
func (s staged) runsImage(version, image string) {
	s.Helper()
	s.eventually(s.id+" runs "+version+" with "+image, func(ctx context.Context) error {
		deployment, err := s.get(ctx, "apps/v1", "Deployment", s.component, "podinfo-"+s.name)
		if err != nil {
			return err
		}
		containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
		if got := containers[0].(object)["image"]; deployment.GetLabels()["version"] != version || got != image {
			return fmt.Errorf("it is of version %s with image %v", deployment.GetLabels()["version"], got)
		}
		return rig.HasCondition(deployment, "Available", "True")
	})
}

// TestVersionsFromARegistry: a pushed chart version and a moved digest of an image become proposals. Approved, they reach the canary,
// and after the approval of a second person the other cluster, whose Deployment runs the new digest. An aborted version goes back, and
// is not proposed again until it is released.
func TestVersionsFromARegistry(t *testing.T) {
	t.Parallel()
	const component, rollout, image = "versions-podinfo", "auto-versions-podinfo", "ghcr.io/stefanprodan/podinfo"
	registry, is := startRegistry(t), digest(t)
	chart := func(version string) string { return is(registry.PushChart(t.Context(), "charts/podinfo", version)) }
	latest := func(content string) string {
		return is(registry.PushImage(t.Context(), "stefanprodan/podinfo", "latest", content))
	}
	chart("6.0.0")
	first := latest("first")
	define(t, "strategies", object{
		"id": "versions", "gate": object{"soak": "0s"},
		"stages": []object{{"name": "canary", "selector": "versions=canary"}, {"name": "prod", "selector": "versions=prod", "approval": true}},
	})
	define(t, "platform_components", object{
		"id": component, "type": "helm", "component_path": "podinfo", "component_version": "6.0.0", "oci_url": "oci://" + registry.Host + "/charts",
		"images":           []object{{"name": image, "new_tag": "latest", "digest": first}},
		"version_policies": object{"catalog": object{"range": ">=6.0.0", "action": "propose", "strategy": "versions"}},
		"image_policies": []object{{
			"name": "podinfo", "image": registry.Host + "/stefanprodan/podinfo", "track": object{"tag": "latest"}, "images": object{"name": image},
		}},
	})
	canary, prod := joinVersions(t, "canary", component), joinVersions(t, "prod", component)
	named := func(digest string) string { return registry.Host + "/stefanprodan/podinfo:latest@" + digest }
	runs := func(version, image string, clusters ...staged) {
		t.Helper()
		for _, s := range clusters {
			s.runsImage(version, image)
			s.confirmed("platform-components", component)
		}
	}
	runs("6.0.0", image+":latest@"+first, canary, prod)

	proposed := func() {
		t.Helper()
		canary.rolloutIs(rollout, "proposed", 0, "start")
	}
	second := canary.w.API
	second.Token = canary.api("POST", "/tokens", object{"name": "versions-second", "role": "write"})["token"].(string)
	approve := func() {
		t.Helper()
		canary.rolloutIs(rollout, "running", 1, "approval")
		if err := second.Do(t.Context(), "POST", "/rollouts/"+rollout+"/approve?stage=prod", nil, nil); err != nil {
			t.Fatal(err)
		}
	}

	// A chart version.
	pushed := chart("6.1.0")
	before := prod.revisions(prod.exists(helmAPI, "HelmRelease", prod.ns, "platform-"+component))
	canary.cli("component", "push-version", component, "6.1.0", "--digest", pushed)
	proposed()
	runs("6.0.0", image+":latest@"+first, canary, prod)
	canary.cli("rollout", "start", rollout)
	runs("6.1.0", image+":latest@"+first, canary)
	prod.unchanged("before the approval", before, prod.exists(helmAPI, "HelmRelease", prod.ns, "platform-"+component))
	approve()
	runs("6.1.0", image+":latest@"+first, prod)
	canary.rolloutIs(rollout, "completed", 3, "")
	source := prod.ready("source.toolkit.fluxcd.io/v1", "OCIRepository", prod.ns, "charts-"+component)
	if ref, _, _ := unstructured.NestedString(source.Object, "spec", "ref", "digest"); ref != pushed {
		t.Errorf("the source has the digest %q, not that of the push, %s", ref, pushed)
	}

	// The digest behind the tag of an image.
	moved := latest("second")
	if moved == first {
		t.Fatal("the image has not changed")
	}
	canary.cli("component", "push-version", component, "latest", "--image", "podinfo", "--digest", moved)
	proposed()
	canary.cli("rollout", "start", rollout)
	runs("6.1.0", named(moved), canary)
	prod.runsImage("6.1.0", image+":latest@"+first)
	approve()
	runs("6.1.0", named(moved), prod)
	canary.rolloutIs(rollout, "completed", 3, "")

	// A version that is aborted.
	canary.cli("component", "push-version", component, "6.2.0", "--digest", chart("6.2.0"))
	proposed()
	canary.cli("rollout", "start", rollout)
	runs("6.2.0", named(moved), canary)
	canary.cli("rollout", "abort", rollout, "--yes")
	runs("6.1.0", named(moved), canary, prod)
	held := func() bool {
		return strings.Contains(canary.cli("component", "versions", component, "-o", "json"), `"holds": [`)
	}
	canary.cli("component", "push-version", component, "6.2.0")
	newer := chart("6.2.1")
	canary.cli("component", "push-version", component, "6.2.1", "--digest", newer)
	proposed() // the newer version only
	if !held() || !strings.Contains(canary.cli("rollout", "get", rollout, "-o", "json"), "6.2.1") {
		t.Errorf("the rollout after the abort is\n%s", canary.cli("rollout", "get", rollout, "-o", "json"))
	}
	canary.cli("component", "hold", component, "6.2.1", "--reason", "it breaks sign-in")
	canary.eventually("the rollout of a held version is withdrawn or changes nothing", func(ctx context.Context) error {
		var report struct {
			Sources []struct {
				Candidate *struct{ Version string }
			}
		}
		if err := canary.w.API.Do(ctx, "GET", "/platform_components/"+component+"/versions", nil, &report); err != nil {
			return err
		}
		for _, source := range report.Sources {
			if source.Candidate != nil {
				return fmt.Errorf("%s is a candidate", source.Candidate.Version)
			}
		}
		return nil
	})
	runs("6.1.0", named(moved), canary, prod)
}

// guideNamespace takes the place of namespace apps of the guide.
const guideNamespace = "guide-apps"

// TestImageAutomationGuide: the three policies of Flux Operator's guide "Using ResourceSets for Image Update Automation", as it types
// them, decide on the real operator as those of a component do here.
func TestImageAutomationGuide(t *testing.T) {
	t.Parallel()
	registry, is := startRegistry(t), digest(t)
	digests := map[string]string{}
	for _, version := range []string{"5.2.1", "6.9.0", "6.10.0", "6.11.0-rc.1"} {
		digests["chart "+version] = is(registry.PushChart(t.Context(), "stefanprodan/charts/podinfo", version))
	}
	for _, tag := range []string{"latest", "6.9.0", "6.10.0"} {
		digests["podinfo "+tag] = is(registry.PushImage(t.Context(), "stefanprodan/podinfo", tag, tag))
	}
	for _, tag := range []string{"7.2.4", "7.2.4-alpine", "7.10.0-alpine", "7.10.1", "7.10.1-bookworm", "alpine", "latest"} {
		digests["redis "+tag] = is(registry.PushImage(t.Context(), "redis", tag, tag))
	}

	// The fleet: one component, whose policies apply what CI announces.
	const component = "guide-podinfo"
	define(t, "platform_components", object{
		"id": component, "type": "helm", "component_path": "podinfo", "component_version": "6.0.0",
		"oci_url":          "oci://" + registry.Host + "/stefanprodan/charts",
		"patches":          object{"redis.enabled": true},
		"version_policies": object{"catalog": object{"range": ">=6.0.0", "action": "apply"}},
		"image_policies": []object{
			{"name": "podinfo-image", "image": registry.Host + "/stefanprodan/podinfo", "track": object{"tag": "latest"}, "writes": object{"image.tag": "{tag}@{digest}"}},
			{"name": "redis-image", "image": registry.Host + "/redis", "track": object{"range": ">0.0.0-0", "include": ".*-alpine$"}, "writes": object{"redis.tag": "{tag}@{digest}"}},
		},
	})
	c := prepare(t, "guide", object{"platform_components": []object{{"id": component, "enabled": true}}})
	for pushed, digest := range digests {
		of, tag, _ := strings.Cut(pushed, " ")
		args := []string{"component", "push-version", component, tag, "--digest", digest}
		if of != "chart" {
			args = append(args, "--image", of+"-image")
		}
		c.cli(args...)
	}

	// The guide.
	text, err := os.ReadFile("testdata/image-automation-guide.yaml")
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: guideNamespace}}
	if err := c.w.Kube.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	typed := strings.NewReplacer("ghcr.io/", registry.Host+"/", "docker.io/", registry.Host+"/", "namespace: apps", "namespace: "+guideNamespace).Replace(string(text))
	for document := range strings.SplitSeq(typed, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		if o.GetKind() == "ResourceSetInputProvider" { // the registry of the test has no TLS
			if err := unstructured.SetNestedField(o.Object, true, "spec", "insecure"); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.w.Kube.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.IgnoreNotFound(c.w.Kube.Delete(context.WithoutCancel(t.Context()), o)) })
	}

	of := func(o *unstructured.Unstructured, fields ...string) string {
		text, _, _ := unstructured.NestedString(o.Object, append([]string{"spec"}, fields...)...)
		return text
	}
	release := c.exists(helmAPI, "HelmRelease", guideNamespace, "podinfo")
	source := c.exists("source.toolkit.fluxcd.io/v1", "OCIRepository", guideNamespace, "podinfo")
	guide := []string{of(source, "ref", "tag"), of(release, "values", "image", "tag"), of(release, "values", "redis", "tag")}
	var fleet []string
	c.eventually("the policies have moved all three", func(ctx context.Context) error {
		var answer struct {
			Inputs []struct {
				Version string `json:"component_version"`
				Values  struct{ Image, Redis struct{ Tag string } }
			}
		}
		if err := c.w.API.Do(ctx, "GET", "/api/v2/flux/clusters/"+c.dns+"/platform-components", nil, &answer); err != nil {
			return err
		}
		in := answer.Inputs[0]
		if fleet = []string{in.Version, in.Values.Image.Tag, in.Values.Redis.Tag}; canonical(fleet) != canonical(guide) {
			return errors.New("the fleet has " + canonical(fleet) + ", the guide " + canonical(guide))
		}
		return nil
	})
	want := []string{"6.10.0", "latest@" + digests["podinfo latest"], "7.10.0-alpine@" + digests["redis 7.10.0-alpine"]}
	for i, what := range []string{"chart", "image.tag", "redis.tag"} {
		t.Logf("%-9s  guide %s  fleet %s", what, guide[i], fleet[i])
	}
	if canonical(guide) != canonical(want) {
		t.Errorf("both have %v, not %v", guide, want)
	}
}

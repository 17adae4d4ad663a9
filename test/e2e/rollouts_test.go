package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// defineStaged defines a component of version 1.0.0 that a rollout changes.
func defineStaged(t *testing.T, component string) {
	t.Helper()
	define(t, "platform_components", object{"id": component, "component_path": "web", "oci_url": "https://charts.example.com", "component_version": "1.0.0"})
}

// staged is a cluster with one component. All of these clusters have the same release, so the names of its objects end in the
// cluster's.
type staged struct {
	*cluster
	component, name string
}

// joinStaged creates a cluster with the stage as its label, and lets it join.
func joinStaged(t *testing.T, component, name, stage string) staged {
	t.Helper()
	return joinStagedAs(t, component, name, stage, rig.Cluster{})
}

// joinStagedAs says how the cluster joins.
func joinStagedAs(t *testing.T, component, name, stage string, how rig.Cluster) staged {
	t.Helper()
	c := prepare(t, component+"-"+name, object{
		"labels":              object{component: stage},
		"platform_components": []object{{"id": component, "enabled": true}},
		"patches":             object{component: object{"suffix": name}},
	})
	c.join(how)
	c.sendEvents()
	return staged{c, component, name}
}

// runs waits until the cluster has installed a version of the component, and nothing is left to do there.
func (s staged) runs(version string) {
	s.Helper()
	s.eventually(s.component+" "+version, func(ctx context.Context) error {
		release, err := s.get(ctx, helmAPI, "HelmRelease", s.ns, "platform-"+s.component)
		if err != nil {
			return err
		}
		if err := rig.HasCondition(release, "Ready", "True"); err != nil {
			return err
		}
		if installed := s.installed(release); len(installed) == 0 || installed[0] != version {
			return fmt.Errorf("it has installed %q", installed)
		}
		deployment, err := s.get(ctx, "apps/v1", "Deployment", s.component, s.component+"-"+s.name)
		if err != nil {
			return err
		}
		if got := deployment.GetLabels()["version"]; got != version {
			return fmt.Errorf("the Deployment is of version %s", got)
		}
		return rig.HasCondition(deployment, "Available", "True")
	})
	s.settled()
}

// installed returns the versions in the history of a release, the newest first.
func (s staged) installed(release *unstructured.Unstructured) []string {
	var versions []string
	history, _, _ := unstructured.NestedSlice(release.Object, "status", "history")
	for _, entry := range history {
		if entry, ok := entry.(object); ok {
			versions = append(versions, fmt.Sprint(entry["chartVersion"]))
		}
	}
	return versions
}

// objects returns the objects of the component, and the ResourceSets of the cluster, each of which every apply writes to.
func (s staged) objects() []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	add := func(apiVersion, kind, namespace, name string) {
		o := rig.Object(apiVersion, kind)
		o.SetNamespace(namespace)
		o.SetName(name)
		objects = append(objects, o)
	}
	name := s.component + "-" + s.name
	add(helmAPI, "HelmRelease", s.ns, "platform-"+s.component)
	add("source.toolkit.fluxcd.io/v1", "HelmRepository", s.ns, "charts-"+s.component)
	add("source.toolkit.fluxcd.io/v1", "HelmChart", s.ns, s.ns+"-platform-"+s.component)
	add("apps/v1", "Deployment", s.component, name)
	add("v1", "ConfigMap", s.component, name+"-values")
	for _, list := range s.lists() {
		add(fluxAPI, "ResourceSet", s.ns, list)
	}
	return objects
}

// watch returns a check that no object of clusters was written since.
func watch(clusters ...staged) (unchanged func(when string)) {
	before := map[string]map[string]string{}
	for _, s := range clusters {
		before[s.id] = s.revisions(s.objects()...)
	}
	return func(when string) {
		for _, s := range clusters {
			s.Helper()
			s.unchanged(when+": "+s.id, before[s.id], s.objects()...)
		}
	}
}

// rolloutStatus is the answer of GET /rollouts/{id}.
type rolloutStatus struct {
	State         string
	Started       int
	PausedBecause string                         `json:"paused_because"`
	Waiting       struct{ Reason, Stage string } // empty: it does not wait
	Stages        []struct {
		Name     string
		Progress struct {
			Affected, Confirmed int
			ClusterIDs          map[string][]string `json:"cluster_ids"`
		}
	}
}

// createRollout creates an automatic rollout of a version of the component, whose gates have no soak.
func (s staged) createRollout(id, version string, settings object) {
	s.Helper()
	body := object{
		"id": id, "advance": "automatic", "gate": object{"soak": "0s"},
		"operations": []object{{"op": "patch", "kind": "platform_component", "id": s.component, "patch": object{"component_version": version}}},
	}
	maps.Copy(body, settings)
	s.api("POST", "/rollouts", body)
}

// stage is a stage of all clusters with the label of joinStaged.
func (s staged) stage(name string) object {
	return object{"name": name, "selector": s.component + "=" + name}
}

// rollout reads the status of a rollout.
func (s staged) rollout(ctx context.Context, id string) (r rolloutStatus, err error) {
	err = s.w.API.Do(ctx, "GET", "/rollouts/"+id, nil, &r)
	return r, err
}

// rolloutIs waits until a rollout has a state, a number of started stages, and a reason to wait; empty: any.
func (s staged) rolloutIs(id, state string, started int, reason string) rolloutStatus {
	s.Helper()
	var r rolloutStatus
	s.eventually("rollout "+id, func(ctx context.Context) (err error) {
		if r, err = s.rollout(ctx, id); err != nil {
			return err
		}
		if r.State != state || r.Started != started || reason != "" && r.Waiting.Reason != reason {
			return fmt.Errorf("it is %+v, not %s with %d started stages, waiting for %q", r, state, started, reason)
		}
		return nil
	})
	return r
}

// evaluated waits until the runner has found that the rollout waits for a reason. It fails if another number of stages has started.
func (s staged) evaluated(id string, started int, reason string) {
	s.Helper()
	s.eventually("the runner evaluates "+id, func(ctx context.Context) error {
		s.stagesStarted(id, started, "the wait for "+reason)
		text, err := s.w.Metrics(ctx, s.w.URL)
		if err == nil && !strings.Contains(text, fmt.Sprintf("rollout_waiting_seconds{reason=%q,rollout=%q}", reason, id)) {
			err = errors.New("no metric has the wait for " + reason)
		}
		return err
	})
}

// stagesStarted fails if another number of stages has started.
func (s staged) stagesStarted(id string, want int, when string) {
	s.Helper()
	r, err := s.rollout(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	if r.State != "running" || r.Started != want {
		s.Fatalf("%s: the rollout is %+v, not running with %d started stages", when, r, want)
	}
}

// TestRolloutByReceipts: each stage starts after the receipts of the one before, and no object of later stages changes. A second
// person approves one of them. A hotfix wins before, during and after the rollout. A cluster that joins is served the change if its stage has started. The
// completion changes no object.
func TestRolloutByReceipts(t *testing.T) {
	t.Parallel()
	const id = "ro-web-2"
	defineStaged(t, "ro-web")
	canary, dev := joinStaged(t, "ro-web", "canary", "canary"), joinStaged(t, "ro-web", "dev", "dev")
	hotfix, prod := joinStaged(t, "ro-web", "hotfix", "dev"), joinStaged(t, "ro-web", "prod", "prod")
	for _, s := range []staged{canary, dev, hotfix, prod} {
		s.runs("1.0.0")
		s.confirmed("platform-components", "ro-web")
	}
	hotfix.cli("component", "set", "ro-web", "--cluster", hotfix.id, "--component-version", "1.1.0")
	hotfix.runs("1.1.0")
	hotfix.confirmed("platform-components", "ro-web")

	all := watch(canary, dev, hotfix, prod)
	prodStage := canary.stage("prod")
	prodStage["approval"] = true
	canary.createRollout(id, "2.0.0", object{"stages": []object{canary.stage("canary"), canary.stage("dev"), prodStage}})
	canary.rolloutIs(id, "proposed", 0, "start")
	all("after the creation")

	// The change is ready at the canary, but no receipt has arrived.
	later := watch(dev, hotfix, prod)
	canary.gate.RefuseReceipts(true)
	canary.cli("rollout", "start", id, "--stage", "canary")
	canary.runs("2.0.0")
	canary.evaluated(id, 1, "confirmations")
	canary.stagesStarted(id, 1, "before the receipt of the canary")
	later("before the receipt of the canary")

	dev.gate.RefuseReceipts(true)
	later = watch(canary, hotfix, prod)
	canary.gate.RefuseReceipts(false)
	dev.runs("2.0.0")
	canary.confirmed("platform-components", "ro-web")
	r := dev.rolloutIs(id, "running", 2, "confirmations")
	if p := r.Stages[1].Progress; p.Affected != 1 || p.Confirmed != 0 {
		t.Errorf("stage dev has %+v, not one affected cluster, without the one of the hotfix", p)
	}
	later("before the receipt of dev")

	later = watch(canary, dev, hotfix, prod)
	dev.gate.RefuseReceipts(false)
	prod.rolloutIs(id, "running", 2, "approval")
	prod.evaluated(id, 2, "approval")
	later("before the approval")

	joinedDev, joinedProd := joinStaged(t, "ro-web", "joined-dev", "dev"), joinStaged(t, "ro-web", "joined-prod", "prod")
	joinedDev.runs("2.0.0")
	joinedProd.runs("1.0.0")
	if versions := joinedDev.installed(joinedDev.exists(helmAPI, "HelmRelease", joinedDev.ns, "platform-ro-web")); len(versions) != 1 {
		t.Errorf("the cluster that joined a started stage has installed %q", versions)
	}
	joinedDev.confirmed("platform-components", "ro-web")
	joinedProd.confirmed("platform-components", "ro-web")
	prod.rolloutIs(id, "running", 2, "approval")
	later("when clusters join")

	// The receipts of prod are held back until the state of all clusters before the completion is known.
	earlier := watch(canary, dev, hotfix, joinedDev)
	prod.gate.RefuseReceipts(true)
	if _, err := prod.w.CLI(t.Context(), "rollout", "approve", id, "--stage", "prod"); err == nil || !strings.Contains(err.Error(), "another person must approve") {
		t.Errorf("the author of the rollout approves a stage: %v", err)
	}
	prod.evaluated(id, 2, "approval")
	later("after the approval of the author")
	second := prod.w.API
	second.Token = prod.api("POST", "/tokens", object{"name": "second-person", "role": "write"})["token"].(string)
	if err := second.Do(t.Context(), "POST", "/rollouts/"+id+"/approve?stage=prod", nil, nil); err != nil {
		t.Fatal(err)
	}
	prod.runs("2.0.0")
	joinedProd.runs("2.0.0")
	joinedProd.confirmed("platform-components", "ro-web")
	earlier("when prod starts")
	prod.stagesStarted(id, 3, "before the receipt of prod")
	clusters := []staged{canary, dev, hotfix, joinedDev, prod, joinedProd}
	all = watch(clusters...)
	served := map[string]any{}
	for _, s := range clusters {
		served[s.id] = s.inputs("platform-components")
	}
	prod.gate.RefuseReceipts(false)
	prod.rolloutIs(id, "completed", 4, "")
	var polls sync.WaitGroup
	for _, s := range clusters {
		polls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := s.gate.Polls(ctx, 2); err != nil {
				t.Error(err)
			}
		})
	}
	polls.Wait()
	for _, s := range clusters {
		s.settled()
		if now := s.inputs("platform-components"); canonical(now) != canonical(served[s.id]) {
			t.Errorf("the completion changed the inputs of %s from %v to %v", s.id, served[s.id], now)
		}
	}
	all("after the completion")
	hotfix.runs("1.1.0")
	if definition := prod.api("GET", "/platform_components/ro-web", nil); definition["component_version"] != "2.0.0" {
		t.Errorf("the catalog has version %v", definition["component_version"])
	}
}

// TestRolloutIgnoresForgedReports: whoever has a token that reads the whole fleet, or the token of another cluster, polls as the
// canary, confirms what it was served, reports that it failed, and asks for each action. Nothing of it moves the rollout; the
// canary's own receipt does.
func TestRolloutIgnoresForgedReports(t *testing.T) {
	t.Parallel()
	const id = "rx-web-2"
	defineStaged(t, "rx-web")
	canary, prod := joinStagedAs(t, "rx-web", "canary", "canary", rig.Cluster{CreateToken: true}), joinStagedAs(t, "rx-web", "prod", "prod", rig.Cluster{CreateToken: true})
	for _, s := range []staged{canary, prod} {
		s.runs("1.0.0")
		s.confirmed("platform-components", "rx-web")
	}
	canary.gate.RefuseReceipts(true)
	approved := canary.stage("prod")
	approved["approval"] = true
	canary.createRollout(id, "2.0.0", object{"stages": []object{canary.stage("canary"), approved}})
	canary.cli("rollout", "start", id, "--stage", "canary")
	canary.runs("2.0.0")
	later := watch(prod)

	path := "/api/v2/flux/clusters/" + canary.dns
	receipt := canary.receipt("platform-components", "rx-web")
	managed := canary.api("POST", "/tokens", object{"name": "rx-reader", "role": "read"})["token"].(string)
	for name, token := range map[string]string{"the static read token": rig.ReadToken, "a read token": managed, "another cluster's token": prod.token()} {
		as := canary.w.API
		as.Token = token
		ofReader := token != prod.token()
		for _, request := range []struct {
			method, path string
			body         any
			answered     bool
		}{
			{"GET", path + "/platform-components", nil, ofReader},
			{"GET", path + "/receipts/platform-components/rx-web?input=" + receipt.Input, nil, ofReader},
			{"POST", path + "/events", object{
				"involvedObject": object{"kind": "HelmRelease", "namespace": canary.ns, "name": "platform-rx-web", "apiVersion": helmAPI},
				"severity":       "error", "timestamp": time.Now().UTC().Format(time.RFC3339), "reason": "UpgradeFailed", "message": "forged",
				"metadata":            object{"component": "rx-web", "input": receipt.Input, "list": "platform-components"},
				"reportingController": "helm-controller",
			}, ofReader},
			{"POST", "/rollouts/" + id + "/start", nil, false},
			{"POST", "/rollouts/" + id + "/approve?stage=prod", nil, false},
			{"POST", "/rollouts/" + id + "/pause", nil, false},
			{"POST", "/rollouts/" + id + "/back", nil, false},
			{"POST", "/rollouts/" + id + "/abort", nil, false},
			{"DELETE", "/rollouts/" + id, nil, false},
		} {
			err := as.Do(t.Context(), request.method, request.path, request.body, nil)
			refused := err != nil && (strings.Contains(err.Error(), ": 401 ") || strings.Contains(err.Error(), ": 403 "))
			if request.answered && err != nil || !request.answered && !refused {
				t.Errorf("%s: %s %s: %v", name, request.method, request.path, err)
			}
		}
		r := canary.rolloutIs(id, "running", 1, "")
		if p := r.Stages[0].Progress; p.Affected != 1 || p.Confirmed != 0 || len(p.ClusterIDs["failed"]) != 0 {
			t.Errorf("%s: the stage has %+v, not one cluster that has neither confirmed nor failed", name, p)
		}
	}
	canary.evaluated(id, 1, "confirmations")
	later("after forged reports")

	canary.gate.RefuseReceipts(false)
	prod.rolloutIs(id, "running", 1, "approval")
	later("before the approval")
	canary.cli("rollout", "abort", id, "--yes")
	canary.runs("1.0.0")
}

// TestRolloutStopsAtCanary: a version that fails at the canary stops the rollout, and with on_failure back the canary is as
// before. No other cluster was served the change.
func TestRolloutStopsAtCanary(t *testing.T) {
	t.Parallel()
	const id = "rs-web-broken"
	defineStaged(t, "rs-web")
	canary, prod := joinStaged(t, "rs-web", "canary", "canary"), joinStaged(t, "rs-web", "prod", "prod")
	for _, s := range []staged{canary, prod} {
		s.runs("1.0.0")
		s.confirmed("platform-components", "rs-web")
	}
	deployment := canary.exists("apps/v1", "Deployment", "rs-web", "rs-web-canary")
	inputs := canary.inputs("platform-components")
	others := watch(prod)

	canary.createRollout(id, rig.BrokenVersion, object{"on_failure": "back", "stages": []object{canary.stage("canary"), canary.stage("prod")}})
	canary.cli("rollout", "start", id)
	r := canary.rolloutIs(id, "paused", 0, "")
	for _, want := range []string{`stage "canary": 1 cluster failed`, "rs-web-canary: pre-upgrade hooks failed"} {
		if !strings.Contains(r.PausedBecause, want) {
			t.Errorf("the rollout paused because %q, without %q", r.PausedBecause, want)
		}
	}
	if now := canary.inputs("platform-components"); canonical(now) != canonical(inputs) {
		t.Errorf("the canary is served %v, not %v as before", now, inputs)
	}
	canary.runs("1.0.0")
	now := canary.exists("apps/v1", "Deployment", "rs-web", "rs-web-canary")
	if canonical(now.Object["spec"]) != canonical(deployment.Object["spec"]) || canonical(now.GetLabels()) != canonical(deployment.GetLabels()) || now.GetUID() != deployment.GetUID() {
		t.Errorf("the Deployment of the canary was %v, and is %v", deployment, now)
	}
	canary.allConfirmed(1)
	others("after the failure")
	canary.rolloutIs(id, "paused", 0, "")
	canary.cli("rollout", "abort", id)
}

// TestRolloutWaitsForFreeze: a stage with a frozen cluster waits, and other changes of the cluster are refused. The end of the
// freeze lets the rollout continue.
func TestRolloutWaitsForFreeze(t *testing.T) {
	t.Parallel()
	const id = "rf-web-2"
	defineStaged(t, "rf-web")
	dev, prod := joinStaged(t, "rf-web", "dev", "dev"), joinStaged(t, "rf-web", "prod", "prod")
	for _, s := range []staged{dev, prod} {
		s.runs("1.0.0")
		s.confirmed("platform-components", "rf-web")
	}
	others := watch(prod)
	prod.cli("freeze", "create", "rf-web", "--selector", "id="+prod.id, "--reason", "e2e")
	dev.createRollout(id, "2.0.0", object{"stages": []object{dev.stage("dev"), dev.stage("prod")}})
	dev.cli("rollout", "start", id)
	dev.runs("2.0.0")
	prod.rolloutIs(id, "running", 1, "freeze")
	prod.evaluated(id, 1, "freeze")
	for _, change := range []object{
		{"path": "/clusters/" + prod.id, "body": object{"patches": object{"rf-web": object{"replicaCount": 3}}}},
		{"path": "/platform_components/rf-web", "body": object{"patches": object{"replicaCount": 3}}},
	} {
		err := prod.w.API.Do(t.Context(), "PATCH", change["path"].(string), change["body"], nil)
		if err == nil || !strings.Contains(err.Error(), "409") || !strings.Contains(err.Error(), `"frozen"`) {
			t.Errorf("a change of a frozen cluster by %s: %v", change["path"], err)
		}
	}
	prod.stagesStarted(id, 1, "during the freeze")
	others("during the freeze")

	prod.cli("unfreeze", "rf-web", "--yes")
	prod.runs("2.0.0")
	prod.rolloutIs(id, "completed", 3, "")
}

// TestFreezeKeepsCluster: a change of the catalog writes no object of a cluster that a freeze keeps, and its receipt is of the
// input that it keeps. The end of the freeze serves it the change.
func TestFreezeKeepsCluster(t *testing.T) {
	t.Parallel()
	defineStaged(t, "fk-web")
	frozen, other := joinStaged(t, "fk-web", "frozen", "prod"), joinStaged(t, "fk-web", "other", "prod")
	frozen.gate.RefuseReceipts(true)
	frozen.runs("1.0.0")
	other.runs("1.0.0")
	input := frozen.receipt("platform-components", "fk-web")
	kept := watch(frozen)
	frozen.cli("cluster", "pin", frozen.id, "--reason", "e2e")
	other.api("PATCH", "/platform_components/fk-web", object{"component_version": "2.0.0"})
	other.runs("2.0.0")
	other.confirmed("platform-components", "fk-web")
	kept("during the freeze")
	frozen.gate.RefuseReceipts(false)
	frozen.allConfirmed(1)
	if now := frozen.receipt("platform-components", "fk-web"); now != input || !frozen.gate.HasReceipt(input) {
		t.Errorf("the input was %v, and is %v, which the cluster must have confirmed", input, now)
	}
	kept("after its receipt")

	frozen.cli("cluster", "unpin", frozen.id, "--yes")
	frozen.runs("2.0.0")
	frozen.allConfirmed(1)
}

// TestRolloutWaitsForWindow: a stage with half of the clusters serves the change to one, whose receipt does not suffice while no
// window is open. A person starts the stage of the others all the same.
func TestRolloutWaitsForWindow(t *testing.T) {
	t.Parallel()
	const id = "rw-web-2"
	defineStaged(t, "rw-web")
	clusters := []staged{joinStaged(t, "rw-web", "one", "prod"), joinStaged(t, "rw-web", "two", "prod")}
	for _, s := range clusters {
		s.runs("1.0.0")
		s.confirmed("platform-components", "rw-web")
	}
	half, others := clusters[0].stage("prod"), clusters[0].stage("prod")
	half["name"], half["percent"] = "half", 50
	day := strings.ToLower(time.Now().UTC().AddDate(0, 0, 3).Weekday().String()[:3])
	clusters[0].createRollout(id, "2.0.0", object{
		"stages":  []object{half, others},
		"windows": []object{{"days": []string{day}, "from": "08:00", "to": "09:00"}},
	})
	watchOf := map[string]func(string){}
	for _, s := range clusters {
		watchOf[s.id] = watch(s)
	}
	clusters[0].cli("rollout", "start", id)
	r := clusters[0].rolloutIs(id, "running", 1, "window")
	if p := r.Stages[0].Progress; p.Affected != 1 || p.Confirmed != 1 {
		t.Errorf("the stage has %+v, not one confirmed cluster", p)
	}
	clusters[0].evaluated(id, 1, "window")
	first, second := clusters[0], clusters[1]
	if r.Stages[0].Progress.ClusterIDs["confirmed"][0] != first.id {
		first, second = second, first
	}
	first.runs("2.0.0")
	watchOf[second.id]("before the second stage")

	second.cli("rollout", "start", id)
	second.runs("2.0.0")
	second.rolloutIs(id, "running", 2, "window") // before the last stage, which has no cluster
	second.cli("rollout", "start", id)
	second.rolloutIs(id, "completed", 3, "")
}

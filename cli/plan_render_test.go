package cli_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// objectsOf returns the objects of all clusters, by cluster and name, without the digest of their input, which adds no information.
func objectsOf(t *testing.T, variables map[string]string, flags ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	ids := run(t, cli.Env{}, variables, "cluster", "list", "-o", "name")
	for id := range strings.FieldsSeq(strings.ReplaceAll(ids.stdout, "cluster/", "")) {
		got := run(t, cli.Env{}, variables, append([]string{"render", id, "-o", "json"}, flags...)...)
		var list struct {
			Items []map[string]any `json:"items"`
		}
		if err := json.Unmarshal([]byte(got.stdout), &list); err != nil {
			t.Fatal(got.stderr, err)
		}
		for _, obj := range list.Items {
			all[id+" "+objectName(obj)] = objectJSON(t, obj)
		}
	}
	return all
}

func objectName(obj map[string]any) string {
	metadata := obj["metadata"].(map[string]any)
	return fmt.Sprint(obj["kind"], " ", metadata["namespace"], "/", metadata["name"])
}

func objectJSON(t *testing.T, obj map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(digest.ReplaceAllString(string(raw), ""), ",}", "}") // the digest's remains
}

// digest matches the input's digest, in an object and in an object inside a string.
var digest = regexp.MustCompile(`\\?"event\.toolkit\.fluxcd\.io/input\\?":\\?"[0-9a-f]{16}\\?",?`)

// foreseen returns the changed objects of a plan in the form of objectsOf; empty: deleted.
func foreseen(t *testing.T, variables map[string]string, args []string) map[string]string {
	t.Helper()
	got := run(t, cli.Env{}, variables, slices.Concat(args, []string{"--plan", "--rendered", "-o", "json"})...)
	var plan struct {
		PlanHash string `json:"plan_hash"`
		Rendered struct {
			Left     int
			Clusters []struct {
				Cluster string
				Objects []struct {
					Action        string
					Before, After map[string]any
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(got.stdout), &plan); err != nil || got.code != 1 || plan.PlanHash == "" || plan.Rendered.Left != 0 {
		t.Fatal(args, got, err)
	}
	changed := map[string]string{}
	for _, c := range plan.Rendered.Clusters {
		for _, o := range c.Objects {
			if o.Action == "delete" {
				changed[c.Cluster+" "+objectName(o.Before)] = ""
				continue
			}
			changed[c.Cluster+" "+objectName(o.After)] = objectJSON(t, o.After)
		}
	}
	return changed
}

// TestRenderedPlanComesTrue: after the change, exactly the objects of the plan have changed, and as planned.
func TestRenderedPlanComesTrue(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"FLUX_API_URL": realServer(t), "FLUX_API_TOKEN": "write-token"}
	do := func(args ...string) {
		t.Helper()
		if got := run(t, cli.Env{}, variables, args...); got.code != 0 {
			t.Fatal(args, got.stderr)
		}
	}
	do("apply", "-f", "testdata/fleet")
	do("apply", "-f", "../examples/resource-types/network-policies")
	nothing, before := 0, objectsOf(t, variables)
	for _, line := range []string{
		"component set grafana --selector environment=prod --set replicas=3 --set ingress.hosts[0]=a.example.com",
		"component set grafana --cluster prod-01 --set replicas=4 --unset ingress.hosts[0]",
		"component set grafana --all --oci-tag v9", // its version is pinned: no object changes
		"component set grafana --cluster-env-enabled true",
		"component set ingress-nginx --cluster-env-enabled true --confirm prod",
		"component set grafana --selector environment=dev --component-version 17.2.0",
		"component set grafana --component-version latest",
		"component set grafana --depends-on ingress-nginx", // another type: its source is deferred
		"component set --enabled=false grafana --cluster qa-01 --yes",
		"cluster set dev-01 --environment qa",
		"cluster set dev-02 --name renamed --environment uat --component grafana --component ingress-nginx",
		"namespace create team-x --cluster prod-01 --label team=x",
		"namespace set team-x --label team=y --label team.example.com/on=true",
		"resource network-policies assign podinfo-default-deny --cluster qa-01 --cluster prod-01",
		"rolebinding create readers --role view --user ann --cluster dev-01",
		"cluster create new-01 --dns new-01.example.com --environment dev --component grafana --component ingress-nginx --namespace team-x",
		"component unassign ingress-nginx --selector environment=prod --yes --confirm prod",
		"delete component grafana --cascade --yes --confirm prod",
		"delete cluster new-01 --yes",
		"delete cluster dev-01 --mode orphan --yes", // Flux keeps its objects
	} {
		args := strings.Fields(line)
		want := foreseen(t, variables, slices.DeleteFunc(slices.Clone(args), func(word string) bool { return word == "--yes" }))
		do(args...)
		after := objectsOf(t, variables)
		if strings.Contains(line, "orphan") {
			maps.DeleteFunc(before, func(name, _ string) bool { return strings.HasPrefix(name, "dev-01 ") })
		}
		got := map[string]string{}
		for name, was := range before {
			if is := after[name]; is != was {
				got[name] = is
			}
		}
		for name, is := range after {
			if _, there := before[name]; !there {
				got[name] = is
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s\nsays %d:\n%v\nmade %d:\n%v", line, len(want), slices.Sorted(maps.Keys(want)), len(got), slices.Sorted(maps.Keys(got)))
			for name := range got {
				if got[name] != want[name] {
					t.Logf("%s:\n%s\n%s", name, want[name], got[name])
				}
			}
		}
		if len(want) == 0 {
			nothing++
		}
		t.Logf("%s: %d objects", line, len(want))
		before = after
	}
	if nothing != 3 {
		t.Errorf("%d changes of which nothing comes", nothing)
	}
}

package fleet

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

var (
	tiersOfPlatform = []string{"dev", "qa", "uat", "prod"}
	regions         = []string{"eu", "us", "ap"}
	profiles        = []string{"shop", "plant", "office", "lab"}
)

// platform is a fleet without layers, as platforms often have it: each cluster document contains all settings, most of them
// determined by its tier, region and profile.
func platform(t testing.TB, clusters int) *State {
	t.Helper()
	empty, err := NewState(testRules, Head{}, time.Time{}, nil)
	require.NoError(t, err)
	tx := empty.Begin()
	add := func(kind Kind, doc map[string]any) {
		body, err := json.Marshal(doc)
		require.NoError(t, err)
		_, err = tx.Create(kind, body)
		require.NoError(t, err)
	}
	type list []map[string]any
	entry := func(id string, fields ...string) map[string]any {
		out := map[string]any{"id": id}
		for i := 0; i < len(fields); i += 2 {
			out[fields[i]] = fields[i+1]
		}
		return out
	}
	component := func(id string) {
		add(KindComponent, map[string]any{"id": id, "component_path": "charts/" + id, "oci_url": "https://charts.example.com", "component_version": "1.0.0", "patches": map[string]any{"replicaCount": 1}})
	}
	for i := range 20 {
		component(fmt.Sprintf("common-%02d", i))
	}
	for i := range 10 {
		add(KindNamespace, map[string]any{"id": fmt.Sprintf("team-%02d", i), "labels": map[string]any{"team": fmt.Sprint(i)}})
	}
	for i := range 5 {
		add(KindRoleBinding, map[string]any{"id": fmt.Sprintf("binding-%d", i), "role": "view", "subjects": list{{"kind": "Group", "name": fmt.Sprint("g", i)}}})
	}
	for _, names := range [][]string{tiersOfPlatform, regions, profiles} {
		for _, name := range names {
			component("logs-" + name)
			component("edge-" + name)
			add(KindNamespace, map[string]any{"id": "ns-" + name})
		}
	}
	component("own")
	for i := range clusters {
		tier, region, profile := tiersOfPlatform[i%4], regions[i%3], profiles[i/7%4]
		var components, namespaces, bindings list
		patches := map[string]any{}
		for c := range 20 {
			components = append(components, entry(fmt.Sprintf("common-%02d", c)))
		}
		for n := range 10 {
			namespaces = append(namespaces, entry(fmt.Sprintf("team-%02d", n)))
		}
		for b := range 5 {
			bindings = append(bindings, entry(fmt.Sprintf("binding-%d", b)))
		}
		for c := range 5 {
			patches[fmt.Sprintf("common-%02d", c)] = map[string]any{
				"resources.limits.memory": "256Mi", "metrics.enabled": true, "tier": tier, "region": region,
				"ingress.hosts[0].host": fmt.Sprintf("app-%d.k%04d.example.com", c, i),
			}
		}
		for _, name := range []string{tier, region, profile} {
			components = append(components, entry("logs-"+name, "component_version", "2.0."+fmt.Sprint(len(name))), entry("edge-"+name))
			namespaces = append(namespaces, entry("ns-"+name))
			patches["edge-"+name] = map[string]any{"replicaCount": 2, "values.from": name}
		}
		if i%10 == 3 { // the exceptions
			components = append(components, entry("own", "component_version", fmt.Sprintf("3.%d.0", i%4)))
			components[7]["component_version"] = "1.0.1"
		}
		add(KindCluster, map[string]any{
			"id": fmt.Sprintf("k%04d", i), "cluster_dns": fmt.Sprintf("k%04d.example.com", i), "environment": tier, "labels": map[string]any{"region": region, "profile": profile},
			"platform_components": components, "namespaces": namespaces, "rolebindings": bindings, "patches": patches,
		})
	}
	res, err := tx.Finish(Commit{ID: uuid.New(), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Actor: "test"})
	require.NoError(t, err)
	return res.State
}

// onLayers moves the common settings of such a fleet into layers, from the general to the special.
func onLayers(t testing.TB, s *State) *State {
	t.Helper()
	ops := []string{`{"op":"create","kind":"layer","document":{"id":"base","priority":100,"all":true}}`, `{"op":"adopt","layers":["base"]}`}
	for n, by := range []struct {
		label string
		names []string
	}{{"environment", tiersOfPlatform}, {"region", regions}, {"profile", profiles}} {
		for i, name := range by.names {
			ops = append(ops, fmt.Sprintf(`{"op":"create","kind":"layer","document":{"id":%q,"priority":%d,"selector":"%s=%s"}}`, name, 200+100*n+i, by.label, name),
				fmt.Sprintf(`{"op":"adopt","layers":[%q]}`, name))
		}
	}
	tx := s.Begin()
	require.NoError(t, batch(ops...)(tx))
	res, err := tx.Finish(Commit{ID: uuid.New(), At: time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC), Actor: "test"})
	require.NoError(t, err)
	plan, err := res.Plan()
	require.NoError(t, err)
	require.Empty(t, plan.Groups)
	require.Zero(t, plan.Totals.Removals)
	return res.State
}

func bytesOf(s *State) (n int) {
	for rec := range s.Records() {
		if rec.Kind == KindCluster || rec.Kind == KindLayer {
			n += len(rec.Body)
		}
	}
	return n
}

// TestAThousandClustersMoveToLayers: all answers stay byte-identical, and each cluster document keeps only its special
// settings, for a process that follows the log and for one that starts.
func TestAThousandClustersMoveToLayers(t *testing.T) {
	t.Parallel()
	clusters := 1000
	if testing.Short() {
		clusters = 168
	}
	plain := platform(t, clusters)
	layered := onLayers(t, plain)
	before := polls(t, plain)
	require.Len(t, before, 3*clusters)
	require.Equal(t, before, polls(t, layered))
	loaded, err := NewState(testRules, layered.head, layered.at, slicesOf(layered))
	require.NoError(t, err)
	require.Equal(t, before, polls(t, loaded))
	t.Logf("documents of %d clusters, and their layers: %d bytes before, %d after", clusters, bytesOf(plain), bytesOf(layered))
	require.Less(t, bytesOf(layered)*3, bytesOf(plain))

	k, _ := layered.Get(KindCluster, "k0000")
	require.Empty(t, k.Cluster().PlatformComponents)
	require.Empty(t, k.Cluster().Namespaces)
	require.Len(t, k.Cluster().Patches["common-00"], 1, "only the host is its own")
	special, _ := layered.Get(KindCluster, "k0003")
	require.Len(t, special.Cluster().PlatformComponents, 2)
}

func slicesOf(s *State) (records []Record) {
	for rec := range s.Records() {
		records = append(records, rec)
	}
	return records
}

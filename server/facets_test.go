package server_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFacets: the count of each value of a facet is the number of clusters that a filter by this value lists.
func TestFacets(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(5, "qa")
	for i, tier := range []string{"gold", "gold", "silver"} {
		w.patch(fmt.Sprintf("/clusters/qa-%02d", i), fmt.Sprintf(`{"labels":{"tier":%q,"empty":""}}`, tier)).want(200)
	}
	w.create("/layers", `{"id":"gold","priority":10,"selector":"tier=gold"}`)
	w.batch(`{"op":"set_component","component_id":"podinfo","component_version":"6.9.0","cluster_ids":["qa-01","qa-02"]}`).want(200)
	w.patch("/clusters/qa-03", `{"patches":{"podinfo":{"replicaCount":"5"}}}`).want(200)
	w.confirm(at(w.get("/clusters/qa-00").json(), "cluster_dns").(string))

	require.NotContains(t, w.get("/status").want(200).json(), "facets")
	seen := map[string]bool{}
	for _, filter := range []string{"", "&state=never", "&component=podinfo", "&environment=qa", "&layer=gold", "&component=podinfo&state=confirmed", "&overrides=version"} {
		all := w.get("/status?facets=true&limit=1" + filter).want(200)
		for _, facet := range at(all.json(), "facets").([]any) {
			name := at(facet, "name").(string)
			seen[name] = true
			for _, v := range at(facet, "values").([]any) {
				value := at(v, "value").(string)
				by := url.Values{}
				switch name {
				case "label":
					by.Set("selector", fmt.Sprintf("%s=%s", at(facet, "key"), value))
				case "version":
					by.Set("component_version", value)
					by.Set("oci_tag", at(v, "oci_tag").(string))
				default:
					by.Set(name, value)
				}
				if name == "component" && value != "podinfo" && filter != "" {
					continue // another component has other states
				}
				query, err := url.ParseQuery("limit=1" + filter)
				require.NoError(t, err)
				for key := range by {
					query.Set(key, by.Get(key))
				}
				require.Equal(t, fmt.Sprint(at(v, "clusters")), w.get("/status?"+query.Encode()).want(200).header.Get("X-Total-Count"), "%s %s", filter, query)
			}
		}
	}
	require.Equal(t, map[string]bool{"environment": true, "label": true, "layer": true, "component": true, "version": true, "overrides": true}, seen)
	require.EqualValues(t, 2, w.get("/status?overrides=version").want(200).json()["total"], "the version that the batch set")
	require.EqualValues(t, 0, w.get("/status?overrides=version&component=traefik").want(200).json()["total"])
	require.EqualValues(t, 1, w.get("/status?overrides=patches&environment=qa").want(200).json()["total"])
	w.get("/status?layer=nothing").problem(404, "not_found")
	require.EqualValues(t, 2, w.get("/status?layer=gold").want(200).json()["total"])
}

// TestFacetsAreBounded: a label with a value for each cluster lists 50 of them.
func TestFacetsAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(60, "qa")
	for i := range 60 {
		w.patch(fmt.Sprintf("/clusters/qa-%02d", i), fmt.Sprintf(`{"labels":{"name":"n%d"}}`, i)).want(200)
	}
	for _, facet := range at(w.get("/status?facets=true").want(200).json(), "facets").([]any) {
		if at(facet, "key") == "name" {
			require.Len(t, at(facet, "values"), 50)
			require.EqualValues(t, 10, at(facet, "other_values"))
			return
		}
	}
	t.Fatal("there is no facet for the label")
}

// TestStatusOfInput: with list and input, the status is that of one input.
func TestStatusOfInput(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(2, "qa")
	w.confirm(at(w.get("/clusters/qa-00").json(), "cluster_dns").(string))
	require.Equal(t, map[string]any{"never": 1.0, "behind": 1.0}, w.get("/status?list=namespaces&input=podinfo&selector=environment%3Dqa").want(200).json()["counts"], "qa-00 polled its components only")
	require.Equal(t, w.get("/status?component=podinfo").want(200).json(), w.get("/status?list=platform-components&input=podinfo").want(200).json())
	require.EqualValues(t, 0, w.get("/status?list=namespaces&input=nothing").want(200).json()["total"])
	require.EqualValues(t, 0, w.get("/status?list=nothing&input=podinfo").want(200).json()["total"])
	w.get("/status?input=podinfo").problem(400, "validation_error")
	w.get("/status?list=namespaces&input=podinfo&component=podinfo").problem(400, "validation_error")
}

// TestEnvironmentsInPromotionOrder: qa comes after dev and before prod wherever environments are listed, whatever their names
// and numbers.
func TestEnvironmentsInPromotionOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i, environment := range []string{"prod", "uat", "prod", "qa", "uat", "prod"} {
		w.post("/clusters", fmt.Sprintf(`{"id":"c-%d","cluster_dns":"c-%d.example.com","environment":%q}`, i, i, environment)).want(201)
	}
	environments := func(list any) (out []any) {
		for _, v := range list.([]any) {
			out = append(out, at(v, "value"))
		}
		return out
	}
	want := []any{"dev", "qa", "uat", "prod"}
	require.Equal(t, want, environments(at(w.get("/status/components?by=environment").want(200).json(), "columns")))
	require.Equal(t, want, environments(at(w.get("/status?facets=true").want(200).json(), "facets", 0, "values")))
	for i := range 4 {
		w.patch(fmt.Sprintf("/clusters/c-%d", i), `{"platform_components":[{"id":"podinfo"}]}`).want(200)
	}
	require.Equal(t, want, w.get("/platform_components/podinfo/usage").want(200).json()["environments"])
}

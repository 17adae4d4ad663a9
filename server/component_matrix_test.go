package server_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestComponentMatrix: each cell has the numbers of exactly the clusters that the filters of GET /status list for it.
func TestComponentMatrix(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(3, "qa")
	w.patch("/clusters/qa-00", `{"labels":{"tier":"gold"}}`).want(200)
	w.patch("/clusters/qa-01", `{"labels":{"tier":"silver"}}`).want(200)
	w.batch(`{"op":"set_component","component_id":"podinfo","component_version":"6.9.0","cluster_ids":["qa-01","qa-02"]}`).want(200)
	w.create("/platform_components", `{"id":"unused","component_path":"p","oci_url":"https://charts.example.com"}`)
	dns := func(id string) string { return at(w.get("/clusters/"+id).json(), "cluster_dns").(string) }
	w.confirm(dns("qa-00"))
	w.confirm(dns("qa-01"))
	w.confirm(demoDNS)

	matrix := w.get("/status/components?by=environment").want(200)
	require.Equal(t, []any{map[string]any{"value": "dev", "clusters": 1.0}, map[string]any{"value": "qa", "clusters": 3.0}}, matrix.json()["columns"])
	rows := map[any]any{}
	for _, row := range matrix.json()["rows"].([]any) {
		rows[at(row, "id")] = row
	}
	require.Equal(t, fmt.Sprint(len(rows)), matrix.header.Get("X-Total-Count"))
	podinfo := rows["podinfo"]
	require.Equal(t, map[string]any{
		"column": 1.0, "clusters": 3.0, "counts": map[string]any{"confirmed": 2.0, "never": 1.0}, "versions": []any{
			map[string]any{"component_version": "6.9.0", "oci_tag": "latest", "clusters": 2.0, "deviating": 2.0, "counts": map[string]any{"confirmed": 1.0, "never": 1.0}},
			map[string]any{"component_version": "latest", "oci_tag": "latest", "clusters": 1.0, "counts": map[string]any{"confirmed": 1.0}},
		},
	}, at(podinfo, "cells", 1))
	require.Empty(t, at(rows["unused"], "cells"), "no cluster has it")

	tiers := w.get("/status/components?by=tier&selector=environment%3Dqa").want(200).json()
	require.Equal(t, []any{
		map[string]any{"value": "gold", "clusters": 1.0}, map[string]any{"value": "silver", "clusters": 1.0}, map[string]any{"value": "", "missing": true, "clusters": 1.0},
	}, tiers["columns"])
	require.Equal(t, []any{"tier"}, tiers["label_keys"])
	require.Len(t, at(w.get("/status/components").want(200).json(), "columns"), 1)
	require.Len(t, at(w.get("/status/components?limit=1&offset=1").want(200).json(), "rows"), 1)

	agrees := func() {
		t.Helper()
		all := w.get("/status/components?by=environment").want(200).json()
		for _, row := range all["rows"].([]any) {
			for _, cell := range at(row, "cells").([]any) {
				environment := at(all, "columns", int(at(cell, "column").(float64)), "value")
				one := w.get(fmt.Sprintf("/status?component=%s&environment=%s", at(row, "id"), environment)).want(200).json()
				require.Equal(t, one["counts"], at(cell, "counts"))
				require.Equal(t, one["total"], at(cell, "clusters"))
				for _, v := range at(cell, "versions").([]any) {
					of := url.Values{"component": {at(row, "id").(string)}, "environment": {environment.(string)}, "component_version": {at(v, "component_version").(string)}, "oci_tag": {at(v, "oci_tag").(string)}}
					one := w.get("/status?" + of.Encode()).want(200).json()
					require.Equal(t, one["counts"], at(v, "counts"))
				}
			}
		}
	}
	agrees()
	w.put("/platform_components/podinfo", `{"component_version":"7"}`).want(200)
	agrees()
	w.clock.advance(20 * time.Minute) // silent
	agrees()
	w.clock.advance(3 * time.Hour)
	agrees()

	w.get("/status/components?selector=in+in").problem(400, "validation_error")
	w.get("/status/components?by=").problem(400, "validation_error")
}

// TestMatrixOfManyValues: a label with a value for each cluster has a bounded number of columns.
func TestMatrixOfManyValues(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(60, "qa")
	matrix := w.get("/status/components?by=id").want(200).json()
	require.Len(t, matrix["columns"], 40)
	require.EqualValues(t, 21, matrix["other_values"])
	require.EqualValues(t, 61, matrix["total"])
}

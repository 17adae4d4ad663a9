package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// pageChange is a change that a policy of the page judges.
type pageChange struct {
	edit   func(*Tx) error
	reason string
	source string
	later  time.Duration
}

// TestPoliciesOfThePage: each policy of docs/policies.md permits one change and fails for another.
func TestPoliciesOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/policies.md")
	require.NoError(t, err)
	policies := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(kind: policy\n.*?)```").FindAllSubmatch(page, -1) {
		var doc map[string]any
		require.NoError(t, yaml.Unmarshal(block[1], &doc))
		delete(doc, "kind")
		body, err := json.Marshal(doc)
		require.NoError(t, err)
		policies[doc["id"].(string)] = string(body)
	}
	app := func(patched string) pageChange { return pageChange{edit: patch(KindComponent, "app", patched)} }
	on := func(id, settings string) pageChange {
		return pageChange{edit: assign(id, KindComponent, "app", settings)}
	}
	off := func(from, to int) func(*Tx) error {
		edits := []func(*Tx) error{}
		for i := from; i < to; i++ {
			edits = append(edits, assign(fmt.Sprintf("prod-%02d", i), KindComponent, "app", `{"enabled":false}`))
		}
		return both(edits...)
	}
	subjects := func(names string) pageChange {
		return pageChange{edit: patch(KindRoleBinding, "admins", `{"subjects":[`+names+`]}`)}
	}
	const ann, ben = `{"kind":"User","name":"ann"}`, `{"kind":"User","name":"ben"}`
	grant := create(KindAccess, `{"id":"x","subjects":[{"token":"x"}],"may":["read"]}`)
	cases := map[string]struct{ passes, fails pageChange }{
		"prod-in-stages":          {on("prod-00", `{"component_version":"1.3.0"}`), app(`{"component_version":"1.3.0"}`)},
		"no-latest-in-prod":       {on("dev", `{"oci_tag":"latest"}`), on("prod-00", `{"oci_tag":"latest"}`)},
		"admins-by-two":           {subjects(ann), subjects(ann + "," + `{"kind":"User","name":"mallory"}`)},
		"our-registry":            {app(`{"oci_url":"oci://registry.example.com/other"}`), app(`{"oci_url":"oci://registry.example.org/apps"}`)},
		"no-removals-on-weekends": {pageChange{edit: off(0, 1)}, pageChange{edit: off(0, 1), later: 24 * time.Hour}},
		"ticket":                  {pageChange{edit: off(0, 1), reason: "CHG-42: app off"}, pageChange{edit: off(0, 1), reason: "app off"}},
		"no-access-by-sources":    {pageChange{edit: grant}, pageChange{edit: grant, source: "apps"}},
		"no-downgrade":            {app(`{"component_version":"1.3.0"}`), app(`{"component_version":"1.1.9"}`)},
		"team-label":              {on("prod-00", `{"enabled":false}`), pageChange{edit: patch(KindCluster, "prod-00", `{"labels":{"team":null},"platform_components":[]}`)}},
		"few-clusters":            {pageChange{edit: off(0, 15)}, app(`{"component_version":"1.3.0"}`)},
		"few-removals":            {pageChange{edit: off(0, 10)}, pageChange{edit: off(0, 7)}},
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(cases)), slices.Collect(maps.Keys(policies)), "each policy of the page has a case")
	for id, c := range cases {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, string(KindComponent), `{"id":"app","oci_url":"oci://registry.example.com/apps","component_path":"app","component_version":"1.2.0","oci_tag":"v1"}`,
				string(KindRoleBinding), `{"id":"admins","role":"cluster-admin","subjects":[`+ann+`,`+ben+`]}`,
				string(KindCluster), `{"id":"dev","cluster_dns":"dev.example.com","environment":"dev","platform_components":[{"id":"app"}],"rolebindings":[{"id":"admins"}]}`)
			for i := range 21 {
				w.must(create(KindCluster, fmt.Sprintf(`{"id":"prod-%02d","cluster_dns":"p%02d.example.com","environment":"prod","labels":{"team":"web"},"platform_components":[{"id":"app"}],"rolebindings":[{"id":"admins"}]}`, i, i)))
			}
			w.must(create(KindPolicy, policies[id]))
			require.False(t, failsPolicy(w, c.passes), "the change that passes")
			if id == "few-removals" {
				w.must(off(10, 14))
			}
			if id == "few-clusters" {
				w.must(app(`{"component_version":"1.2.1"}`).edit)
				w.must(app(`{"component_version":"1.2.2"}`).edit)
			}
			require.True(t, failsPolicy(w, c.fails), "the change that fails")
		})
	}
}

// failsPolicy reports whether the one policy of the fleet fails for a change.
func failsPolicy(w *world, c pageChange) bool {
	w.t.Helper()
	tx := w.state.Begin()
	tx.Guard(Guard{Off: true})
	tx.source = c.source
	require.NoError(w.t, c.edit(tx))
	res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now.Add(c.later), Actor: "test", Reason: c.reason})
	require.NoError(w.t, err)
	plan, err := res.Plan()
	require.NoError(w.t, err)
	for _, v := range plan.Policies {
		require.NotContains(w.t, v.Message, "cannot be evaluated")
	}
	return len(plan.Policies) > 0 && plan.Policies[0].Failed
}

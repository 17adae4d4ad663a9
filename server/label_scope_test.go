package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tenantWorld has clusters web-0 to web-11 of the team web with an installed component, and documents of others that apply to clusters
// with the label tier=payments: a layer that moves the component, a rollout that does so too, a freeze, and an access document.
func tenantWorld(t *testing.T, limits string) (*world, []string) {
	t.Helper()
	w := setupWith(t, options{empty: true})
	w.create("/platform_components", `{"id":"app","component_path":"app","oci_url":"oci://registry.example.com/app","component_version":"1.0.0"}`)
	w.create("/platform_components", `{"id":"secret","component_path":"secret","oci_url":"oci://registry.example.com/secret","component_version":"1.0.0"}`)
	for i := range 12 {
		w.create("/clusters", fmt.Sprintf(`{"id":"web-%d","cluster_dns":"web-%d.example.com","environment":"prod","labels":{"team":"web"},"platform_components":[{"id":"app"}]}`, i, i))
	}
	w.create("/clusters", `{"id":"pay-0","cluster_dns":"pay-0.example.com","environment":"dev","labels":{"team":"pay","tier":"payments"},"platform_components":[{"id":"secret"}]}`)
	w.create("/layers", `{"id":"lay-pay","priority":10,"selector":"tier=payments","platform_components":[{"id":"secret"}],"patches":{"app":{"password":"of-pay"}}}`)
	w.create("/layers", `{"id":"lay-dev","priority":20,"selector":"environment=dev","patches":{"app":{"stage":"dev"}}}`)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("tenant", `["read","plan","write"]`, limits))
	return w, as
}

// TestLabelsReachNoHiddenDocument: a tenant whose access document names label keys cannot make a layer of others apply to its clusters.
// The answer is the same for every value, so attempts with other values do not reveal the selectors.
func TestLabelsReachNoHiddenDocument(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]string{
		"no key":      `{"selector":"team=web","kinds":["cluster","layer"]}`,
		"another key": `{"selector":"team=web","kinds":["cluster","layer"],"labels":["web/*"]}`,
		"the key":     `{"selector":"team=web","kinds":["cluster","layer"],"labels":["tier","web/*"]}`,
		"every key":   `{"selector":"team=web","kinds":["cluster","layer"],"labels":["*"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, as := tenantWorld(t, limits)
			w.do("GET", "/layers/lay-pay", "", as...).problem(404, "not_found")
			patch := append([]string{"Content-Type", mergePatchType, "X-Fleet-Removes-From", "none"}, as...)
			w.unchanged(func() {
				for _, body := range []string{
					`{"labels":{"tier":"payments"}}`, `{"environment":"dev"}`,
				} {
					got := w.do("PATCH", "/clusters/web-1", body, patch...)
					require.Contains(t, []int{403, 409}, got.status, "409: it leaves a protected environment, which the tenant may see")
					other := strings.NewReplacer("payments", "quokkass", `"dev"`, `"qa"`).Replace(body)
					require.Equal(t, lasting(w.do("PATCH", "/clusters/web-1", other, patch...)), lasting(got), body)
					for _, dryRun := range []string{body, other} {
						require.Contains(t, []int{403, 409}, w.do("PATCH", "/clusters/web-1?dry_run=true", dryRun, patch...).status)
					}
				}
				ops := `"operations":[{"op":"set_labels","selector":"team=web","labels":{"tier":"payments"}}]`
				for _, path := range []string{"/plan", "/batch"} {
					w.do("POST", path, `{`+ops+`}`, as...).problem(403, "out_of_scope")
				}
				for _, cluster := range []string{
					`{"id":"web-new","cluster_dns":"n.example.com","environment":"prod","labels":{"team":"web","tier":"payments"}}`,
					`{"id":"web-new","cluster_dns":"n.example.com","environment":"dev","labels":{"team":"web"}}`,
				} {
					w.do("POST", "/clusters", cluster, as...).problem(403, "out_of_scope")
				}
			})
			w.do("GET", "/layers/lay-pay", "", as...).problem(404, "not_found")
			w.do("POST", "/clusters", `{"id":"web-new","cluster_dns":"n.example.com","environment":"prod","labels":{"team":"web"}}`, as...).want(201)
			if name == "another key" {
				w.do("PATCH", "/clusters/web-1", `{"labels":{"web/x":"1"}}`, patch...).want(200)
			}
		})
	}
}

// TestLabelsReachNoHiddenRollout: a label does not move a cluster of a tenant into a stage, a freeze or the rights of others.
func TestLabelsReachNoHiddenRollout(t *testing.T) {
	t.Parallel()
	for name, hidden := range map[string][2]string{
		"rollout":            {"/rollouts", `{"id":"pay","operations":[{"op":"patch","kind":"platform_component","id":"app","patch":{"component_path":"pay"}},{"op":"patch","kind":"platform_component","id":"secret","patch":{"component_path":"x"}}],"stages":[{"name":"pay","selector":"tier=payments"}]}`},
		"layer of a rollout": {"/rollouts", `{"id":"pay","operations":[{"op":"patch","kind":"layer","id":"moved","patch":{"selector":"tier=payments"}}],"stages":[{"name":"all","all":true}]}`},
		"freeze":             {"/freezes", `{"id":"pay","reason":"r","selector":"tier=payments","from":"2030-01-01T00:00:00Z"}`},
		"access":             {"/access", `{"id":"pay","subjects":[{"issuer":"corp","groups":["pay"]}],"may":["read","write"],"on":{"selector":"tier=payments"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, as := tenantWorld(t, `{"selector":"team=web","kinds":["cluster","layer"],"labels":["tier"]}`)
			w.delete("/layers/lay-pay").want(200)
			patch := append([]string{"Content-Type", mergePatchType}, as...)
			w.do("PATCH", "/clusters/web-1", `{"labels":{"tier":"quokkas"}}`, patch...).want(200) // nothing uses the key
			w.create("/layers", `{"id":"moved","priority":50,"selector":"team=pay"}`)
			w.create(hidden[0], hidden[1])
			w.unchanged(func() {
				for _, value := range []string{`"payments"`, `"other"`, `null`} {
					w.do("PATCH", "/clusters/web-1", `{"labels":{"tier":`+value+`}}`, patch...).problem(403, "out_of_scope")
				}
			})
		})
	}
}

// TestLabelsLeaveNoDocumentOutsideTheLimits: a tenant cannot remove its clusters from a layer or freeze of the platform that it may read.
func TestLabelsLeaveNoDocumentOutsideTheLimits(t *testing.T) {
	t.Parallel()
	w, as := tenantWorld(t, `{"selector":"team=web","kinds":["cluster","layer"],"labels":["tier","environment"]}`)
	w.delete("/layers/lay-pay").want(200)
	w.delete("/layers/lay-dev").want(200)
	w.patch("/clusters/web-1", `{"labels":{"tier":"gold"}}`).want(200)
	w.create("/layers", `{"id":"gold","priority":30,"selector":"tier=gold","patches":{"app":{"limits":"strict"}}}`)
	w.do("GET", "/layers/gold", "", as...).want(200)
	patch := append([]string{"Content-Type", mergePatchType}, as...)
	got := w.do("PATCH", "/clusters/web-1", `{"labels":{"tier":null}}`, patch...)
	got.problem(403, "out_of_scope")
	require.Contains(t, string(got.body), `from the layer \"gold\"`)
	w.do("PATCH", "/clusters/web-2", `{"labels":{"tier":"gold"}}`, patch...).want(200) // it reads the layer already
	w.do("POST", "/layers", `{"id":"mine","priority":31,"selector":"team=web,tier=own","patches":{"app":{"x":"1"}}}`, as...).want(201)
	w.do("PATCH", "/clusters/web-3", `{"labels":{"tier":"own"}}`, patch...).want(200)
	w.do("PATCH", "/clusters/web-3", `{"labels":{"tier":null}}`, patch...).want(200)
}

// TestPlanHashOfLimitedIdentity: a plan of an identity with limits has a hash only if it shows the whole effect.
func TestPlanHashOfLimitedIdentity(t *testing.T) {
	t.Parallel()
	w, as := tenantWorld(t, `{"selector":"team=web","kinds":["cluster","layer"],"labels":["web/*"]}`)
	w.get("/api/v2/flux/clusters?selector=web/pool!%3Db", "User-Agent", "flux-operator/v0.58.0").want(200) // a management cluster provisions from this list
	ops := `"operations":[{"op":"set_labels","selector":"team=web","labels":{"web/pool":"b"}}]`
	whole := w.post("/plan", `{`+ops+`}`).want(200).json()
	require.NotEmpty(t, whole["warnings"])
	got := w.do("POST", "/plan", `{`+ops+`}`, as...)
	got.problem(403, "out_of_scope")
	require.NotContains(t, noted(got), "pool!=b")
	w.unchanged(func() {
		w.do("POST", "/batch", `{`+ops+`,"plan_hash":"`+whole["plan_hash"].(string)+`"}`, as...).problem(412, "stale")
	})
}

// TestTenantCreatesItsClusterAgain: a tenant can create its deleted cluster again, though that revokes a poll token that an admin issued.
func TestTenantCreatesItsClusterAgain(t *testing.T) {
	t.Parallel()
	w, as := tenantWorld(t, `{"selector":"team=web","kinds":["cluster","layer"]}`)
	body := `{"id":"web-new","cluster_dns":"n.example.com","environment":"prod","labels":{"team":"web"},"platform_components":[{"id":"app"}]}`
	w.do("POST", "/clusters", body, as...).want(201)
	w.create("/tokens", `{"name":"poll-web-new","role":"poll","cluster_id":"web-new"}`)
	w.do("DELETE", "/clusters/web-new", "", as...).want(200)
	w.do("POST", "/clusters", body, as...).want(201)
	require.NotContains(t, string(w.get("/tokens").body), "poll-web-new")
}

// TestNoTeamTakesTheEmergencyStop: the name of the emergency stop is free for a freeze of all clusters.
func TestNoTeamTakesTheEmergencyStop(t *testing.T) {
	t.Parallel()
	w, as := tenantWorld(t, `{"selector":"team=web","kinds":["cluster","freeze"]}`)
	w.do("POST", "/freezes", `{"id":"all","selector":"team=web","reason":"x","until":"2020-01-01T00:00:00Z"}`, as...).problem(400, "validation_error")
	w.do("POST", "/freezes", `{"id":"all","all":true,"reason":"x"}`, as...).problem(403, "out_of_scope")
	w.create("/freezes", `{"id":"all","all":true,"reason":"outage"}`)
}

// TestOperationsOnAdminKindsTellNothing: without the right admin, operations on webhooks and access documents have one answer, whether
// they would change something or the document exists.
func TestOperationsOnAdminKindsTellNothing(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{empty: true})
	w.create("/access", accessFor("reader", `["read","plan","write","revert"]`, ""))
	as := bearer(w.issue(scopedBody).secret)
	writer := bearer(w.issue(`{"name":"writer","role":"write"}`).secret)
	for _, credential := range [][]string{as, writer} {
		first := ""
		for _, op := range []string{
			`{"op":"patch","kind":"access","id":"reader","patch":{"may":["read","plan","write","revert"]}}`,
			`{"op":"patch","kind":"access","id":"reader","patch":{"may":["admin"]}}`,
			`{"op":"patch","kind":"access","id":"missing","patch":{"may":["read"]}}`,
			`{"op":"delete","kind":"access","id":"missing"}`,
			`{"op":"create","kind":"access","document":{"id":"reader","subjects":[{"token":"x"}],"may":["read"]}}`,
		} {
			for _, path := range []string{"/plan", "/batch"} {
				got := w.do("POST", path, `{"operations":[`+op+`]}`, credential...)
				got.problem(403, "out_of_scope")
				detail := at(got.json(), "detail").(string)
				if first == "" {
					first = detail
				}
				require.Equal(t, first, detail, op)
			}
		}
	}
}

// TestWindowsNameNothingHidden: checks of time zones, refusals outside of windows and stages without a common time name no document that
// the team may not read.
func TestWindowsNameNothingHidden(t *testing.T) {
	t.Parallel()
	const never = `"allow":[{"from":"03:00","to":"03:00","days":["mon"]}],"block":[{"from":"00:00","to":"23:59","days":["mon"]}]`
	const zoned = `"allow":[{"from":"00:00","to":"00:01","tz_variable":"timezone"}]`
	for name, rights := range map[string][]string{
		"tenant": {accessFor("team", `["read","plan","write","revert","approve"]`, `{"selector":"team=web","kinds":["cluster","layer","freeze","rollout"]}`)},
		"wide":   {accessFor("team", `["read","plan"]`, teamRead), accessFor("wide", `["write","plan","revert","approve"]`, "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := twoTeams(t)
			w.pin("web-01", "null")
			as := bearer(w.issue(scopedBody).secret)
			for _, body := range rights {
				w.create("/access", body)
			}
			w.patch("/clusters/zebra-01", `{"variables":{"timezone":"zebra/Town"}}`).want(200)
			w.create("/layers", `{"id":"shared-zones","priority":40,"selector":"team in (web,zebra)","variables":{"city":"No/Town"}}`)
			patch := append([]string{"Content-Type", mergePatchType}, as...)
			codes := map[string]int{}
			try := func(method, path, body string, headers []string) {
				t.Helper()
				answer := w.do(method, path, body, headers...)
				if answer.status >= 400 {
					codes[fmt.Sprint(answer.json()["error"])]++
				}
				require.NotContains(t, string(answer.body), "zebra", "%s %s %s: %s", method, path, body, answer.body)
				require.Less(t, answer.status, 500)
			}
			// Stored values that are no time zones.
			for _, freeze := range []string{
				`{"id":"w1","reason":"r","all":true,` + zoned + `}`, `{"id":"w2","reason":"r","selector":"team in (web,zebra)",` + zoned + `}`,
				`{"id":"w3","reason":"r","selector":"team=web",` + strings.ReplaceAll(zoned, "timezone", "city") + `}`,
				`{"id":"w4","reason":"r","all":true,` + strings.ReplaceAll(zoned, "timezone", "city") + `}`,
			} {
				for _, path := range []string{"/freezes?dry_run=true", "/freezes"} {
					try("POST", path, freeze, as)
				}
				try("POST", "/plan", `{"operations":[{"op":"create","kind":"freeze","document":`+freeze+`}]}`, as)
				try("POST", "/access/check", `{"operations":[{"op":"create","kind":"freeze","document":`+freeze+`}]}`, as)
			}
			// A freeze of the clusters of both teams, and one that is hidden.
			w.patch("/clusters/zebra-01", `{"variables":{"timezone":"Asia/Tokyo"}}`).want(200)
			w.patch("/layers/shared-zones", `{"variables":null}`).want(200)
			for _, id := range []string{"w1", "w2", "w3", "w4"} {
				w.do("DELETE", "/freezes/"+id, "")
			}
			w.create("/freezes", `{"id":"shared-hours","reason":"r","selector":"team in (web,zebra)",`+zoned+`}`)
			w.create("/freezes", `{"id":"zebra-never","reason":"zebra","selector":"team=zebra",`+never+`}`)
			for _, c := range [][3]string{
				{"PATCH", "/clusters/web-01", `{"variables":{"timezone":"web/Town"}}`},
				{"PATCH", "/layers/web", `{"variables":{"timezone":"web/Town"}}`},
				{"PATCH", "/clusters/web-01", `{"variables":{"timezone":"Europe/Berlin"}}`},
				{"PATCH", "/clusters/web-01", `{"patches":{"web-app":{"replicas":"7"}}}`},
				{"PATCH", "/platform_components/web-app", `{"component_version":"3.0.0"}`},
			} {
				for _, query := range []string{"?dry_run=true", ""} {
					try(c[0], c[1]+query, c[2], patch)
				}
			}
			change := `"operations":[{"op":"patch","kind":"layer","id":"web","patch":{"patches":{"web-app":{"replicas":"8"}}}}]`
			both := `"operations":[{"op":"patch","kind":"platform_component","id":"base","patch":{"oci_url":"oci://registry.example.com/b"}}]`
			for _, operations := range []string{change, both} {
				try("POST", "/plan", `{`+operations+`}`, as)
				try("POST", "/batch", `{`+operations+`}`, as)
				for _, stages := range []string{`[{"name":"all","all":true}]`, `[{"name":"web","selector":"team=web"}]`} {
					try("POST", "/rollouts", `{"id":"new-rollout","stages":`+stages+`,`+operations+`}`, as)
					try("POST", "/rollouts/new-rollout/start", "", as)
					try("GET", "/rollouts/new-rollout", "", as)
				}
			}
			try("POST", "/revisions/5/revert", "", as)
			t.Log(codes)
			for _, code := range []string{"frozen", "validation_error", "out_of_scope"} {
				require.Positive(t, codes[code], code)
			}
		})
	}
}

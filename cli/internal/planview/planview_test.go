package planview

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/oapi-codegen/nullable"
)

// largePlan is the plan to unassign a component from 200 clusters with different versions and values: with as many groups.
func largePlan() api.Plan {
	plan := api.Plan{PlanHash: "abc", ConfirmationRequired: true, ConfirmationReason: "it is much"}
	value := func(text string) nullable.Nullable[json.RawMessage] {
		return nullable.NewNullableWithValue(json.RawMessage(text))
	}
	for i := range 200 {
		id := fmt.Sprintf("c-%03d", i)
		plan.Changes = append(plan.Changes, api.ChangeRef{Kind: "cluster", ID: id, Action: "update"})
		plan.Warnings = append(plan.Warnings, fmt.Sprintf(`component "podinfo" depends on "traefik", which is not assigned to cluster %q`, id))
		var changed []api.InputChange
		for n := range i%3 + 1 {
			changed = append(changed, api.InputChange{ID: fmt.Sprintf("app-%d", n), Fields: []api.FieldChange{
				{Pointer: "/dependencies", Before: value(`[{"id":"traefik"}]`), After: value("[]")},
				{Pointer: "/component_version", Before: value(fmt.Sprintf("%d", i)), After: value("0")},
			}})
		}
		plan.Groups = append(plan.Groups, api.EffectGroup{Clusters: []string{id}, Effect: map[string]api.EndpointEffect{
			"platform-components": {Removed: []string{"traefik"}, Changed: changed},
		}})
	}
	plan.Totals.Clusters, plan.Totals.Removals, plan.Totals.Removed = 200, 200, 200
	return plan
}

// TestPlanFitsAScreen: a large plan shows each sort of effect with counts and the totals last; with --full, all of it.
func TestPlanFitsAScreen(t *testing.T) {
	t.Parallel()
	text := Plan(largePlan(), nil, Style{KindName: strings.ToLower})
	if n := strings.Count(text, "\n"); n > 40 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	for _, want := range []string{
		"66 clusters: c-002, ", "67 clusters: c-000, c-003, ", "- traefik   REMOVED: Flux uninstalls it", `component_version: 0 → 0 (on "c-000"; differs: 67 ways)`,
		"dependencies: [{\"id\":\"traefik\"}] → []", "\"c-000\" (and 199 clusters more)\n", "Flux would uninstall 200 things.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	last := text[strings.Index(text, "Documents: "):]
	if strings.Count(last, "\n") != 6 || !strings.HasSuffix(last, "Plan hash abc, made at revision 0.\n") {
		t.Errorf("it ends with\n%s", last)
	}
	full := Plan(largePlan(), nil, Style{Full: true, KindName: strings.ToLower})
	for i := range 200 {
		if want := fmt.Sprintf("component_version: %d → 0", i); !strings.Contains(full, want) {
			t.Fatalf("--full does not show %q", want)
		}
	}
	t.Logf("%d lines, %d with --full", strings.Count(text, "\n"), strings.Count(full, "\n"))
}

// TestPlanShowsPolicies: each failed policy is shown once, after the removals.
func TestPlanShowsPolicies(t *testing.T) {
	t.Parallel()
	plan := largePlan()
	plan.Policies = []api.PolicyVerdict{
		{ID: "stages", Action: "deny", Failed: true, Message: "changes 200 clusters", Clusters: 200},
		{ID: "ticket", Action: "warn", Failed: true, Message: "no ticket"},
		{ID: "holds", Action: "deny"},
	}
	plan.Warnings = append(plan.Warnings, `the change would be refused: policy "stages": changes 200 clusters`, `policy "ticket": no ticket`)
	text := Plan(plan, nil, Style{KindName: strings.ToLower})
	want := "Flux would uninstall 200 things.\nPolicy stages refuses the change: changes 200 clusters (200 clusters)\nPolicy ticket warns: no ticket\nConfirmation"
	if !strings.Contains(text, want) || strings.Count(text, "ticket") != 2 || strings.Contains(text, "holds") {
		t.Errorf("no %q in\n%s", want, text)
	}
}

package ui_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestButtonsByRight: the page offers a change to a visitor only if the visitor's access documents permit it.
func TestButtonsByRight(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.enableChanges()
	env.createRollout("grafana-8.2")
	env.act("grafana-8.2", "start")
	env.call(http.MethodPost, "/rollouts", `{"id":"gated","operations":[{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"9"}}],"stages":[{"name":"one","selector":"environment=dev","approval":true}]}`)
	env.call(http.MethodPost, "/freezes", `{"id":"later","reason":"CHG-1","selector":"environment=prod"}`)
	const (
		gold, silver = "/ui/clusters/cluster-0000", "/ui/clusters/cluster-0001"
		component    = "/ui/components/grafana"
		layer        = "/ui/layers/gold"
		change       = "/ui/changes/3"
		rollout      = "/ui/rollouts/grafana-8.2"
		gated        = "/ui/rollouts/gated"
		overview     = "/ui/"
	)
	buttons := []struct{ page, button string }{
		{gold, "cluster-0000/delete"},
		{silver, "cluster-0001/delete"},
		{component, "grafana/delete"},
		{layer, "gold/delete"},
		{change, "/revert"},
		{change, "/restore"},
		{rollout, "grafana-8.2/abort"},
		{rollout, "grafana-8.2/start"},
		{gated, "gated/approve"},
		{gated, "gated/abort"},
		{overview, "freezes/later/end"},
		{overview, "freezes/create-all"},
	}
	for name, test := range map[string]struct {
		may, on string
		offered []int // indexes of buttons
	}{
		"read":     {`["read"]`, ``, nil},
		"plan":     {`["plan"]`, ``, []int{4, 5, 7}}, // the next stage is a preview
		"write":    {`["write"]`, ``, []int{0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11}},
		"approve":  {`["approve"]`, ``, []int{8}},
		"revert":   {`["revert"]`, ``, []int{4, 5, 7}},
		"versions": {`["push_version"]`, `{"components":["grafana"],"kinds":["platform_component","rollout"]}`, []int{4, 5, 6, 7, 9}},
		"gold":     {`["write"]`, `{"selector":"tier=gold"}`, []int{0, 4, 5, 7}},
		"layers":   {`["write"]`, `{"layers":["gol*"]}`, []int{3, 4, 5, 7}},
		"freezes":  {`["write"]`, `{"kinds":["freeze"]}`, []int{4, 5, 7, 10, 11}},
		"prod":     {`["write"]`, `{"kinds":["freeze"],"selector":"environment=prod"}`, []int{4, 5, 7, 10}},
	} {
		env.call(http.MethodPost, "/access", `{"id":"reads-`+name+`","subjects":[{"token":"`+name+`"}],"may":["read"]}`)
		on := ""
		if test.on != "" {
			on = `,"on":` + test.on
		}
		env.call(http.MethodPost, "/access", `{"id":"`+name+`","subjects":[{"token":"`+name+`"}],"may":`+test.may+on+`}`)
		require.Equal(t, http.StatusSeeOther, env.signIn(env.issueToken(name, "scoped")).status, name)
		var offered []int
		for i, b := range buttons {
			page := env.get(b.page)
			require.Equal(t, http.StatusOK, page.status, "%s %s", name, b.page)
			if strings.Contains(page.body, b.button) {
				offered = append(offered, i)
			}
		}
		require.Equal(t, test.offered, offered, name)
	}
}

// TestPlanByRight: where the rights do not permit a change, its plan has the reason in place of the button, and no form applies it.
func TestPlanByRight(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	require.Contains(t, env.get(restorePath).body, "plan_hash")
	sign := func(name, may, on string) {
		env.call(http.MethodPost, "/access", `{"id":"reads-`+name+`","subjects":[{"token":"`+name+`"}],"may":["read"]}`)
		env.call(http.MethodPost, "/access", `{"id":"`+name+`","subjects":[{"token":"`+name+`"}],"may":`+may+on+`}`)
		require.Equal(t, http.StatusSeeOther, env.signIn(env.issueToken(name, "scoped")).status)
	}
	hash := env.planHash("/ui/changes/3/revert")

	sign("planner", `["plan"]`, "")
	page := env.get(restorePath)
	require.Equal(t, http.StatusOK, page.status)
	require.NotContains(t, page.body, "plan_hash")
	require.Equal(t, 1, strings.Count(page.body, "the change would be refused: your access documents permit only to plan it")) // not also as a warning
	env.unchanged(func() {
		require.Equal(t, http.StatusForbidden, env.send(env.client, http.MethodPost, "/ui/changes/3/revert", changeForm{}.form(hash)).status)
	})

	sign("bronze", `["write"]`, `,"on":{"selector":"tier=bronze"}`)
	page = env.get(restorePath)
	require.Equal(t, http.StatusOK, page.status)
	require.NotContains(t, page.body, "plan_hash")
	require.Contains(t, page.body, "no access document of yours permits this change")
	env.unchanged(func() {
		rsp := env.send(env.client, http.MethodPost, "/ui/changes/3/revert", changeForm{}.form(hash))
		require.Equal(t, http.StatusForbidden, rsp.status)
		require.Contains(t, rsp.body, "no access document of yours permits this change")
	})

	sign("reverter", `["revert"]`, "")
	require.NotContains(t, env.get(restorePath).body, "plan_hash", "a restore is no revert")
	done := env.send(env.client, http.MethodPost, "/ui/changes/3/revert", changeForm{}.form(env.planHash("/ui/changes/3/revert")))
	require.Equal(t, http.StatusSeeOther, done.status, done.body)
}

// TestAllRightsSeeTheSamePage: a person with all rights sees the page of a token of role admin.
func TestAllRightsSeeTheSamePage(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	all := env.createToken(`{"name":"ann","role":"scoped"}`)
	env.call(http.MethodPost, "/access", `{"id":"ann","subjects":[{"token":"ann"}],"may":["read","plan","write","revert","push_version","approve","override_freeze","admin"]}`)
	admin := env.createToken(`{"name":"bob","role":"admin"}`)
	ages := regexp.MustCompile(` · \d+ (s|min|h) old|\d+ (s|min|h)\b( ago)?|just now`) // a second may pass between the two
	for _, path := range []string{"/ui/clusters/cluster-0002", "/ui/components/grafana", "/ui/layers/gold", "/ui/changes/3", "/ui/changes/3/revert", "/ui/clusters/cluster-0002/protect"} {
		var pages []string
		for name, token := range map[string]string{"ann": all, "bob": admin} {
			require.Equal(t, http.StatusSeeOther, env.signIn(token).status)
			page := env.get(path)
			require.Equal(t, http.StatusOK, page.status)
			pages = append(pages, ages.ReplaceAllString(strings.ReplaceAll(page.body, name, "NAME"), ""))
		}
		require.Equal(t, pages[0], pages[1], path)
	}
}

// TestLimitedReadersRevertNothing: a revert needs read without limits, so the page offers none to others.
func TestLimitedReadersRevertNothing(t *testing.T) {
	t.Parallel()
	env := setup(t, 3)
	env.enableChanges()
	for name, on := range map[string]string{"limited": `,"on":{"kinds":["layer"]}`, "unlimited": ""} {
		token := env.issueToken(name, "scoped")
		env.call(http.MethodPost, "/access", `{"id":"`+name+`","subjects":[{"token":"`+name+`"}],"may":["read","plan","write","revert"]`+on+`}`)
		env.signIn(token)
		page := env.get("/ui/changes/1")
		require.Equal(t, http.StatusOK, page.status)
		require.Equal(t, on == "", strings.Contains(page.body, "/ui/changes/1/revert"), name)
		require.Equal(t, on == "", strings.Contains(page.body, "Restore this version"), name)
		require.Equal(t, on == "", env.get("/ui/changes/1/revert").status == http.StatusOK, name)
	}
}

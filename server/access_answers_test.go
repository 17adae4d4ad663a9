package server_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answersDocuments are a visible, a hidden and a missing document of each kind, by the kind and its collection.
var answersDocuments = map[[2]string][]string{
	{"cluster", "/clusters"}: {"web-01", "zebra-01", "gone"}, {"platform_component", "/platform_components"}: {"web-app", "base", "zebra-app", "gone"},
	{"namespace", "/namespaces"}: {"web-ns", "zebra-ns", "gone"}, {"rolebinding", "/rolebindings"}: {"web-rb", "zebra-rb", "gone"},
	{"layer", "/layers"}: {"web", "all", "zebra-layer", "gone"}, {"freeze", "/freezes"}: {"web-freeze", "zebra-freeze", "gone"},
	{"resource/quotas", "/resources/quotas"}: {"small", "zebra-quota", "gone"}, {"resource/zebratypes", "/resources/zebratypes"}: {"zebra-resource", "gone"},
	{"rollout", "/rollouts"}: {"web-approval", "base-approval", "gone"}, {"strategy", "/strategies"}: {"zebra-strategy", "gone"},
}

// changeOf returns a change that affects the answers to every cluster that uses a document, and that is another one for each n.
func changeOf(kind, collection, id string, n int) (method, path, body string) {
	path = collection + "/" + id
	bodies := map[string]string{
		"cluster": `{"cluster_name":"n%d"}`, "platform_component": `{"component_path":"p%d"}`, "namespace": `{"annotations":{"n":"%d"}}`,
		"rolebinding": `{"role":"r%d"}`, "layer": `{"description":"d%d"}`, "freeze": `{"reason":"r%d"}`, "resource/quotas": `{"spec":{"cpu":%d}}`,
		"resource/zebratypes": `{"spec":{"zebra":"%d"}}`, "strategy": `{"stages":[{"name":"n%d","selector":"team=zebra"}]}`,
	}
	switch kind {
	case "rollout":
		return "POST", path + "/pause", ""
	case "strategy":
		return "PUT", path, fmt.Sprintf(bodies[kind], n)
	}
	return "PATCH", path, fmt.Sprintf(bodies[kind], n)
}

// TestAnswersAboutRights: the answer about the own rights, the answer to an admin, and the attempt itself agree, for each right, kind and
// document, with several combinations of access documents. No answer about the own rights names a hidden document.
func TestAnswersAboutRights(t *testing.T) {
	t.Parallel()
	const everyKind = `"kinds":["cluster","layer","platform_component","namespace","rolebinding","freeze","resource/quotas","rollout"]`
	for name, grants := range map[string][][2]string{
		"reads":                  {{`["read"]`, ""}},
		"reads a team":           {{`["read"]`, `{"selector":"team=web"}`}},
		"everything":             {{`["read"]`, ""}, {`["write"]`, ""}},
		"plans":                  {{`["read"]`, ""}, {`["plan"]`, `{"selector":"team=web",` + everyKind + `}`}},
		"a team":                 {{`["read"]`, ""}, {`["write","approve"]`, `{"selector":"team=web",` + everyKind + `}`}},
		"a limited team":         {{`["read","write"]`, `{"selector":"team=web","kinds":["cluster","layer"]}`}},
		"a limited team, wide":   {{`["read","write","push_version"]`, `{"selector":"team=web",` + everyKind + `}`}, {`["write"]`, ""}},
		"kinds":                  {{`["read"]`, ""}, {`["write"]`, `{"kinds":["namespace","layer","strategy"]}`}},
		"limited by kinds":       {{`["read","write"]`, `{"kinds":["namespace","rolebinding","layer","resource/quotas"]}`}},
		"versions":               {{`["read"]`, ""}, {`["push_version"]`, `{"components":["web-*","zebra-*"]}`}},
		"versions of a team":     {{`["read"]`, `{"selector":"team=web"}`}, {`["push_version"]`, `{"components":["web-*","base"]}`}},
		"approves rollouts":      {{`["read"]`, ""}, {`["approve"]`, `{"kinds":["rollout"]}`}},
		"approves components":    {{`["read"]`, ""}, {`["approve"]`, `{"kinds":["rollout","platform_component"]}`}},
		"approves of a team":     {{`["read"]`, ""}, {`["approve"]`, `{"selector":"team=web","kinds":["rollout","platform_component"]}`}},
		"approves, reads a team": {{`["read"]`, `{"selector":"team=web"}`}, {`["approve"]`, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := twoTeams(t)
			w.pin("web-01", "null")
			w.pin("zebra-01", "null")
			for _, rollout := range []string{"web-rollout", "shared", "zebra-rollout", "zebra-both"} {
				w.post("/rollouts/"+rollout+"/abort", "")
				w.delete("/rollouts/" + rollout)
			}
			as := bearer(w.issue(scopedBody).secret)
			may := ""
			for i, g := range grants {
				w.create("/access", accessFor(fmt.Sprint("grant-", i), g[0], g[1]))
				may += g[0]
			}
			asked := 0
			ask := func(question string) bool {
				t.Helper()
				own := w.post("/access/check", `{`+question+`}`, as...).want(200)
				admin := w.check(`{"token":"ci-web"}`, question)
				require.Equal(t, own.json()["allowed"], admin["allowed"], "%s: own %s, as admin %v", question, own.body, admin)
				if strings.Contains(grants[0][1], "selector") && !strings.Contains(question, "zebra") {
					require.NotContains(t, string(own.body), "zebra", question)
				}
				asked++
				return own.json()["allowed"].(bool)
			}
			try := func(method, path, body, what string, want bool) {
				t.Helper()
				headers := as
				if method == "PATCH" {
					headers = append([]string{"Content-Type", mergePatchType}, as...)
				}
				got := w.do(method, path, body, headers...)
				require.Equal(t, want, got.status != 403 && got.status != 404, "%s: %s %s: %s", what, method, path, got.body)
			}
			n := 0
			for _, of := range slices.SortedFunc(maps.Keys(answersDocuments), func(a, b [2]string) int { return strings.Compare(a[0], b[0]) }) {
				kind, collection := of[0], of[1]
				if kind == "rollout" { // open rollouts refuse changes of their documents
					for i, component := range []string{"web-app", "base"} {
						w.create("/rollouts", fmt.Sprintf(`{"id":"%s-approval","operations":[{"op":"patch","kind":"platform_component","id":"%s","patch":{"component_version":"3.0.0"}}],"stages":[{"name":"a","selector":"team=web","approval":true},{"name":"b","selector":"team=zebra"}]}`, []string{"web", "base"}[i], component))
					}
				}
				for _, id := range answersDocuments[of] {
					n++
					on := func(right string) string { return fmt.Sprintf(`"right":%q,"kind":%q,"id":%q`, right, kind, id) }
					try("GET", collection+"/"+id, "", on("read"), ask(on("read")))
					method, path, body := changeOf(kind, collection, id, n)
					mayWrite, mayPush := ask(on("write")), ask(on("push_version"))
					if !strings.Contains(may, "write") && kind != "rollout" {
						try(method, path+"?dry_run=true", body, on("plan"), ask(on("plan")))
					}
					if kind != "rollout" || !strings.Contains(may, "push_version") {
						try(method, path, body, on("write"), mayWrite)
					}
					if kind == "platform_component" {
						try("PATCH", path, fmt.Sprintf(`{"component_version":"9.%d.0"}`, n), on("push_version"), mayWrite || mayPush)
					}
					if kind == "rollout" {
						try("POST", collection+"/"+id+"/approve", `{"stage":"a"}`, on("approve"), ask(on("approve")))
					} else {
						require.False(t, ask(on("approve")), on("approve"))
					}
				}
			}
			for kind, create := range map[string][3]string{
				"cluster":   {"/clusters", "new", `{"id":"new","cluster_dns":"new.example.com","environment":"dev","labels":{"team":"web"}}`},
				"layer":     {"/layers", "new", `{"id":"new","priority":500,"selector":"team=web"}`},
				"freeze":    {"/freezes", "new", `{"id":"new","reason":"r","selector":"team=web","from":"2031-01-01T00:00:00Z"}`},
				"namespace": {"/namespaces", "new", `{"id":"new"}`},
			} {
				question := fmt.Sprintf(`"right":"write","kind":%q,"id":%q,"create":true`, kind, create[1])
				try("POST", create[0], create[2], question, ask(question))
			}
			t.Logf("%d questions", asked)
		})
	}
}

package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// randomFleet returns documents of all kinds of files, as a file has them. Clusters of each trip have other DNS names: a deleted cluster keeps
// its name until Flux has removed its objects.
func randomFleet(r *rand.Rand, trip int) map[string][]map[string]any {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	maybe := func(doc map[string]any, field string, value any) {
		if r.IntN(2) == 0 {
			doc[field] = value
		}
	}
	fleet := map[string][]map[string]any{}
	add := func(list string, doc map[string]any) { fleet[list] = append(fleet[list], doc) }
	each := func(most int, each func(i int)) {
		for i := range r.IntN(most + 1) {
			each(i)
		}
	}
	add("platform_components", map[string]any{"id": "app", "component_path": "app", "oci_url": "https://charts.example.com", "component_version": "1.0.0"})
	add("namespaces", map[string]any{"id": "team"})
	stages := func() (out []map[string]any) {
		for i := range 1 + r.IntN(3) {
			stage := map[string]any{"name": fmt.Sprint("s", i)}
			switch r.IntN(3) {
			case 0:
				stage["selector"] = pick("environment=dev", "tier in (a,b),!x")
			case 1:
				stage["cluster_ids"] = []string{"c0", "c1"}[:1+r.IntN(2)]
			default:
				stage["all"] = true
			}
			maybe(stage, "approval", r.IntN(2) == 0)
			if stage["cluster_ids"] == nil {
				maybe(stage, "percent", 1+r.IntN(100))
			}
			maybe(stage, "gate", map[string]any{"soak": "10m", "confirmed": "90%", "deadline": "3h"})
			out = append(out, stage)
		}
		return out
	}
	each(3, func(i int) {
		doc := map[string]any{"id": fmt.Sprint("st", i), "stages": stages()}
		maybe(doc, "description", pick("", "waves: first \"dev\"", "ünïcode"))
		maybe(doc, "gate", map[string]any{"soak": pick("0s", "24h"), "deadline": "48h"})
		add("strategies", doc)
	})
	each(3, func(i int) {
		doc := map[string]any{"id": fmt.Sprint("f", i), "reason": pick("CHG-1", "a: b # c")}
		if r.IntN(2) == 0 {
			doc["all"] = true
		} else {
			doc["selector"] = pick("environment=prod", "tier!=a")
		}
		doc["from"] = "2030-01-01T00:00:00Z"
		maybe(doc, "until", "2031-01-01T00:00:00.5Z")
		add("freezes", doc)
	})
	each(4, func(i int) {
		may := []string{"read"}
		for _, right := range []string{"plan", "write", "revert", "push_version", "approve", "override_freeze"} {
			if r.IntN(2) == 0 {
				may = append(may, right)
			}
		}
		doc := map[string]any{"id": fmt.Sprint("a", i), "may": may}
		doc["subjects"] = []map[string]any{{"token": "ci"}, {"issuer": "corp", "groups": []string{"g", "h i"}, "claims": map[string]string{"ref": "refs/*"}}}[r.IntN(2):]
		on := map[string]any{}
		maybe(on, "selector", pick("environment=dev", "tier=a"))
		maybe(on, "kinds", []string{"cluster", "layer", "freeze", "rollout", "platform_component"})
		if len(on) > 0 {
			if on["selector"] != nil {
				maybe(on, "labels", []string{"web/*", "tier"})
			}
			doc["on"] = on
		}
		maybe(doc, "expires_at", "2099-01-01T00:00:00Z")
		maybe(doc, "description", pick("", "the team"))
		add("access", doc)
	})
	each(2, func(i int) {
		doc := map[string]any{"id": fmt.Sprint("w", i), "url": "https://hooks.example.com/" + pick("fleet", "x/y")}
		maybe(doc, "kinds", []string{"layer", "access"})
		maybe(doc, "events", []string{"fleet.rollout.paused"})
		maybe(doc, "format", pick("standard", "slack", "teams"))
		maybe(doc, "suspended", r.IntN(2) == 0)
		add("webhooks", doc)
	})
	each(2, func(i int) {
		doc := map[string]any{"id": fmt.Sprint("p", i), "rule": pick("effect.clusters.size() <= 2000", "true"), "action": pick("deny", "warn", "approve")}
		maybe(doc, "match", map[string]any{"environments": []string{"prod"}})
		maybe(doc, "match", map[string]any{"selector": "tier=a"})
		maybe(doc, "message", `"changes " + string(effect.clusters.size()) + " clusters"`)
		maybe(doc, "description", "Only in stages.")
		maybe(doc, "suspended", r.IntN(2) == 0)
		add("policies", doc)
	})
	each(2, func(i int) {
		doc := map[string]any{"id": fmt.Sprint("l", i), "priority": 10 + i, "selector": pick("environment=dev", "tier=a")}
		maybe(doc, "platform_components", []map[string]any{{"id": "app"}})
		maybe(doc, "patches", map[string]any{"app": map[string]any{"replicas": strconv.Itoa(r.IntN(9))}})
		add("layers", doc)
	})
	for i := range 1 + r.IntN(3) {
		doc := map[string]any{"id": fmt.Sprint("c", i), "cluster_dns": fmt.Sprintf("c%d-%d.example.com", i, trip), "environment": pick("dev", "prod"), "labels": map[string]string{"tier": pick("a", "b")}}
		maybe(doc, "namespaces", []map[string]any{{"id": "team"}})
		add("clusters", doc)
	}
	return fleet
}

// TestRoundTrip: an export of a random fleet of all kinds, applied to an empty server, makes the same documents, the same rights and the
// same answers to clusters, and an export applied to its own server changes nothing. ROUND_TRIPS sets the number of fleets.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	trips := 3
	if n, err := strconv.Atoi(os.Getenv("ROUND_TRIPS")); err == nil {
		trips = n
	}
	settings := []string{"DATABASE_URL=sqlite::memory:", "WEBHOOK_KEY=" + strings.Repeat("k", 32), "PUBLIC_URL=https://fleet.example.com", "MAX_REMOVALS=100000"}
	first, second := serve(t, settings...).String(), serve(t, settings...).String()
	command := func(server string, args ...string) result {
		t.Helper()
		got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": server, "FLUX_API_TOKEN": "write-token", "FLUX_API_WRITE_TOKEN": "write-token"}, args...)
		if got.code != 0 {
			t.Fatalf("%v: %d %s", args, got.code, got.stderr)
		}
		return got
	}
	for _, server := range []string{first, second} {
		command(server, "token", "create", "ci", "--role", "scoped", "--quiet")
	}
	dir := t.TempDir()
	seed := uint64(os.Getpid())
	for i := range trips {
		fleet := randomFleet(rand.New(rand.NewPCG(seed, uint64(i))), i)
		text, err := json.Marshal(fleet)
		if err != nil {
			t.Fatal(err)
		}
		file, split := filepath.Join(dir, "fleet.json"), filepath.Join(dir, fmt.Sprint("split", i))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		command(first, "apply", "-f", file, "--yes")
		exported := command(first, "export")
		if got := command(first, "export", "--split", split); !strings.Contains(got.stderr, "written to") {
			t.Fatal(got.stderr)
		}
		yaml := filepath.Join(dir, "fleet.yaml")
		if err := os.WriteFile(yaml, []byte(exported.stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := command(first, "apply", "-f", yaml, "--yes"); !strings.Contains(got.stderr+got.stdout, "0 created, 0 changed, 0 deleted") {
			t.Fatalf("seed %d, fleet %d: its own export changes it: %s%s\n%s", seed, i, got.stdout, got.stderr, text)
		}
		command(second, "apply", "-f", split, "--yes")
		if again := command(second, "export"); again.stdout != exported.stdout {
			t.Fatalf("seed %d, fleet %d: the export of the copy differs\n%s\n%s", seed, i, exported.stdout, again.stdout)
		}
		for _, path := range answersAndRights(fleet) {
			if a, b := fetched(t, first, path), fetched(t, second, path); a != b {
				t.Fatalf("seed %d, fleet %d: %v: %s and %s", seed, i, path, a, b)
			}
		}
		// Both servers are empty again, but for their history.
		for _, server := range []string{first, second} {
			deleteAll(t, server, fleet)
		}
	}
}

// TestNumbersInExports: an export changes nothing on its own server, however a client of the API spelled a number.
func TestNumbersInExports(t *testing.T) {
	t.Parallel()
	server := realServer(t)
	variables := map[string]string{"FLUX_API_URL": server, "FLUX_API_TOKEN": "write-token"}
	const values = `{"a":2.0,"b":1e6,"c":[0.10,-0,1000000.0],"d":{"e":3.14159265358979323846,"f":1e-7,"g":123456789012345}}`
	fetched(t, server, [2]string{"/batch", `{"operations":[
		{"op":"create","kind":"platform_component","id":"app","document":{"id":"app","oci_url":"https://charts.example.com","component_path":"app"}},
		{"op":"create","kind":"cluster","id":"c","document":{"id":"c","cluster_dns":"c.example.com","environment":"dev","platform_components":[{"id":"app"}],"patches":{"app":{"v":` + values + `}}}}]}`})
	export := run(t, cli.Env{}, variables, "export").stdout
	env := cli.Env{Stdin: strings.NewReader(export)}
	if got := run(t, env, variables, "diff", "-f", "-"); got.code != 0 || !strings.Contains(export, "1000000") {
		t.Errorf("exit code %d\n%s%s\n%s", got.code, got.stdout, got.stderr, export)
	}
}

// answersAndRights returns requests whose answers depend on the whole fleet: polls of clusters, and each right of each subject on each document.
func answersAndRights(fleet map[string][]map[string]any) (requests [][2]string) {
	for _, doc := range fleet["clusters"] {
		for _, list := range []string{"platform-components", "namespaces"} {
			requests = append(requests, [2]string{"/api/v2/flux/clusters/" + doc["cluster_dns"].(string) + "/" + list})
		}
	}
	kinds := map[string]string{"clusters": "cluster", "layers": "layer", "platform_components": "platform_component", "freezes": "freeze", "strategies": "strategy"}
	for list, docs := range fleet {
		for _, doc := range docs {
			if kinds[list] == "" {
				continue
			}
			for _, right := range []string{"read", "plan", "write", "revert", "push_version", "approve", "override_freeze"} {
				for _, subject := range []string{`{"token":"ci"}`, `{"issuer":"corp","groups":["h i"],"claims":{"ref":"refs/heads/main"}}`} {
					requests = append(requests, [2]string{"/access/check", fmt.Sprintf(`{"subject":%s,"right":%q,"kind":%q,"id":%q}`, subject, right, kinds[list], doc["id"])})
				}
			}
		}
	}
	return requests
}

// fetched returns the body of an answer.
func fetched(t *testing.T, server string, request [2]string) string {
	t.Helper()
	method := http.MethodGet
	if request[1] != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), method, server+request[0], strings.NewReader(request[1]))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer write-token")
	req.Header.Set("Content-Type", "application/json")
	rsp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rsp.Body.Close() }()
	body, err := io.ReadAll(rsp.Body)
	if err != nil || rsp.StatusCode != http.StatusOK {
		t.Fatalf("%v: %d %s %v", request, rsp.StatusCode, body, err)
	}
	return string(body)
}

// deleteAll deletes documents, those that refer to others first.
func deleteAll(t *testing.T, server string, fleet map[string][]map[string]any) {
	t.Helper()
	var ops []map[string]any
	for _, list := range [][2]string{{"clusters", "cluster"}, {"layers", "layer"}, {"webhooks", "webhook"}, {"policies", "policy"}, {"access", "access"}, {"freezes", "freeze"}, {"strategies", "strategy"}, {"namespaces", "namespace"}, {"platform_components", "platform_component"}} {
		for _, doc := range fleet[list[0]] {
			op := map[string]any{"op": "delete", "kind": list[1], "id": doc["id"]}
			if list[1] == "cluster" {
				op["mode"] = "orphan"
			}
			ops = append(ops, op)
		}
	}
	body, err := json.Marshal(map[string]any{"operations": ops})
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		PlanHash string `json:"plan_hash"`
	}
	if err := json.Unmarshal([]byte(fetched(t, server, [2]string{"/plan", string(body)})), &plan); err != nil {
		t.Fatal(err)
	}
	body, _ = json.Marshal(map[string]any{"operations": ops, "plan_hash": plan.PlanHash})
	fetched(t, server, [2]string{"/batch", string(body)})
}

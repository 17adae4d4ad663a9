package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

const planAnswer = `{"base_revision":4,"plan_hash":"abc","confirmation_required":true,"confirmation_reason":"4 are more than 3",
	"changes":[{"kind":"cluster","id":"c1","action":"update"},{"kind":"cluster","id":"c2","action":"update"}],
	"groups":[{"clusters":["c1","c2"],"effect":{"platform-components":{"added":[{"id":"new\u001b[2J"}],"removed":["p"],"changed":[
		{"id":"q","removal":true,"fields":[{"pointer":"/enabled","before":true,"after":false}]},
		{"id":"r","removal":false,"fields":[
			{"pointer":"/patches/a.b~1c","after":"1"},{"pointer":"/values/a/b~1c","after":1},{"pointer":"/source/oci_tag","before":"v1","after":null}]}
	]}}}],
	"results":[],"totals":{"clusters":2,"added":2,"changed":4,"removed":2,"removals":4},"warnings":["take\u001b care"]}`

// protectedPlan is the plan with two removals in production.
var protectedPlan = strings.Replace(strings.Replace(planAnswer, `"confirmation_required":true,"confirmation_reason":"4 are more than 3"`, `"confirmation_required":false`, 1),
	`"results":[]`, `"results":[],"protected":[{"environment":"prod","clusters":1,"removals":2}]`, 1)

// planner is a server that rejects a batch without the hash of its plan.
func planner(t *testing.T, requests *[]string) string { return plannerOf(t, planAnswer, requests) }

func plannerOf(t *testing.T, plan string, requests *[]string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body strings.Builder
		_ = r.Write(&body)
		call := r.Method + " " + r.URL.Path
		if strings.Contains(body.String(), `"plan_hash":"abc"`) {
			call += " with hash"
		}
		if strings.Contains(body.String(), "X-Fleet-Removes-From: prod\r\n") {
			call += " from prod"
		} else if !strings.Contains(body.String(), "X-Fleet-Removes-From: ") && r.URL.Path != "/plan" {
			t.Errorf("sent without care: %s", body.String())
		}
		*requests = append(*requests, call)
		w.Header().Set("Content-Type", "application/json")
		switch call {
		case "POST /plan":
			_, _ = w.Write([]byte(plan))
		case "POST /batch":
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"error":"confirmation_required","detail":"too much"}`))
		case "POST /batch with hash", "POST /batch from prod", "POST /batch with hash from prod":
			_, _ = w.Write([]byte(`{"revision":5,"changes":[{"kind":"cluster","id":"c1","action":"update"}]}`))
		default:
			t.Errorf("unexpected %s", call)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestConfirmation: a change for which the server requires confirmation is shown and prompted for once at a terminal.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	const shown, agreed = "POST /plan", "POST /plan|POST /batch with hash"
	const refused, done = "POST /batch|POST /plan", "POST /batch|POST /plan|POST /batch with hash"
	for _, test := range []struct {
		name, args, reply string
		terminal          bool
		requests          string
		code              int
	}{
		{"yes at the terminal", "component set p --all --enabled", "y\n", true, agreed, 0},
		{"no at the terminal", "component set p --all --enabled", "n\n", true, shown, 1},
		{"nobody there", "component set p --all --enabled", "", false, refused, 1},
		{"--yes says that it is meant, not how much", "component set p --all --enabled --yes", "", false, refused, 1},
		{"--yes at the terminal", "component set p --all --enabled --yes", "y\n", true, done, 0},
		{"--max-removals", "component set p --all --enabled --max-removals 4", "", false, agreed, 0},
		{"too few --max-removals", "component set p --all --enabled --max-removals 3", "", false, shown, 1},
		{"too few --max-removals with --yes", "component set p --all --enabled --max-removals 3 --yes", "", true, shown, 1},
		{"--max-removals at the terminal", "component set p --all --enabled --max-removals 4", "y\n", true, agreed, 0},
		{"--max-removals with --yes at the terminal", "component set p --all --enabled --max-removals 4 --yes", "", true, agreed, 0},
		{"--max-removals that is no number", "component set p --all --enabled --max-removals -1", "", false, "", 2},
		{"--plan-hash", "component set p --all --enabled --plan-hash abc", "", false, "POST /batch with hash", 0},
		{"a dry run changes nothing", "component set p --all --enabled --dry-run", "", false, done, 0},
		{"removal at the terminal", "component unassign p --all", "y\n", true, agreed, 0},
		{"removal refused at the terminal", "component unassign p --all", "\n", true, shown, 1},
		{"removal, nobody there", "component unassign p --all", "", false, "", 2},
		{"removal with --yes", "component unassign p --all --yes", "", false, refused, 1},
		{"removal with --max-removals", "component unassign p --all --yes --max-removals 4", "", false, agreed, 0},
		{"removal with --max-removals alone", "component unassign p --all --max-removals 4", "", false, agreed, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var requests []string
			env := cli.Env{StdinTerminal: test.terminal, StdoutTerminal: test.terminal, StderrTerminal: test.terminal, Stdin: strings.NewReader(test.reply)}
			got := run(t, env, map[string]string{"FLUX_API_URL": planner(t, &requests)}, strings.Fields(test.args)...)
			if sent := strings.Join(requests, "|"); sent != test.requests || got.code != test.code {
				t.Errorf("exit %d, sent %s; want %d, %s\n%s", got.code, sent, test.code, test.requests, got.stderr)
			}
			asked := strings.Count(got.stderr, "? [y/N] ")
			if want := strings.Count(test.reply, "\n"); asked != want || strings.Contains(got.stdout, "REMOVED") {
				t.Errorf("asked %d times, want %d; the plan belongs on standard error\n%s%s", asked, want, got.stdout, got.stderr)
			}
			if asked > 0 && !strings.Contains(got.stderr, "Flux would uninstall 4 things") {
				t.Errorf("asked without showing the plan:\n%s", got.stderr)
			}
		})
	}
}

// TestProtectedEnvironments: a removal in a protected environment is confirmed by typing its name once, or by a flag in scripts.
// Before the prompt, the plan, the server and the context are shown.
func TestProtectedEnvironments(t *testing.T) {
	t.Parallel()
	const shown, refused, agreed = "POST /plan", "POST /batch|POST /plan", "POST /plan|POST /batch with hash"
	for _, test := range []struct {
		name, args, reply string
		terminal          bool
		requests          string
		code              int
	}{
		{"the name", "component unassign p --all", "prod\n", true, agreed, 0},
		{"y is not enough", "component unassign p --all", "y\n", true, shown, 1},
		{"another name", "component unassign p --all", "prd\n", true, shown, 1},
		{"nothing", "component unassign p --all", "", true, shown, 1},
		{"what is not called destructive", "component set p --all --enabled", "prod\n", true, agreed, 0},
		{"--yes at the terminal is not enough", "component unassign p --all --yes", "prod\n", true, refused + "|POST /batch with hash", 0},
		{"named on the command line: the plan is still asked about", "component unassign p --all --confirm prod", "y\n", true, "POST /plan|POST /batch with hash from prod", 0},
		{"script", "component unassign p --all --yes", "", false, refused, 1},
		{"script with another name", "component unassign p --all --yes --confirm dev", "", false, refused, 1},
		{"script that names it", "component unassign p --all --yes --confirm prod", "", false, "POST /batch from prod", 0},
		{"script that only names it", "component unassign p --all --confirm prod", "", false, "", 2},
		{"script with --max-removals", "component unassign p --all --max-removals 4", "", false, agreed, 0},
		{"script with a plan", "component unassign p --all --plan-hash abc", "", false, "POST /batch with hash", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var requests []string
			env := cli.Env{StdinTerminal: test.terminal, StdoutTerminal: test.terminal, StderrTerminal: test.terminal, Stdin: strings.NewReader(test.reply)}
			url := plannerOf(t, protectedPlan, &requests)
			got := run(t, env, map[string]string{"FLUX_API_URL": url, "NO_COLOR": "1"}, strings.Fields(test.args)...)
			sent := strings.ReplaceAll(strings.Join(requests, "|"), "POST /plan from prod", "POST /plan")
			if strings.Contains(test.args, "dev") {
				sent = strings.ReplaceAll(sent, " from dev", "")
			}
			if sent != test.requests || got.code != test.code {
				t.Errorf("exit %d, sent %s; want %d, %s\n%s", got.code, sent, test.code, test.requests, got.stderr)
			}
			named := strings.Contains(test.args, "--confirm prod")
			if asked, want := strings.Count(got.stderr, ", type prod: "), test.terminal && !named; (asked == 1) != want {
				t.Errorf("asked for the name %d times, want %v\n%s", asked, want, got.stderr)
			}
			if test.terminal && !strings.Contains(got.stderr, "Flux would uninstall 4 things.\nPlan hash abc, made at revision 4.\n\nOn "+url+"\nProtected: 2 things on 1 cluster in prod.\n") {
				t.Errorf("asked without saying what and where:\n%s", got.stderr)
			}
			if !test.terminal && test.code == 1 && !strings.Contains(got.stderr, "repeat the command with --confirm prod, --max-removals 4, or with the --plan-hash") {
				t.Errorf("a script is not told what to do:\n%s", got.stderr)
			}
		})
	}
}

// TestPlanForPeople: removals in red, totals last, no repetition, no control characters of the server.
func TestPlanForPeople(t *testing.T) {
	t.Parallel()
	var requests []string
	variables := map[string]string{"FLUX_API_URL": planner(t, &requests)}
	args := strings.Fields("component set p --all --enabled --plan")
	got := run(t, cli.Env{StdoutTerminal: true}, variables, args...)
	const want = "\x1b[1m2 clusters:\x1b[0m c1, c2\n" +
		"  platform-components\n" +
		"    \x1b[31m- p   REMOVED: Flux uninstalls it\x1b[0m\n" +
		"    \x1b[31m~ q   REMOVED: Flux uninstalls it\x1b[0m\n" +
		"        enabled: true → false\n" +
		"    ~ r\n" +
		"        patches[a.b/c]: (none) → \"1\"\n" +
		"        source.oci_tag: \"v1\" → (none)\n" +
		"    \x1b[32m+ new?[2J\x1b[0m\n\n" +
		"\x1b[33mWarning:\x1b[0m take? care\n\n" +
		"Documents: update cluster/c1, update cluster/c2\n" +
		"2 documents would change; inputs of 2 clusters: 2 added, 4 changed, 2 removed.\n" +
		"\x1b[31mFlux would uninstall 4 things.\x1b[0m\n" +
		"\x1b[31mConfirmation required: at a terminal, with --max-removals, or with the plan hash.\x1b[0m\n" +
		"Because 4 are more than 3.\n" +
		"Plan hash abc, made at revision 4.\n"
	if got.stdout != want || got.code != 1 {
		t.Errorf("exit %d\ngot  %q\nwant %q", got.code, got.stdout, want)
	}
	variables["NO_COLOR"] = "1"
	if got := run(t, cli.Env{StdoutTerminal: true}, variables, args...); strings.Contains(got.stdout, "\x1b") {
		t.Errorf("NO_COLOR: %q", got.stdout)
	}
	if got := run(t, cli.Env{}, variables, append(args, "-o", "table")...); strings.Contains(got.stdout, "\x1b") {
		t.Errorf("colours in a file: %q", got.stdout)
	}
}

// TestPlanWithoutUninstallation: clusters that leave a list are counted, and Flux uninstalls nothing on them. A renamed object of a
// resource type is deleted.
func TestPlanWithoutUninstallation(t *testing.T) {
	t.Parallel()
	for answer, wants := range map[string][]string{
		`{"base_revision":4,"plan_hash":"abc","confirmation_required":true,"totals":{"clusters":0,"added":0,"changed":0,"removed":0,"removals":2,"leaving":2},
			"changes":[{"kind":"cluster","id":"c1","action":"update"}],"groups":[],"ownership":[],"results":[],"warnings":[]}`: {
			"2 clusters would leave a list of clusters that is polled, or a protected environment; each counts as one removal.",
		},
		`{"base_revision":4,"plan_hash":"abc","confirmation_required":false,"totals":{"clusters":1,"added":0,"changed":1,"removed":0,"removals":1},
			"changes":[{"kind":"resource/volumes","id":"v","action":"update"}],"groups":[{"clusters":["c1"],"effect":{"volumes":{"added":[],"removed":[],
			"changed":[{"id":"v","removal":true,"fields":[{"pointer":"/namespace","before":"data","after":"store"}]}]}}}],"ownership":[],"results":[],"warnings":[]}`: {
			"~ v   REMOVED: Flux deletes its object and creates one of another name", `namespace: "data" → "store"`, "Flux would uninstall 1 thing.",
		},
	} {
		var requests []string
		got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": plannerOf(t, answer, &requests)}, strings.Fields("component set p --all --enabled --plan -o table")...)
		for _, want := range wants {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("no %q in\n%s%s", want, got.stdout, got.stderr)
			}
		}
		if strings.Contains(got.stdout, "uninstall") == strings.Contains(answer, "leaving") {
			t.Errorf("what Flux uninstalls: %s", got.stdout)
		}
	}
}

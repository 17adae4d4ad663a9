package cli_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

const (
	sourcePlan = `200 {"base_revision":4,"plan_hash":"abc","confirmation_required":false,"totals":{"clusters":1,"added":1,"changed":0,"removed":0,"removals":0},` +
		`"changes":[{"kind":"cluster","id":"c1","action":"create"}],"groups":[{"clusters":["c1"],"effect":{"namespaces":{"added":[{"id":"shop"}],"changed":[],"removed":[]}}}],` +
		`"adopted":[{"kind":"platform_component","id":"podinfo","file":"fleet/podinfo.yaml"}],"ownership":[],"results":[],"warnings":["look twice"]}`
	adoptionPlan = `200 {"base_revision":4,"plan_hash":"abc","confirmation_required":false,"totals":{"clusters":0,"added":0,"changed":0,"removed":0,"removals":0},` +
		`"changes":[],"groups":[],"adopted":[{"kind":"namespace","id":"shop","file":"shop.yaml"}],"ownership":[],"results":[],"warnings":[]}`
	approvedSource = `200 {"id":"platform","url":"oci://registry.example.com/fleet","tag":"prod","status":{"state":"held","documents":0,"drifted":[],` +
		`"message":"it would adopt 1 document","held":{"digest":"sha256:4f1c","plan_hash":"abc","code":"confirmation_required","message":"it would adopt 1 document","at":"2026-01-02T03:04:05Z","approved":true}}}`
)

// TestApproveSource: a person sees the plan of the held artifact, and approves this plan and no other. A script names the hash.
func TestApproveSource(t *testing.T) {
	t.Parallel()
	const plan, approve = "GET /sources/platform/plan", "POST /sources/platform/approve"
	for name, test := range map[string]struct {
		args, plan, reply string
		terminal          bool
		code              int
		requests          []string
		shows             []string
	}{
		"yes": {
			args: "source approve platform", plan: sourcePlan, reply: "y\n", terminal: true, requests: []string{plan, approve},
			shows: []string{"1 document that exists: component/podinfo (fleet/podinfo.yaml)", "create cluster/c1", "inputs of 1 cluster: 1 added", "Warning: look twice", "Plan hash abc", "approve this plan? [y/N]"},
		},
		"no":                         {args: "source approve platform", plan: sourcePlan, reply: "n\n", terminal: true, code: 1, requests: []string{plan}, shows: []string{"Plan hash abc"}},
		"documents stay as they are": {args: "source approve platform", plan: adoptionPlan, reply: "n\n", terminal: true, code: 1, requests: []string{plan}, shows: []string{"namespace/shop (shop.yaml)", "[y/N]"}},
		"a hash":                     {args: "source approve platform abc", requests: []string{approve}},
		"only the plan":              {args: "source approve platform --plan", plan: sourcePlan, code: 1, requests: []string{plan}},
		"a script without a hash":    {args: "source approve platform", code: 2, shows: []string{"confirmation required: not a terminal; name the PLAN_HASH that --plan shows"}},
		"a dry run without a hash":   {args: "source approve platform --dry-run", terminal: true, code: 2, shows: []string{"--dry-run needs the PLAN_HASH"}},
		"nothing is held":            {args: "source approve platform", plan: `409 {"error":"conflict","detail":"no artifact of source \"platform\" is held"}`, terminal: true, code: 1, requests: []string{plan}, shows: []string{"is held"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, requests := scripted(t, map[string][]string{plan: {test.plan}, approve: {approvedSource}})
			env := cli.Env{StdinTerminal: test.terminal, StderrTerminal: test.terminal, Stdin: strings.NewReader(test.reply)}
			got := run(t, env, map[string]string{"FLUX_API_URL": url, "NO_COLOR": "1"}, strings.Fields(test.args)...)
			if got.code != test.code || !slices.Equal(*requests, test.requests) {
				t.Errorf("exit %d, want %d; sent %q, want %q\n%s", got.code, test.code, *requests, test.requests, got.stderr)
			}
			for _, want := range test.shows {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("no %q in\n%s", want, got.stderr)
				}
			}
		})
	}
}

// TestApprovedSource: an approval is made by the next check of the server, so the source is still held when source approve prints it. Neither
// its line nor the reasons look as if nobody had approved it.
func TestApprovedSource(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ code, approved, want string }{
		"approved":            {code: "confirmation_required", approved: "true", want: "approved, and applied at the next check"},
		"approved and frozen": {code: "frozen", approved: "true", want: "approved, and applied after the freeze"},
		"not approved":        {code: "confirmation_required", approved: "false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := strings.NewReplacer("confirmation_required", test.code, `"approved":true`, `"approved":`+test.approved).Replace(approvedSource)
			url, _ := scripted(t, map[string][]string{"POST /sources/platform/approve": {source}, "GET /sources/platform": {source}, "GET /sources": {"200 [" + strings.TrimPrefix(source, "200 ") + "]"}})
			for _, command := range []string{"source approve platform abc", "source get platform", "source list"} {
				got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, strings.Fields(command+" -o wide")...)
				if !strings.Contains(got.stdout, "it would adopt 1 document") || strings.Contains(got.stdout, "approved") != (test.want != "") || !strings.Contains(got.stdout, test.want) {
					t.Errorf("%s: not %q in\n%s%s", command, test.want, got.stdout, got.stderr)
				}
			}
		})
	}
}

// TestSourceAccess: source create offers the access document without which a source changes nothing, unless it exists.
func TestSourceAccess(t *testing.T) {
	t.Parallel()
	const create = "source create platform --url oci://registry.example.com/fleet --tag prod"
	const command = "flux-resourceset-cli access create platform --source platform --may write"
	const list, batch = "GET /access", "POST /batch"
	result := func(documents int) string {
		one := `{"op":"create","kind":"source","id":"platform","clusters":0,"documents":1,"document":` + strings.TrimPrefix(approvedSource, "200 ") + `}`
		return `200 {"revision":5,"changes":[],"results":[` + strings.Repeat(one+",", documents-1) + one + `],"warnings":[]}`
	}
	granted := `200 [{"id":"files","subjects":[{"source":"platform"}],"may":["write"]}]`
	for name, test := range map[string]struct {
		args, access, reply string
		terminal            bool
		requests            []string
		documents           int
		asks, prints        bool
	}{
		"a script":           {args: create, access: "200 []", documents: 1, prints: true},
		"yes":                {args: create, access: "200 []", terminal: true, reply: "y\n", documents: 2, asks: true},
		"no":                 {args: create, access: "200 []", terminal: true, reply: "n\n", documents: 1, asks: true, prints: true},
		"--yes":              {args: create + " --yes", access: "200 []", terminal: true, documents: 1, prints: true},
		"it has rights":      {args: create, access: granted, terminal: true, documents: 1},
		"the name is in use": {args: create, access: `200 [{"id":"platform","subjects":[{"token":"ci"}],"may":["write"]}]`, terminal: true, documents: 1, prints: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, requests := scripted(t, map[string][]string{
				list: {test.access}, batch: {result(test.documents)}, "POST /plan": {`200 {"base_revision":4,"plan_hash":"abc","totals":{},"changes":[{"kind":"source","id":"platform","action":"create"}],"groups":[],"results":[],"warnings":[]}`},
			})
			env := cli.Env{StdinTerminal: test.terminal, StderrTerminal: test.terminal, Stdin: strings.NewReader(test.reply)}
			got := run(t, env, map[string]string{"FLUX_API_URL": url, "NO_COLOR": "1"}, strings.Fields(test.args)...)
			if got.code != 0 || !slices.Contains(*requests, batch) {
				t.Errorf("exit %d, sent %q\n%s", got.code, *requests, got.stderr)
			}
			if asks := strings.Contains(got.stderr, "[y/N]"); asks != test.asks {
				t.Errorf("asks: %v\n%s", asks, got.stderr)
			}
			if prints := strings.Contains(got.stderr, command) || strings.Contains(got.stderr, "access create source-platform --source platform --may write"); prints != test.prints {
				t.Errorf("prints the command: %v\n%s", prints, got.stderr)
			}
		})
	}
}

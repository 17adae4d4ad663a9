package ui_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testbrowser"
)

// user answers questions by clicking in a browser, and counts the clicks.
type user struct {
	*testbrowser.Browser

	env    *testEnv
	clicks int
}

// follow clicks a link or a button that leads to another page.
func (a *user) follow(selector string) {
	a.T.Helper()
	a.clicks++
	a.Follow(selector)
}

// sees requires that the visible text of an element contains some texts.
func (a *user) sees(selector string, texts ...string) {
	a.T.Helper()
	seen := a.Text(selector)
	for _, text := range texts {
		require.Contains(a.T, seen, text)
	}
}

// start opens the overview, where each task begins.
func (a *user) start() {
	a.T.Helper()
	a.Run(chromedp.Navigate(a.env.http.URL + "/ui/"))
	a.clicks = 0
}

// task starts at the overview and logs the number of clicks.
func (a *user) task(name string, perform func()) {
	a.T.Helper()
	a.start()
	perform()
	a.T.Logf("%-45s %d clicks", name, a.clicks)
}

// question is a question about the fleet. answer finds the answer in the browser, from the overview.
type question struct {
	text   string
	most   int // clicks
	answer func(a *user)
}

// fleetQuestions are those that the page answers, in the order of their importance.
var fleetQuestions = []question{
	{"Does anything need attention now?", 0, func(a *user) {
		a.sees("h1", "122 clusters need attention")
		a.sees(".tiles", "49\nFailing", "39\nSilent", "34\nBehind")
		a.sees(".causes", "timed out waiting for the condition")
		a.Screenshot("page-overview.png")
	}},
	{"Which clusters are behind, and since when?", 1, func(a *user) {
		a.follow(".tile.s-behind")
		a.sees("tbody", "cluster-0009", "20 min ago", "v0.58.1")
	}},
	{"Which clusters fail, with which words?", 1, func(a *user) {
		a.follow(".tile.s-failed")
		a.sees("tbody", "cluster-0083", "401 Unauthorized")
		a.Screenshot("page-clusters.png")
	}},
	{"What runs where?", 1, func(a *user) {
		a.follow(`nav a[href="/ui/matrix"]`)
		a.sees(".matrix", "podinfo", "6.9.1", "% confirmed", "9.0.0", "1 own")
	}},
	{"Which clusters have a version?", 2, func(a *user) {
		a.follow(`nav a[href="/ui/components"]`)
		a.Screenshot("page-components.png")
		a.follow(`.cell.pinned[href*="9.0.0"]`)
		a.sees("tbody", "cluster-0001")
		a.sees(".chips", "All\n1")
		a.Screenshot("page-version.png")
	}},
	{"What changed, by whom, and why?", 0, func(a *user) {
		a.sees(".changes", "CHG-7: grafana 9 on trial", "ada", "2 h ago")
	}},
	{"What did a change set, and how far has it arrived?", 1, func(a *user) {
		a.follow(`.changes .what[href="/ui/changes/3"]`)
		a.sees(".doc", "not set", "9.0.0")
		a.sees(".spread", "Confirmed\n1")
		require.NotContains(a.T, a.Text("main"), "hunter2")
		a.Screenshot("page-change.png")
	}},
	{"What would reverting it do?", 2, func(a *user) {
		a.follow(`.changes .what[href="/ui/changes/3"]`)
		a.follow(".actions a")
		a.sees("main", "On 1 cluster", "9.0.0")
		a.Screenshot("page-revert.png")
	}},
	{"What does a cluster receive, and what did it report?", 1, func(a *user) {
		a.follow("tbody .says a")
		a.sees(".facts", "Last seen", "the next poll is", "Token")
		a.sees(".failures", "podinfo\nInstallFailed")
		a.sees("main", "Desired state", "podinfo\tFailing\t6.9.1", "grafana\tConfirmed\t8.1.0", "Up to date · changed")
		a.Screenshot("page-cluster.png")
	}},
	{"Where does a value of a cluster come from?", 2, func(a *user) {
		a.follow("tbody .says a")
		a.follow(`a[href$="/inputs/platform-components/podinfo"]`)
		a.sees("tbody", "component podinfo")
		a.Screenshot("page-input.png")
	}},
	{"Which versions of a component exist, and who overrides it?", 2, func(a *user) {
		a.follow(`nav a[href="/ui/components"]`)
		a.follow(`tbody a[href="/ui/components/grafana"]`)
		a.sees("main", "9.0.0", "cluster-0001")
		a.sees(".changes", "CHG-7: grafana 9 on trial")
		a.Screenshot("page-component.png")
	}},
	{"Which stages has a rollout, and what can be done?", 1, func(a *user) {
		a.follow(`.rollouts a[href="/ui/rollouts/grafana-8.2"]`)
		a.sees(".stages", "canary", "half", "rest", "started")
		a.sees(".note", "Waiting: ")
		a.sees(".actions", "Pause…", "Abort…")
	}},

	{"Which change broke it?", 1, func(a *user) {
		a.sees(".causes", " s after revision 4")
		a.follow(`.causes a[href="/ui/changes/4"]`)
		a.sees(".doc", "6.9.0", "6.9.1")
	}},
	{"Which other failures have the same cause?", 1, func(a *user) {
		a.follow(".causes th a")
		a.sees("main", "17 clusters with the same cause of failure", "already exists")
		a.Screenshot("page-cause.png")
	}},
	{"What changed on this cluster since yesterday?", 1, func(a *user) {
		a.follow("tbody .says a")
		a.sees("main", "2 in the last 24 hours")
		a.sees(".changes", "component_version=6.9.1", " min ago")
	}},
	{"Which clusters differ from their layers?", 2, func(a *user) {
		a.follow(`nav a[href="/ui/clusters"]`)
		a.follow(`.chips a[href*="overrides=version"]`)
		a.sees("tbody", "cluster-0001", "Compare with its layers")
	}},
	{"Does the rollout progress, and what does it wait for?", 0, func(a *user) {
		a.sees(".rollouts", "grafana-8.2", "running", "1/2\u202f000", `a person starts stage "half"`)
	}},
	{"Stop everything", 2, func(a *user) {
		a.follow(".top .stop")
		a.Run(chromedp.SendKeys("#reason", "INC-7: outage of the registry", chromedp.ByQuery), chromedp.SendKeys("#confirm", "all clusters", chromedp.ByQuery))
		a.follow(".decide button")
		a.At("/ui/")
		a.sees(".stopped", "Stopped: all clusters", "INC-7")
	}},
}

// setupIncident returns a fleet in which a new version of podinfo fails on some clusters, and a rollout waits.
func setupIncident(t *testing.T, clusters int) *testEnv {
	t.Helper()
	env := setupWith(t, clusters, "")
	changed := env.now().Add(time.Minute)
	env.committed = func() time.Time { return changed }
	env.edit(updatePodinfo)
	env.broken = "podinfo"
	env.advance(3 * time.Minute) // in which each cluster polls twice
	env.reportAll()
	env.createRollout("grafana-8.2")
	env.act("grafana-8.2", "start")
	for name, days := range map[string]int{"ci-old": 20, "ci-new": 200} {
		env.call("POST", "/tokens", `{"name":"`+name+`","role":"read","expires_at":"`+env.now().AddDate(0, 0, days).UTC().Format(time.RFC3339)+`"}`)
	}
	env.api.CountClusters()
	return env
}

// setupWork adds to a fleet what the tasks change: a strategy, a layer, and rollouts of which one waits for an approval and one fails.
func setupWork(env *testEnv) {
	env.t.Helper()
	env.edit(createStrategy)
	env.edit(func(tx *fleet.Tx) error {
		for _, id := range []string{"loki", "tempo", "mimir"} {
			if _, err := tx.Create(fleet.KindComponent, fmt.Appendf(nil, `{"id":%q,"component_path":"charts/%s","oci_url":"https://charts.example.com","component_version":"3.0.0"}`, id, id)); err != nil {
				return err
			}
		}
		_, err := tx.Create(fleet.KindLayer, []byte(`{"id":"dev-apps","priority":40,"selector":"environment=dev","platform_components":[{"id":"loki"},{"id":"tempo"},{"id":"mimir"}]}`))
		return err
	})
	rollout := func(id, component, approval string) {
		env.call(http.MethodPost, "/rollouts", fmt.Sprintf(`{"id":%q,"operations":[{"op":"patch","kind":"platform_component","id":%q,"patch":{"component_version":"3.1.0"}}],`+
			`"stages":[{"name":"one","selector":"environment=dev"%s},{"name":"rest","all":true}]}`, id, component, approval))
	}
	rollout("gated", "loki", `,"approval":true`)
	rollout("failing", "tempo", "")
	env.act("failing", "start")
	env.advance(time.Minute)
	env.broken = "tempo"
	env.reportAll()
	for i, doc := range env.replica.State().All(fleet.KindCluster) {
		if i%4 == 0 { // of the layer
			env.fail(doc, "tempo", 0, env.now())
			break
		}
	}
}

// fleetTasks are changes of a person in that fleet, and further questions, with the largest number of clicks.
var fleetTasks = []question{
	{"Change a version in one layer by stages", 6, func(a *user) {
		a.follow(`nav a[href="/ui/components"]`)
		a.follow(`a[href="/ui/components/mimir"]`)
		a.follow(`.actions a.primary`)
		a.Run(chromedp.SetValue("#scope", "layer/dev-apps", chromedp.ByQuery), chromedp.SetValue("#strategy", "waves", chromedp.ByQuery), chromedp.SendKeys("#version", "3.1.0", chromedp.ByQuery))
		a.follow(".filter button")
		a.Run(chromedp.SendKeys("#reason", "CHG-9: mimir 3.1", chromedp.ByQuery))
		a.follow(".decide button")
		a.At("/ui/rollouts/mimir-3.1.0-dev-apps")
		a.follow(".actions .primary")
		a.sees("h1", "Start stage canary")
	}},
	{"Approve a stage", 2, func(a *user) {
		a.follow(`.button[href="/ui/rollouts/gated/approve?stage=one"]`)
		a.sees("main", "3.1.0")
		a.Run(chromedp.SendKeys("#reason", "CHG-10: seen on dev", chromedp.ByQuery))
		a.follow(".decide button")
		a.At("/ui/rollouts/gated")
		a.sees(".stages", "approved by")
	}},
	{"Take a failing stage back", 2, func(a *user) {
		a.follow(`.button[href="/ui/rollouts/failing/back?stage=one"]`)
		a.Run(chromedp.SendKeys("#reason", "INC-8: tempo fails", chromedp.ByQuery))
		a.follow(".decide button")
		a.At("/ui/rollouts/failing")
		a.sees("h1", "paused")
	}},
	{"Who may change a cluster?", 2, func(a *user) {
		a.Run(chromedp.SendKeys("#q", "cluster-0001"+kb.Enter, chromedp.ByQuery))
		a.At("/ui/clusters/cluster-0001")
		a.follow(`.actions a[href="/ui/clusters/cluster-0001/access"]`)
		a.sees("main", "Through layers, components and definitions", "Tokens that may change everything")
	}},
	{"Which tokens expire this month?", 1, func(a *user) {
		a.sees("main", "1 token expires within 30 days.")
		a.follow(`.lead a[href="/ui/definitions/tokens?expires=soon"]`)
		a.sees("main", "Tokens 1", "Expires", "Last use", "ci-old\tread")
		require.NotContains(a.T, a.Text("main"), "ci-new")
	}},
	{"What changed on a cluster between two and four at night?", 2, func(a *user) {
		at := fleetCreatedAt().Truncate(time.Minute)
		a.Run(chromedp.SendKeys("#q", "cluster-0001"+kb.Enter, chromedp.ByQuery))
		a.At("/ui/clusters/cluster-0001")
		a.follow(`a.more[href^="/ui/changes?"]`)
		a.Run(chromedp.SetValue("#since", formTime(at, -60), chromedp.ByQuery), chromedp.SetValue("#until", formTime(at, 60), chromedp.ByQuery))
		a.follow(".filter button")
		a.sees("main", "CHG-7: grafana 9 on trial")
	}},
	{"Add a cluster", 3, func(a *user) { a.addCluster("new-01") }},
}

// perform answers a question, or makes a change, within its number of clicks.
func (q question) perform(a *user) {
	a.T.Helper()
	a.start()
	began := time.Now()
	q.answer(a)
	a.T.Logf("%-60s %6d %4d %5.1f s", q.text, a.clicks, q.most, time.Since(began).Seconds())
	require.LessOrEqual(a.T, a.clicks, q.most, q.text)
}

// TestTasks: a person finds the answer to each question, and makes each change, within a number of clicks, on fleets of 300 and of 2,000
// clusters. The page loads nothing from another host, and never sends the token.
func TestTasks(t *testing.T) {
	t.Parallel()
	for _, clusters := range []int{300, 2000} {
		t.Run(strconv.Itoa(clusters), func(t *testing.T) {
			t.Parallel()
			env := setupIncident(t, clusters)
			a := &user{Browser: signInBrowserAs(t, env, writeToken, true), env: env}
			t.Logf("%-60s clicks goal seconds", "question")
			questions, last := []question{}, fleetQuestions[len(fleetQuestions)-1] // which stops everything
			if clusters == 2000 {
				questions = fleetQuestions[:len(fleetQuestions)-1]
			}
			for _, q := range questions {
				q.perform(a)
			}
			setupWork(env)
			for _, q := range append(slices.Clone(fleetTasks), last) {
				q.perform(a)
			}
			for _, url := range a.Requested() {
				require.True(t, strings.HasPrefix(url, env.http.URL+"/") || strings.HasPrefix(url, "data:"), "the page requested %s", url)
				require.NotContains(t, url, writeToken)
			}
			require.Empty(t, a.Complaints())
		})
	}
}

// keyboard presses keys in a browser, and never the mouse.
type keyboard struct {
	*testbrowser.Browser

	keys int
}

func (k *keyboard) press(keys string) {
	k.T.Helper()
	k.keys += len([]rune(keys))
	k.Run(chromedp.KeyEvent(keys))
}

// tabTo presses Tab until an element of a selector has the focus, which must be visible.
func (k *keyboard) tabTo(selector string) {
	k.T.Helper()
	for range 60 {
		var at struct{ Here, Ring bool }
		k.Run(chromedp.Evaluate(`(at => ({here: !!at && at.matches(`+"`"+selector+"`"+`), ring: !!at && getComputedStyle(at).outlineStyle !== "none"}))(document.activeElement)`, &at))
		if at.Here {
			require.True(k.T, at.Ring, "the focus of %s is not visible", selector)
			return
		}
		k.press(kb.Tab)
	}
	k.T.Fatalf("Tab does not reach %s", selector)
}

// TestTasksByKeyboard answers questions and stops the fleet without a mouse.
func TestTasksByKeyboard(t *testing.T) {
	t.Parallel()
	env := setupIncident(t, 200)
	k := &keyboard{Browser: signInBrowserAs(t, env, writeToken, true)}
	task := func(name string, perform func()) {
		t.Helper()
		k.keys = 0
		perform()
		t.Logf("%-60s %d keys", name, k.keys)
	}
	task("Which change broke it?", func() {
		k.press("go")
		k.At("/ui/")
		k.press("j")
		k.tabTo(`.causes a[href="/ui/changes/4"]`)
		k.press(kb.Enter)
		k.At("/ui/changes/4")
		require.Contains(t, k.Text(".doc"), "6.9.1")
	})
	task("Which clusters have a version?", func() {
		k.press("gm")
		k.At("/ui/matrix")
		k.press("j")
		k.tabTo(`.cell.pinned[href*="9.0.0"]`)
		k.press(kb.Enter)
		require.Contains(t, k.Text("tbody"), "cluster-0001")
	})
	task("What does a cluster receive, and what did it report?", func() {
		k.press("/")
		k.Run(chromedp.Evaluate(`document.activeElement.value = ""`, nil)) // the simulated keyboard types the shortcut, too
		k.press("cluster-0043" + kb.Enter)
		k.At("/ui/clusters/cluster-0043")
		require.Contains(t, k.Text(".failures"), "podinfo")
	})
	task("Which clusters differ from their layers?", func() {
		k.press("gc")
		k.At("/ui/clusters")
		k.tabTo(`.chips a[href*="overrides=version"]`)
		k.press(kb.Enter)
		k.At("/ui/clusters?overrides=version")
		require.Contains(t, k.Text("tbody"), "cluster-0001")
	})
	task("Stop everything", func() {
		k.tabTo(".top .stop")
		k.press(kb.Enter)
		k.At("/ui/freezes/create-all")
		k.tabTo("#reason")
		k.press("INC-7")
		k.tabTo("#confirm")
		k.press("all clusters" + kb.Enter)
		k.At("/ui/")
		require.Contains(t, k.Text(".stopped"), "INC-7")
	})
	require.Empty(t, k.Complaints())
}

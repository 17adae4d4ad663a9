package ui_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// changeForm is a change that the page offers, in a fleet of eight clusters.
type changeForm struct {
	path       string
	confirm    string                  // the environment to type as confirmation
	concurrent func(*fleet.Tx) error   // a change by others after the plan was shown
	applied    func(*fleet.State) bool // reports whether the change was applied
}

func patched(kind fleet.Kind, id, patch string) func(*fleet.Tx) error {
	return func(tx *fleet.Tx) error {
		_, err := tx.Patch(kind, id, []byte(patch))
		return err
	}
}

func deleted(kind fleet.Kind, id string) func(*fleet.State) bool {
	return func(st *fleet.State) bool { _, there := st.Get(kind, id); return !there }
}

func clusterOf(st *fleet.State, id string) *fleet.Document {
	doc, _ := st.Get(fleet.KindCluster, id)
	return doc
}

func componentVersion(st *fleet.State, id string) string {
	doc, _ := st.Get(fleet.KindComponent, id)
	return doc.Component().ComponentVersion
}

// createStrategy adds the strategy waves.
func createStrategy(tx *fleet.Tx) error {
	_, err := tx.Create(fleet.KindStrategy, []byte(`{"id":"waves","stages":[{"name":"canary","cluster_ids":["cluster-0002"]},{"name":"rest","all":true}]}`))
	return err
}

const restorePath = "/ui/changes/2/restore?id=cluster-0001&kind=cluster"

var allChangeForms = map[string]changeForm{
	"revert": {
		path: "/ui/changes/3/revert", concurrent: patched(fleet.KindCluster, "cluster-0001", `{"labels":{"owner":"web"}}`),
		applied: func(st *fleet.State) bool { return len(clusterOf(st, "cluster-0001").Cluster().Patches) == 0 },
	},
	"restore": {
		path: restorePath, concurrent: patched(fleet.KindCluster, "cluster-0001", `{"labels":{"owner":"web"}}`),
		applied: func(st *fleet.State) bool { return len(clusterOf(st, "cluster-0001").Cluster().Patches) == 0 },
	},
	"protect": {
		path: "/ui/clusters/cluster-0002/protect", concurrent: patched(fleet.KindCluster, "cluster-0002", `{"labels":{"owner":"web"}}`),
		applied: func(st *fleet.State) bool { return clusterOf(st, "cluster-0002").Cluster().DeletionProtection },
	},
	"unprotect": {
		path: "/ui/clusters/cluster-0005/unprotect", concurrent: patched(fleet.KindCluster, "cluster-0005", `{"labels":{"owner":"web"}}`),
		applied: func(st *fleet.State) bool { return !clusterOf(st, "cluster-0005").Cluster().DeletionProtection },
	},
	"delete a cluster": {
		path: "/ui/clusters/cluster-0003/delete", confirm: "prod", concurrent: patched(fleet.KindCluster, "cluster-0003", `{"labels":{"owner":"web"}}`),
		applied: deleted(fleet.KindCluster, "cluster-0003"),
	},
	"delete a component": {
		path: "/ui/components/grafana/delete?cascade=true", confirm: "prod", concurrent: patched(fleet.KindCluster, "cluster-0002", `{"patches":{"grafana":{"replicas":2}}}`),
		applied: deleted(fleet.KindComponent, "grafana"),
	},
	"change a version": {
		path: "/ui/components/podinfo/version?version=6.10.0", concurrent: patched(fleet.KindComponent, "podinfo", `{"component_version":"6.9.5"}`),
		applied: func(st *fleet.State) bool { return componentVersion(st, "podinfo") == "6.10.0" },
	},
	"change the version on a cluster": {
		path: "/ui/components/podinfo/version?version=6.10.0&cluster=cluster-0002", concurrent: patched(fleet.KindComponent, "podinfo", `{"component_version":"6.9.5"}`),
		applied: func(st *fleet.State) bool {
			return componentVersion(st, "podinfo") == "6.9.5" && strings.Contains(string(clusterOf(st, "cluster-0002").Body), `"component_version":"6.10.0"`)
		},
	},
	"change a version as a rollout": {
		path: "/ui/components/podinfo/version?version=6.10.0&strategy=waves", concurrent: patched(fleet.KindComponent, "podinfo", `{"component_version":"6.9.5"}`),
		applied: func(st *fleet.State) bool {
			_, made := st.Get(fleet.KindRollout, "podinfo-6.10.0")
			return made && componentVersion(st, "podinfo") == "6.9.5"
		},
	},
	"add a cluster": {
		path: "/ui/add/cluster?id=new-01&dns=new-01.k8s.example.com&environment=dev&labels=tier%3Dgold", concurrent: patched(fleet.KindLayer, "gold", `{"platform_components":[{"id":"podinfo"}]}`),
		applied: func(st *fleet.State) bool { return clusterOf(st, "new-01").Cluster().Labels["tier"] == "gold" },
	},
	"delete a layer": {
		path: "/ui/layers/gold/delete", confirm: "prod", concurrent: patched(fleet.KindLayer, "gold", `{"description":"Other people's"}`),
		applied: deleted(fleet.KindLayer, "gold"),
	},
}

// setupChangeForms returns a fleet of eight clusters whose page offers changes, signed in with the token.
func setupChangeForms(t *testing.T, token string) *testEnv {
	t.Helper()
	env := setup(t, 8)
	env.edit(func(tx *fleet.Tx) error {
		return errors.Join(createStrategy(tx), patched(fleet.KindCluster, "cluster-0005", `{"deletion_protection":true,"platform_components":[{"id":"podinfo"}]}`)(tx))
	})
	env.enableChanges()
	require.Equal(t, http.StatusSeeOther, env.signIn(token).status)
	return env
}

// unchanged requires that f creates no revision.
func (env *testEnv) unchanged(f func()) {
	env.t.Helper()
	before := env.replica.State().Revision()
	f()
	require.Equal(env.t, before, env.replica.State().Revision())
}

func (p changeForm) form(hash string) url.Values {
	return url.Values{"plan_hash": {hash}, "reason": {"CHG-8: as we agreed"}, "confirm": {p.confirm}}
}

// TestChangeForms: a change needs a current plan, a reason, the confirmation, a token that may write, and a form of this site.
func TestChangeForms(t *testing.T) {
	t.Parallel()
	for name, p := range allChangeForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := setupChangeForms(t, readToken)
			env.unchanged(func() {
				require.NotContains(t, env.get(p.path).body, "plan_hash", "no form for a token that may only read")
				require.Equal(t, http.StatusForbidden, env.send(env.client, http.MethodPost, p.path, p.form("x")).status)
			})
			require.Equal(t, http.StatusSeeOther, env.signIn(writeToken).status)
			hash := env.planHash(p.path)
			env.unchanged(func() {
				for problem, form := range map[string]url.Values{"no reason": {"plan_hash": {hash}}, "blank": {"plan_hash": {hash}, "reason": {"  "}}, "no plan": {"reason": {"x"}}} {
					rsp := env.send(env.client, http.MethodPost, p.path, form)
					require.Equal(t, http.StatusBadRequest, rsp.status, problem)
					require.Contains(t, rsp.body, `role="alert"`, problem)
				}
				for _, from := range [][]string{{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
					require.Equal(t, http.StatusForbidden, env.send(env.client, http.MethodPost, p.path, p.form(hash), from...).status)
				}
				if p.confirm != "" {
					for _, typed := range []string{"", "pro", "qa"} {
						form := p.form(hash)
						form.Set("confirm", typed)
						require.Equal(t, http.StatusBadRequest, env.send(env.client, http.MethodPost, p.path, form).status, typed)
					}
				}
				another := env.send(env.newClient(t), http.MethodPost, p.path, p.form(hash))
				require.Contains(t, another.header.Get("Location"), "/ui/sign-in")
			})

			env.edit(p.concurrent) // after the plan was shown
			env.unchanged(func() {
				stale := env.send(env.client, http.MethodPost, p.path, p.form(hash))
				require.Equal(t, http.StatusPreconditionFailed, stale.status, stale.body)
				require.Contains(t, stale.body, "nothing was done")
			})

			done := env.send(env.client, http.MethodPost, p.path, p.form(env.planHash(p.path)))
			require.Equal(t, http.StatusSeeOther, done.status, done.body)
			require.True(t, p.applied(env.replica.State()))
			require.Equal(t, http.StatusOK, env.get(done.header.Get("Location")).status)
			change := env.get(fmt.Sprintf("/ui/changes/%d", env.replica.State().Revision())).body
			require.Contains(t, change, "CHG-8: as we agreed")
			require.Contains(t, change, "static-write")
		})
	}
}

// TestChangeFormAppliedOnce: concurrent submissions of one plan create one revision, and no server error.
func TestChangeFormAppliedOnce(t *testing.T) {
	t.Parallel()
	for name, p := range allChangeForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := setupChangeForms(t, writeToken)
			hash, before := env.planHash(p.path), env.replica.State().Revision()
			statuses := make([]int, 6)
			var all sync.WaitGroup
			for i := range statuses {
				all.Go(func() {
					rsp, err := env.post(p.path, p.form(hash))
					if err == nil {
						statuses[i] = rsp
					}
				})
			}
			all.Wait()
			made := 0
			for _, status := range statuses {
				require.Contains(t, []int{http.StatusSeeOther, http.StatusPreconditionFailed, http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable}, status)
				if status == http.StatusSeeOther {
					made++
				}
			}
			require.Equal(t, 1, made)
			require.Equal(t, before+1, env.replica.State().Revision())
		})
	}
}

// post sends a form with the cookies of the client; safe for concurrent use.
func (env *testEnv) post(path string, form url.Values) (status int, err error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return 0, err
	}
	here, err := url.Parse(env.http.URL)
	if err != nil {
		return 0, err
	}
	jar.SetCookies(here, env.client.Jar.Cookies(here))
	visitor := &http.Client{Jar: jar, CheckRedirect: env.client.CheckRedirect}
	rsp, err := visitor.PostForm(env.http.URL+path, form)
	if err != nil {
		return 0, err
	}
	return rsp.StatusCode, rsp.Body.Close()
}

// TestChangeFormAfterRevocation: a token that was revoked after the plan was shown changes nothing.
func TestChangeFormAfterRevocation(t *testing.T) {
	t.Parallel()
	env := setup(t, 8)
	env.enableChanges()
	env.edit(func(tx *fleet.Tx) error {
		return errors.Join(createStrategy(tx), patched(fleet.KindCluster, "cluster-0005", `{"deletion_protection":true,"platform_components":[{"id":"podinfo"}]}`)(tx))
	})
	require.Equal(t, http.StatusSeeOther, env.signIn(env.issueToken("editor", "write")).status)
	hashes := map[string]string{}
	for name, p := range allChangeForms {
		hashes[name] = env.planHash(p.path)
	}
	session := env.client.Jar
	env.revoke("editor")
	env.unchanged(func() {
		for name, p := range allChangeForms {
			env.client.Jar = session
			rsp := env.send(env.client, http.MethodPost, p.path, p.form(hashes[name]))
			require.Contains(t, rsp.header.Get("Location"), "/ui/sign-in", name)
		}
	})
}

// TestChangesDisabled: without the setting, plans are shown without forms, and submissions are refused.
func TestChangesDisabled(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	env.http.Close()
	env.http = httptest.NewServer(env.page(""))
	t.Cleanup(env.http.Close)
	require.Equal(t, http.StatusSeeOther, env.signIn(writeToken).status)
	for name, p := range allChangeForms {
		plan := env.get(p.path)
		require.Equal(t, 200, plan.status, name)
		require.NotContains(t, plan.body, "plan_hash", name)
		require.Contains(t, plan.body, "Read-only. To apply this change", name)
		require.Equal(t, http.StatusMethodNotAllowed, env.send(env.client, http.MethodPost, p.path, p.form("x")).status, name)
	}
	for _, page := range []string{"/ui/clusters/cluster-0003", "/ui/components/grafana", "/ui/layers/gold"} {
		require.NotContains(t, env.get(page).body, ">Delete", page)
	}
	require.Contains(t, env.get("/ui/components/grafana").body, ">Preview deletion", "which needs only reads")
}

// TestChangeFormRefusals: forms for missing documents and refused changes show the reason, and a remedy if there is one.
func TestChangeFormRefusals(t *testing.T) {
	t.Parallel()
	env := setupChangeForms(t, writeToken)
	for path, status := range map[string]int{
		"/ui/clusters/nobody/delete": 404, "/ui/clusters/nobody/protect": 404, "/ui/components/nothing/delete": 404, "/ui/layers/nothing/delete": 404,
		"/ui/changes/2/restore": 404, "/ui/changes/2/restore?kind=token&id=x": 200, "/ui/changes/2/restore?kind=nothing&id=x": 200, "/ui/changes/x/restore?kind=cluster&id=cluster-0001": 404,
		"/ui/changes/99/restore?kind=cluster&id=cluster-0001": 404,
	} {
		rsp := env.get(path)
		require.Equal(t, status, rsp.status, path)
		require.NotContains(t, rsp.body, "plan_hash", path)
		require.Contains(t, rsp.body, "</html>", path)
	}
	used := env.get("/ui/components/grafana/delete")
	require.NotContains(t, used.body, "plan_hash")
	require.Contains(t, used.body, "/ui/components/grafana/delete?cascade=true", "a remedy")
	require.Contains(t, env.get("/ui/clusters/cluster-0005/delete").body, "/ui/clusters/cluster-0005/unprotect")
	require.Contains(t, env.get("/ui/clusters/cluster-0005/protect").body, "already protected")
	require.Contains(t, env.get("/ui/clusters/cluster-0002/unprotect").body, "no protection of its own")
	require.Contains(t, env.get("/ui/changes/3/restore?kind=cluster&id=cluster-0001").body, "It already has the content of that revision")

	// A deleted document can be restored.
	env.edit(func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindLayer, []byte(`{"id":"empty","priority":3,"selector":"tier=none"}`))
		return err
	})
	env.edit(func(tx *fleet.Tx) error {
		_, err := tx.Delete(fleet.KindLayer, "empty", fleet.DeleteOptions{})
		return err
	})
	const back = "/ui/changes/5/restore?kind=layer&id=empty"
	require.Equal(t, http.StatusSeeOther, env.send(env.client, http.MethodPost, back, url.Values{"plan_hash": {env.planHash(back)}, "reason": {"x"}}).status)
	require.False(t, deleted(fleet.KindLayer, "empty")(env.replica.State()))
	masked := env.get(restorePath)
	require.NotContains(t, masked.body, "hunter2")
	require.Contains(t, masked.body, "reveal=true")
	require.Contains(t, env.get(restorePath+"&reveal=true").body, "hunter2")
	require.True(t, strings.Contains(masked.body, "id=cluster-0001"), "the link to reveal stays on the page")
}

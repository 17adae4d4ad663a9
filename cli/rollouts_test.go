package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestRolloutSettings: flags of rollout create win over its file, whose other fields stay.
func TestRolloutSettings(t *testing.T) {
	t.Parallel()
	var sent string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent = string(body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":"r","state":"proposed","stages":[],"changes":[]}`))
	}))
	t.Cleanup(srv.Close)
	file := "advance: manual\ngate: {soak: 5m, deadline: 3h}\noperations: [{op: revert, revision: 2}]\n"
	args := "rollout create r -f - --advance automatic --soak 1h --confirmed 95% --max-failures 0 --on-failure back"
	got := run(t, cli.Env{Stdin: strings.NewReader(file)}, map[string]string{"FLUX_API_URL": srv.URL}, strings.Fields(args)...)
	require.Equal(t, 0, got.code, got.stderr)
	require.JSONEq(t, `{"id":"r","advance":"automatic","on_failure":"back","gate":{"soak":"1h","confirmed":"95%","max_failures":0,"deadline":"3h"},
		"operations":[{"op":"revert","revision":2}]}`, sent)
}

// TestRolloutGet: the counts of each stage, and why the rollout does not advance.
func TestRolloutGet(t *testing.T) {
	t.Parallel()
	stages := `"stages":[{"name":"canary","state":"started","clusters":3,"all":true,"progress":{"affected":12,"confirmed":7,"failed":1,"offline":4}},{"name":"rest","state":"pending","clusters":2,"all":true}],"changes":[]`
	for name, test := range map[string]struct{ answer, want string }{
		"waits":  {`"waiting":{"reason":"soak","message":"the soak is not over","until":"2026-01-02T03:04:05Z"}`, "soak 2026-01-02T03:04:05Z the soak is not over"},
		"paused": {`"paused_because":"1 cluster failed"`, "paused - 1 cluster failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := scripted(t, map[string][]string{"GET /rollouts/r": {`200 {"id":"r","state":"running",` + stages + `,` + test.answer + `}`}})
			got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "rollout", "get", "r", "-o", "table")
			require.Equal(t, 0, got.code, got.stderr)
			out := strings.Join(strings.Fields(got.stdout), " ")
			require.Contains(t, out, "AFFECTED CONFIRMED FAILED OFFLINE canary started 3 all 12 7 1 4 rest pending 2 all - - - -")
			require.Contains(t, out, "WAITING UNTIL MESSAGE "+test.want)
		})
	}
}

// TestRolloutOfVersionPolicy: get says which version policy proposed a rollout.
func TestRolloutOfVersionPolicy(t *testing.T) {
	t.Parallel()
	url, _ := scripted(t, map[string][]string{
		"GET /rollouts/auto-podinfo": {`200 {"id":"auto-podinfo","state":"proposed","stages":[],"changes":[],"automation":"podinfo"}`},
		"GET /rollouts/auto-web":     {`200 {"id":"auto-web","state":"proposed","stages":[],"changes":[],"automation":"group/web"}`},
	})
	for id, want := range map[string]string{"auto-podinfo": "proposed by the version policy of podinfo", "auto-web": "proposed by the version policies of group web"} {
		got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "rollout", "get", id, "-o", "table")
		require.Equal(t, 0, got.code, got.stderr)
		require.Contains(t, got.stdout, want)
	}
}

// TestRolloutBackOfStage: back sends the name of the stage.
func TestRolloutBackOfStage(t *testing.T) {
	t.Parallel()
	url, requests := scripted(t, map[string][]string{
		"POST /rollouts/r/back": {`200 {"id":"r","state":"running","stages":[],"changes":[]}`},
	})
	got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "rollout", "back", "r", "--stage", "canary", "--yes")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, []string{"POST /rollouts/r/back"}, *requests)
}

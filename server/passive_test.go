package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/versions"
)

// TestPassiveProcess: a passive process ends no pin, advances no rollout, and scans and moves no version. Another process on the same
// store does all of it.
func TestPassiveProcess(t *testing.T) {
	t.Parallel()
	f := &fakeScanner{results: map[string]versions.Result{}}
	f.set("https://charts.example.com", versions.Result{Versions: []versions.Version{{Version: "6.9.0"}}, Present: []string{"6.9.0"}, Listed: 1})
	var cfg server.Config
	w, runners := autoRollout(t, 1, "", func(c *server.Config) {
		c.Versions, c.VersionScanner = knownversions.New(), f
		cfg = *c
	})
	until := w.clock.Now().Add(time.Hour).Format(time.RFC3339)
	w.pin("wave-2", `{"until":"`+until+`","reason":"INC-7"}`)
	w.create("/platform_components", `{"id":"followed","component_path":"followed","component_version":"6.8.0","oci_url":"https://charts.example.com","oci_tag":"v1","version_policies":{"catalog":{"range":">=6"}}}`)
	w.post("/rollouts/auto/start", "").want(200)
	w.clock.advance(2 * time.Hour)

	cfg.Replica = store.NewReplica(store.Config{Store: w.store, Rules: rules, Now: w.clock.Now, Passive: true})
	require.NoError(t, cfg.Replica.Load(t.Context()))
	passive, err := server.New(cfg)
	require.NoError(t, err)
	act := func(s *server.Server) {
		s.AdvanceRollouts(t.Context())
		s.ScanVersions(t.Context())
		s.MoveVersions(t.Context())
	}
	before := w.replica.State().Head()
	for range 3 {
		act(passive)
		require.NoError(t, w.replica.Load(t.Context()))
		require.Equal(t, before, w.replica.State().Head())
		require.Zero(t, f.take())
	}
	act(runners[0])
	require.Positive(t, f.take())
	require.NotContains(t, w.get("/clusters/wave-2").want(200).json(), "pinned")
}

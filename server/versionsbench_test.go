package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// BenchmarkMoveVersions evaluates 1,000 policies that have nothing to do: without any change, and all of them as every 5 minutes.
func BenchmarkMoveVersions(b *testing.B) {
	st, err := sqlite.Open(b.Context(), sqlite.Config{Memory: true})
	require.NoError(b, err)
	b.Cleanup(func() { _ = st.Close() })
	c := &clock{now: start}
	replica := store.NewReplica(store.Config{Store: st, Rules: rules, Now: c.Now, Elapsed: func() time.Duration { return c.Now().Sub(start) }})
	require.NoError(b, replica.Load(b.Context()))
	_, err = replica.Update(b.Context(), store.Meta{Actor: "static-write"}, func(tx *fleet.Tx) error {
		for i := range 1000 {
			body := fmt.Sprintf(`{"id":"c%d","component_path":"c","oci_url":"https://charts.example.com","component_version":"6.99.0","version_policies":{"catalog":{"range":">=6"}}}`, i)
			if _, err := tx.Create(fleet.KindComponent, []byte(body)); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(b, err)
	s, err := server.New(server.Config{
		Mode: server.ModeCRUD, Replica: replica, History: st, ClusterStatus: clusterstatus.NewTracker(clusterstatus.Config{}), Versions: knownversions.New(),
		Tokens: server.Tokens{Read: readToken, Write: writeToken}, Now: c.Now,
	})
	require.NoError(b, err)
	for i := range 1000 {
		for n := range 50 {
			s.PushVersion(fmt.Sprint("c", i), fmt.Sprintf("6.%d.0", n))
		}
	}
	for name, step := range map[string]time.Duration{"unchanged": 0, "all": 5 * time.Minute} {
		b.Run(name, func(b *testing.B) {
			s.MoveVersions(b.Context())
			for b.Loop() {
				c.advance(step)
				s.MoveVersions(b.Context())
			}
		})
	}
}

package server_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// narrowingHistory limits what the principal of a change may read, while the change reads the history.
type narrowingHistory struct {
	server.History
	once   sync.Once
	narrow func()
}

func (h *narrowingHistory) Changes(ctx context.Context, rev fleet.Revision, offset, limit int) ([]fleet.Change, error) {
	h.once.Do(h.narrow)
	return h.History.Changes(ctx, rev, offset, limit)
}

// TestRevertWhileReadIsLimited: the rights at the commit decide whether a change may use the history, not those at its request.
func TestRevertWhileReadIsLimited(t *testing.T) {
	t.Parallel()
	past := &narrowingHistory{}
	w := setupWith(t, options{configure: func(c *server.Config) { past.History, c.History = c.History, past }})
	as := bearer(w.issue(scopedBody).secret)
	const may = `["read","plan","write","revert"]`
	w.create("/access", accessFor("team", may, ""))
	w.create("/platform_components", `{"id":"zebra","component_path":"zebra","oci_url":"https://charts.example.com","component_version":"1.0.0"}`)
	last := w.patch("/platform_components/zebra", `{"component_version":"2.0.0"}`).want(200).header.Get("X-Fleet-Revision")
	limited := []byte(accessFor("team", may, `{"selector":"team=web","kinds":["cluster"]}`))
	other := store.NewReplica(store.Config{Store: w.store, Rules: rules, Now: w.clock.Now}) // another process
	past.narrow = func() {
		require.NoError(t, other.Load(t.Context()))
		_, err := other.Update(t.Context(), store.Meta{Actor: "admin"}, func(tx *fleet.Tx) error {
			_, err := tx.Put(fleet.KindAccess, "team", limited)
			return err
		})
		require.NoError(t, err)
	}
	got := w.do("POST", "/revisions/"+last+"/revert", "", as...)
	got.problem(403, "forbidden")
	require.NotContains(t, string(got.body), "zebra")
	require.Equal(t, "2.0.0", w.get("/platform_components/zebra").json()["component_version"])
}

package webhooks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// TestPublicLibrary: the library of Standard Webhooks verifies events with the secret that the API returns, after a rotation with the
// previous one too, and refuses a changed body and another secret.
func TestPublicLibrary(t *testing.T) {
	t.Parallel()
	e, r := setup(t, func(c *Config) { c.Now = time.Now }), newReceiver(t)
	e.webhook(t, "log", r.URL, nil)
	secret := func() string {
		text, ok := e.d.Secret(e.replica.State().Webhooks()[0])
		require.True(t, ok)
		return text
	}
	verifies := func(secret string, got received) error {
		wh, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		return wh.Verify(got.body, got.header)
	}
	first := secret()
	e.change(t)
	got := r.next(t)
	require.NoError(t, verifies(first, got))
	changed := received{got.header, append([]byte(" "), got.body...), got.url}
	require.Error(t, verifies(first, changed))

	e.update(t, store.Meta{}, func(tx *fleet.Tx) error { return tx.RotateWebhook("log", time.Now()) })
	got = r.next(t)
	require.NotEqual(t, first, secret())
	require.NoError(t, verifies(secret(), got))
	require.NoError(t, verifies(first, got))
	other := *e.replica.State().Webhooks()[0]
	other.ID = "other"
	another, _ := e.d.Secret(&other)
	require.Error(t, verifies(another, got))
}

package postgres

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// newProxy returns a proxy that ends with the test, and the URL of the database through it.
func newProxy(t *testing.T, database string) (*testrig.Proxy, string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(database)
	require.NoError(t, err)
	network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	p, err := testrig.NewProxy(t.Context(), network, address)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	u, err := url.Parse(database)
	require.NoError(t, err)
	q := u.Query()
	q.Del("host")
	q.Set("sslmode", "disable") // so that the proxy can read the messages
	u.Host, u.RawQuery = p.Address(), q.Encode()
	return p, u.String()
}

// bytesPerSecond of a link of so many Mbit/s.
func bytesPerSecond(mbits int) int { return mbits * 1_000_000 / 8 }

package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
)

// Every valid credential gets its identity and permissions, in both modes. TestAuthorizationTable tests the permissions.
func TestWhoAmI(t *testing.T) {
	t.Parallel()
	crud := setup(t)
	poll, ci := crud.issue(pollBody), crud.issue(`{"name":"ci","role":"write","expires_at":"2027-01-01T00:00:00Z"}`)
	rotated := crud.do("POST", "/tokens/"+ci.id+"/rotate", `{"overlap":"1h"}`).want(200).json()["token"].(string)
	snap, err := crud.store.Load(t.Context())
	require.NoError(t, err)
	for mode, may := range map[string][]string{server.ModeCRUD: {"poll", "read", "write", "admin"}, server.ModeReadOnly: {"poll"}} {
		w := certified(t, options{mode: mode, records: snap.Records}, demoDNS)
		mayUpTo := func(n int) string {
			return `"may":["` + strings.Join(may[:min(n, len(may))], `","`) + `"],"mode":"` + mode + `"}`
		}
		for _, c := range []struct {
			header, certificate, want string
		}{
			{readToken, "", `{"actor":"static-read","credential":"static-read","role":"read","cluster_dns":[],` + mayUpTo(2)},
			{writePrevious, "", `{"actor":"static-write","credential":"static-write-previous","role":"admin","cluster_dns":[],` + mayUpTo(4)},
			{poll.secret, "", `{"actor":"token:poll-demo (` + poll.id + `)","credential":"token","role":"poll","id":"` + poll.id + `","name":"poll-demo","cluster_id":"demo-cluster-01","cluster_dns":[],` + mayUpTo(1)},
			{rotated, "", `{"actor":"token:ci (` + ci.id + `)","credential":"token","role":"write","id":"` + ci.id + `","name":"ci","cluster_dns":[],"expires_at":"2027-01-01T00:00:00Z",` + mayUpTo(3)},
		} {
			got := w.get("/whoami", "Authorization", "Bearer "+c.header).want(200)
			require.JSONEq(t, c.want, string(got.body))
			require.NotContains(t, string(got.body), c.header)
			require.NotEmpty(t, got.header.Get("X-Fleet-Revision"))
		}
		certificate := w.get("/whoami", "Authorization", "", certificateHeader, demoDNS).want(200).json()
		require.Equal(t, []any{"certificate", "poll", []any{demoDNS}, []any{"poll"}}, []any{certificate["actor"], certificate["role"], certificate["cluster_dns"], certificate["may"]})
		require.NotEmpty(t, certificate["expires_at"])
	}
	old := crud.get("/whoami", bearer(ci.secret)...).want(200).json()
	require.Equal(t, "2026-01-02T04:04:05.678901Z", old["expires_at"], "of this secret, which its rotation leaves an hour")
	crud.clock.advance(time.Hour)
	require.Contains(t, crud.get("/whoami", bearer(ci.secret)...).problem(401, "unauthorized").header.Get("WWW-Authenticate"), `error="invalid_token"`)
	crud.get("/whoami", bearer(rotated)...).want(200)
	crud.delete("/tokens/" + ci.id).want(200)
	crud.get("/whoami", bearer(rotated)...).problem(401, "unauthorized")
	crud.get("/whoami?x=1").problem(400, "validation_error")
}

package fleet

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Later revisions can only reduce permissions.
func TestRevocationsOnlyReducePermissions(t *testing.T) {
	t.Parallel()
	body := func(role, cluster, ends, secrets string) json.RawMessage {
		return json.RawMessage(`{"id":"x","name":"x","role":"` + role + `","cluster_id":"` + cluster + `"` + ends + `,"secrets":[` + secrets + `]}`)
	}
	const one, two = `{"sha256":"3973e022e93220f9212c18d0d0c543ae7c309e46640da93a4a0314de999f5112"}`, `{"sha256":"00000000000000000000000000000000000000000000000000000000000000ff"}`
	until := func(at string) string { return `,"expires_at":"` + at + `"` }
	const soon, late = "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"
	for name, tc := range map[string]struct {
		was, is json.RawMessage
		until   string // expiry of the holder; "" never, "-" there is none
	}{
		"gone":               {body("poll", "a", "", one), nil, "-"},
		"unreadable":         {body("poll", "a", "", one), json.RawMessage(`[`), "-"},
		"the same":           {body("poll", "a", "", one), body("poll", "a", "", one), ""},
		"one secret more":    {body("poll", "a", "", one), body("poll", "a", "", one+","+two), ""},
		"another secret":     {body("poll", "a", "", one), body("poll", "a", "", two), "-"},
		"another role":       {body("poll", "a", "", one), body("admin", "", "", one), "-"},
		"another cluster":    {body("poll", "a", "", one), body("poll", "b", "", one), "-"},
		"ends":               {body("read", "", "", one), body("read", "", until(soon), one), soon},
		"ends sooner":        {body("read", "", until(late), one), body("read", "", until(soon), one), soon},
		"ends later":         {body("read", "", until(soon), one), body("read", "", until(late), one), soon},
		"does not end":       {body("read", "", until(soon), one), body("read", "", "", one), soon},
		"a digest of others": {body("read", "", "", one), body("read", "", "", `{"sha256":"argon2:1"}`), "-"},
	} {
		st, err := NewState(testRules, Head{}, time.Time{}, []Record{{Kind: KindToken, ID: "x", Body: tc.was}})
		require.NoError(t, err, name)
		var secret Digest
		for d := range st.holders {
			secret = d
		}
		none := TokenRevocations(nil)
		require.Same(t, st.Holder(secret), none.Restrict(secret, st.Holder(secret)), name)
		first := none.With(map[string]json.RawMessage{"x": tc.is})
		for _, later := range []TokenRevocations{first, first.With(map[string]json.RawMessage{"other": nil})} {
			h := later.Restrict(secret, st.Holder(secret))
			if tc.until == "-" {
				require.Nil(t, h, name)
				continue
			}
			require.NotNil(t, h, name)
			require.Equal(t, []string{st.Holder(secret).Role, st.Holder(secret).ClusterID}, []string{h.Role, h.ClusterID}, name)
			if tc.until == "" {
				require.Zero(t, h.until, name)
				continue
			}
			require.Equal(t, tc.until, h.until.Format(time.RFC3339), name)
		}
		require.Empty(t, none, "a copy is what grows")
	}
}

package cli

import (
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestMayPoll: a token names its cluster by id, a certificate by DNS name, and the two are not confused.
func TestMayPoll(t *testing.T) {
	t.Parallel()
	token := api.Identity{Actor: "token:a", Credential: "token", Role: "poll", ClusterID: "a", May: []string{"poll"}}
	certificate := api.Identity{Actor: "cert", Credential: "certificate", Role: "poll", ClusterDNS: []string{"a.example.com", "B.example.com."}, May: []string{"poll"}}
	reader := api.Identity{Actor: "r", Credential: "static-read", Role: "read", ClusterDNS: []string{}, May: []string{"poll", "read"}}
	for _, test := range []struct {
		who     api.Identity
		cluster string
		reason  string // empty: allowed
	}{
		{token, "", ""},
		{token, "a", ""},
		{token, "b", "token:a polls only for a"},
		{token, "a.example.com", "token:a polls only for a"},
		{certificate, "", ""},
		{certificate, "a.example.com", ""},
		{certificate, "b.EXAMPLE.com", ""},
		{certificate, "c.example.com", "a.example.com"},
		{certificate, "a", "use poll cluster/DNS-NAME"},
		{reader, "a", ""},
		{reader, "a.example.com", ""},
	} {
		got := permissionQuery{needs: "poll", use: forReads, cluster: test.cluster}.evaluate(test.who)
		if got.Allowed != (test.reason == "") || !strings.Contains(got.Reason, test.reason) {
			t.Errorf("%s, %q: %+v", test.who.Actor, test.cluster, got)
		}
	}
}

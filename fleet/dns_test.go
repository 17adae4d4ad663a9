package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Unicode characters that fold or lower-case to ASCII letters make another name.
func TestNamesInUnicode(t *testing.T) {
	t.Parallel()
	for _, dns := range []string{"\u212aube.example.com", "k\u212a.example.com", "te\u017ft.example.com", "d\u0131n.example.com", "D\u0130N.example.com", "\uff41.example.com"} {
		for name, doc := range map[string]string{
			"cluster_dns": `{"id":"c","environment":"dev","cluster_dns":"` + dns + `"}`,
			"id":          `{"id":"` + dns + `","environment":"dev","cluster_dns":"c.example.com"}`,
		} {
			st, err := fleet.NewState(fleet.Rules{Environments: []string{"dev"}}, fleet.Head{}, time.Time{}, nil)
			require.NoError(t, err)
			tx := st.Begin()
			_, err = tx.Create(fleet.KindCluster, []byte(doc))
			if err == nil {
				_, err = tx.Finish(fleet.Commit{})
			}
			require.Error(t, err, "%s %q", name, dns)
		}
		require.NotEqual(t, "kube.example.com", fleet.NormalDNS(dns))
		require.NotEqual(t, "test.example.com", fleet.NormalDNS(dns))
	}
	require.Equal(t, "kube.example.com", fleet.NormalDNS("KUBE.Example.com."))
}

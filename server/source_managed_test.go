package server_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestManagedDocuments: readers of a document learn which source manages it, in which file, and whether it has drifted.
func TestManagedDocuments(t *testing.T) {
	t.Parallel()
	eachStore(t, 1, func(t *testing.T, r *registry, all []*sourceProcess) {
		t.Helper()
		p := all[0]
		manager := func(path string) string {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.http.URL+path, http.NoBody)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+readToken)
			res, err := p.http.Client().Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusOK, res.StatusCode)
			return res.Header.Get("X-Fleet-Managed-By")
		}
		p.must(http.MethodPost, "/namespaces", `{"id":"free"}`)
		r.push("prod", "a", fileNamespace, fileComponent, fileCluster, `layer {"id":"all","selector":"environment=dev","priority":1}`)
		long := "å\n" + strings.Repeat("x", 4096)
		r.artifacts[r.tags["prod"]] = append(r.artifacts[r.tags["prod"]], fleet.FileDocument{Kind: fleet.KindNamespace, ID: "long", File: long, Fields: []byte(`{"id":"long"}`)})
		p.createSource("")
		p.ready()
		require.Empty(t, manager("/namespaces/free"))
		for path, file := range map[string]string{
			"/namespaces/shop": "shop", "/platform_components/podinfo": "podinfo", "/clusters/c1": "c1", "/clusters/c1?view=effective": "c1", "/layers/all?view=clusters": "all",
		} {
			require.Equal(t, "file=fleet%2F"+file+".yaml&source=platform", manager(path))
		}
		by, err := url.ParseQuery(manager("/namespaces/long"))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(by.Get("file"), "å\nxxx"))
		require.Less(t, len(by.Get("file")), 600)
		p.must(http.MethodPatch, "/namespaces/shop", `{"labels":{"a":"b"}}`, "X-Fleet-Override-Source", "platform", "X-Change-Reason", "INC-1")
		require.Equal(t, "drifted=true&file=fleet%2Fshop.yaml&source=platform", manager("/namespaces/shop"))
		p.must(http.MethodDelete, "/sources/platform", "")
		require.Empty(t, manager("/namespaces/shop"))
	})
}

package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// BenchmarkExplain: the explanation of one component of a cluster whose document of 8 KB has changed 1,000 times since the values
// were set, and the same without revisions to go through.
func BenchmarkExplain(b *testing.B) {
	for _, revisions := range []int{0, 1000} {
		b.Run(fmt.Sprintf("revisions=%d", revisions), func(b *testing.B) {
			onEachStore(b, 10, 40, func(b *testing.B, handler http.Handler, replica *store.Replica) {
				var patches []string
				for i := range 40 {
					patches = append(patches, fmt.Sprintf(`"component-%d":{"image.tag":"1.2.%d","resources.limits.memory":"512Mi","ingress.host":"c%d.example.com","replicas":"2"}`, i, i, i))
				}
				update := func(body string) {
					_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
						_, err := tx.Patch(fleet.KindCluster, "c0", []byte(body))
						return err
					})
					require.NoError(b, err)
				}
				update(`{"patches":{` + strings.Join(patches, ",") + `}}`)
				for n := range revisions {
					update(fmt.Sprintf(`{"patches":{"component-%d":{"replicas":"%d"}}}`, 1+n%39, 3+n))
				}
				doc, _ := replica.State().Get(fleet.KindCluster, "c0")
				b.ReportMetric(float64(len(doc.Body)), "document-bytes")
				for b.Loop() {
					req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/clusters/c0/explain/platform-components/component-0", nil)
					req.Header.Set("Authorization", "Bearer "+benchToken)
					rec := httptest.NewRecorder()
					handler.ServeHTTP(rec, req)
					require.Equal(b, http.StatusOK, rec.Code, rec.Body)
				}
			})
		})
	}
}

package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// BenchmarkServedHistory: the first page, of 20 revisions, of the history of a cluster's inputs, or of a component's inputs on
// all clusters, in logs of different lengths. One revision in a hundred changes a layer that matches the cluster, one in ten a
// layer that does not, the others another cluster.
func BenchmarkServedHistory(b *testing.B) {
	for _, revisions := range []int{2_000, 10_000} {
		b.Run(fmt.Sprintf("revisions=%d", revisions), func(b *testing.B) {
			handler, replica := fleetOf(b, 100, 20)
			update := func(edit func(tx *fleet.Tx) error) {
				_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, edit)
				require.NoError(b, err)
			}
			for i, selector := range []string{"environment=dev", "environment=prod"} {
				update(func(tx *fleet.Tx) error {
					_, err := tx.Create(fleet.KindLayer, fmt.Appendf(nil, `{"id":"layer-%d","priority":%d,"selector":%q}`, i, i, selector))
					return err
				})
			}
			for n := range revisions {
				update(func(tx *fleet.Tx) (err error) {
					body := fmt.Appendf(nil, `{"patches":{"component-1":{"n":"%d"}}}`, n)
					switch {
					case n%100 == 0:
						_, err = tx.Patch(fleet.KindLayer, "layer-0", body)
					case n%10 == 0:
						_, err = tx.Patch(fleet.KindLayer, "layer-1", body)
					default:
						_, err = tx.Patch(fleet.KindCluster, fmt.Sprintf("c%d", 1+n%99), body)
					}
					return err
				})
			}
			for _, path := range []string{"/clusters/c0", "/platform_components/component-1", "/platform_components/component-2"} {
				b.Run(path[1:], func(b *testing.B) {
					for b.Loop() {
						req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, path+"/history?view=effective&limit=20", nil)
						req.Header.Set("Authorization", "Bearer "+benchToken)
						rec := httptest.NewRecorder()
						handler.ServeHTTP(rec, req)
						require.Equal(b, http.StatusOK, rec.Code, rec.Body)
					}
				})
			}
		})
	}
}

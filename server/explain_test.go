package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

const (
	explainAll = demoCluster + "/explain"
	explainOne = demoCluster + "/explain/platform-components/podinfo"
)

// Who does not take explanations keeps nobody else from them.
func TestExplanationsThatNobodyTake(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		full := make(chan struct{})
		defer close(full)
		for _, path := range []string{explainAll, explainOne} {
			for range 100 {
				require.Equal(t, http.StatusOK, w.stallReading(path, full), path)
			}
			w.get(path, "Authorization", "Bearer "+readToken).want(200)
		}
	})
}

// Explanations of one credential are made one at a time, and only so many of them wait. Another credential has a turn of its
// own, and who goes leaves their place.
func TestExplanationsAreBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		working, proceed := make(chan struct{}, 100), make(chan struct{})
		w.faults.set(func(f *faultyStore) { f.summary = func() { working <- struct{}{}; <-proceed } })
		statuses := make(chan int, 10)
		ask := func(token string) { statuses <- w.get(explainAll, "Authorization", "Bearer "+token).status }
		for range 3 {
			go ask(readToken)
		}
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		req := httptest.NewRequestWithContext(gone, http.MethodGet, explainOne, nil)
		req.Header.Set("Authorization", "Bearer "+readToken)
		w.stalled(req, nil)
		require.Len(t, working, 1)
		refused := w.get(explainOne, "Authorization", "Bearer "+readToken).problem(429, "too_many_requests")
		require.Contains(t, refused.json()["detail"], "too many explanations of this credential")
		require.Equal(t, "5", refused.header.Get("Retry-After"))
		w.get(demoCluster, "Authorization", "Bearer "+readToken).want(200)
		w.patch(demoCluster, `{"environment":"qa"}`).want(200)
		leave()
		synctest.Wait()
		go ask(readToken)
		go ask(writeToken)
		synctest.Wait()
		require.Len(t, working, 2)
		close(proceed)
		for range 5 {
			require.Equal(t, http.StatusOK, <-statuses)
		}
	})
}

package server_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTimeBudget: a credential that occupies a processor for minutes is refused until its budget is refilled. It may still
// change the fleet and poll, and others are not affected.
func TestTimeBudget(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		w := setupWith(t, options{serve: serveInMemory})
		w.faults.set(func(f *faultyStore) { f.past = func() { time.Sleep(40 * time.Second) } }) // of the bubble
		plan := func() *answer { return w.do("POST", "/plan", `{"operations":[{"op":"restore","revision":1}]}`) }
		plans := 0
		var refused *answer
		for {
			if refused = plan(); refused.status != http.StatusOK {
				break
			}
			plans++
			require.Less(t, plans, 30)
		}
		require.Greater(t, plans, 10)
		require.Contains(t, refused.problem(429, "too_many_requests").json()["detail"], "processor time")
		w.get("/status").problem(429, "too_many_requests")
		w.get("/clusters").problem(429, "too_many_requests")
		w.get("/clusters", "Authorization", "Bearer "+readToken).want(200)
		w.patch(demoCluster, `{"environment":"qa"}`).want(200)
		w.poll(demoPolls + "/namespaces").want(200)

		after, err := strconv.Atoi(refused.header.Get("Retry-After"))
		require.NoError(t, err)
		time.Sleep(time.Duration(after) * time.Second) // of the bubble
		w.get("/status").want(200)
		plan().want(200)
	})
}

// TestStatusPaged: a large fleet is not listed as a whole unless that is asked for.
func TestStatusPaged(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{records: patchedFleet(1001)})
	first := w.get("/status").want(200)
	require.Len(t, first.json()["clusters"], 1000)
	require.EqualValues(t, 1001, first.json()["total"])
	require.Equal(t, "1001", first.header.Get("X-Total-Count"))
	require.Equal(t, fmt.Sprintf(`</status?limit=%d&offset=%d>; rel="next"`, 1000, 1000), first.header.Get("Link"))
	require.Len(t, w.get("/status?limit=1000&offset=1000").want(200).json()["clusters"], 1)
	require.Len(t, w.get("/status?limit=10000").want(200).json()["clusters"], 1001)
}

package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// manyChanges is how long the log of BenchmarkHistory is.
const manyChanges = 1_000_000

// BenchmarkHistory reads the history of one document out of a log of a million changes, all of them its own or one in
// a thousand. fill runs SQL; series is a table expression of the numbers from 1 to the one it is given, in a column n;
// id makes a commit id of n.
func BenchmarkHistory(b *testing.B, s store.Store, fill func(sql string), series func(n int) string, id string) {
	b.Helper()
	body := `{"environment":"dev","id":"c","labels":{"region":"eu","team":"payments"},"platform_components":[{"enabled":true,"id":"grafana"}]}`
	fill(fmt.Sprintf(`INSERT INTO commits (revision, id, at, actor, author, reason, request_id)
		SELECT n, %s, 1700000000000000 + n, 'ci', '', 'because', 'r' FROM %s`, id, series(manyChanges)))
	const at = 50_000 // a statement must not take longer than tests have testTimeout
	for from := 0; from < manyChanges; from += at {
		fill(fmt.Sprintf(`INSERT INTO changes (revision, seq, kind, id, action, before, after)
		SELECT n, 0, 'cluster', CASE WHEN n %% 1000 = 0 THEN 'seldom' WHEN n %% 2 = 0 THEN 'often' ELSE 'c' || (n %% 10000) END,
			CASE WHEN n <= 10000 THEN 'create' ELSE 'update' END, CASE WHEN n > 10000 THEN '%s' END, '%s' FROM (SELECT n + %d AS n FROM %s) AS part`, body, body, from, series(at)))
	}
	fill(fmt.Sprintf(`UPDATE head SET revision = %d, commit_id = (SELECT id FROM commits WHERE revision = %d)`, manyChanges, manyChanges))
	for _, id := range []string{"seldom", "often", "c1"} {
		b.Run(id, func(b *testing.B) {
			var list, at time.Duration
			for b.Loop() {
				start := time.Now()
				found, err := s.Summaries(b.Context(), store.HistoryQuery{Kind: fleet.KindCluster, ID: id, Limit: 100}, 20)
				require.NoError(b, err)
				require.NotEmpty(b, found)
				list += time.Since(start)
				start = time.Now()
				_, there, err := s.At(b.Context(), fleet.KindCluster, id, manyChanges/2)
				require.NoError(b, err)
				require.True(b, there)
				at += time.Since(start)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(list.Seconds()*1000/float64(b.N), "history-ms")
			b.ReportMetric(at.Seconds()*1000/float64(b.N), "at-ms")
		})
	}
}

package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// benchDocuments is the number of documents in the store of Benchmark.
const benchDocuments = 10_000

// benchBody is of the size of a cluster with 30 components and some patches.
func benchBody(id, n int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"id":"c%d","n":%d,"components":"%s"}`, id, n, strings.Repeat(`ingress-nginx 1.2.3 `, 300)))
}

// benchCommit changes the documents from the first one on from version n to n+1; version 0 is none.
func benchCommit(base fleet.Head, n, documents int) fleet.Commit {
	c := fleet.Commit{Revision: base.Revision + 1, ID: uuid.New(), At: time.Unix(1_700_000_000, 0).UTC(), Actor: "ci"}
	for id := range documents {
		ch := fleet.Change{Kind: fleet.KindCluster, ID: fmt.Sprint(id), After: benchBody(id, n+1)}
		if n > 0 {
			ch.Before = benchBody(id, n)
		}
		c.Changes = append(c.Changes, ch)
	}
	return c
}

// Benchmark measures commits and reads of the stores that open returns, each of which is empty.
func Benchmark(b *testing.B, open func(b *testing.B) store.Store) {
	b.Helper()
	filled := func(b *testing.B) (store.Store, fleet.Head) {
		s := open(b)
		c := benchCommit(fleet.Head{}, 0, benchDocuments)
		require.NoError(b, s.Commit(b.Context(), fleet.Head{}, c))
		return s, c.Head()
	}
	// commits adds commits of some documents to a store.
	commits := func(b *testing.B, s store.Store, at fleet.Head, n, documents int) fleet.Head {
		c := benchCommit(at, n, documents)
		require.NoError(b, s.Commit(b.Context(), at, c))
		return c.Head()
	}
	b.Run("CommitOne", func(b *testing.B) {
		s, at := filled(b)
		for n := 1; b.Loop(); n++ {
			at = commits(b, s, at, n, 1)
		}
	})
	b.Run("CommitAll", func(b *testing.B) {
		s, at := filled(b)
		for n := 1; b.Loop(); n++ {
			at = commits(b, s, at, n, benchDocuments)
		}
	})
	b.Run("Read", func(b *testing.B) {
		s, first := filled(b)
		at := first
		for n := range 100 {
			at = commits(b, s, at, n+1, 10)
		}
		for name, read := range map[string]func() error{
			"Head":    func() error { _, err := s.Head(b.Context()); return err },
			"Barrier": func() error { _, err := s.Barrier(b.Context()); return err },
			"Load":    func() error { _, err := s.Load(b.Context()); return err },
			"Since":   func() error { _, err := s.Since(b.Context(), first, 100); return err },
			"Latest":  func() error { _, _, err := s.Latest(b.Context(), fleet.KindCluster, first); return err },
			"Changes": func() error { _, err := s.Changes(b.Context(), 1, 0, 100); return err },
			"Summaries": func() error {
				_, err := s.Summaries(b.Context(), store.HistoryQuery{Limit: 100}, 20)
				return err
			},
			"DocumentLog": func() error {
				_, err := s.DocumentLog(b.Context(), fleet.DocumentLogQuery{
					Documents: []fleet.DocumentName{{Kind: fleet.KindCluster, ID: "1"}}, Before: at.Revision + 1, Limit: 100,
				})
				return err
			},
			"Past": func() error { _, err := s.Past(b.Context(), fleet.PastQuery{At: 50, UpTo: at.Revision}); return err },
		} {
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					require.NoError(b, read())
				}
			})
		}
	})
}

// manyChanges is how long the log of BenchmarkHistory is.
const manyChanges = 1_000_000

// BenchmarkHistory reads the history of one document out of a log of a million changes, all of them its own or one in
// a thousand. fill runs SQL; series is a table expression of the numbers from 1 to the one it is given, in a column n;
// id makes a commit id of n.
func BenchmarkHistory(b *testing.B, s store.Store, fill func(sql string), series func(n int) string, id string) {
	b.Helper()
	body := `{"environment":"dev","id":"c","labels":{"region":"eu","team":"payments"},"platform_components":[{"enabled":true,"id":"grafana"}]}`
	var head fleet.Head // two commits whose rows are copied: a creation and an update, each with the whole document
	for i, before := range []json.RawMessage{nil, json.RawMessage(body)} {
		c := next(head, fleet.Change{Kind: fleet.KindCluster, ID: "c", Before: before, After: json.RawMessage(body)})
		c.ID[len(c.ID)-1] = 0
		require.NoError(b, s.Commit(b.Context(), head, c), i)
		head = c.Head()
	}
	fill(fmt.Sprintf(`INSERT INTO commits (revision, id, at, actor, author, reason, request_id)
		SELECT n, %s, 1700000000000000 + n, 'ci', '', 'because', 'r' FROM %s WHERE n > 2`, id, series(manyChanges)))
	const at = 50_000 // a statement must not take longer than tests have testTimeout
	for from := 0; from < manyChanges; from += at {
		fill(fmt.Sprintf(`INSERT INTO changes (revision, seq, kind, id, action, before, after, packed_before, packed_after, sum, bytes)
		SELECT n, 0, c.kind, CASE WHEN n %% 1000 = 0 THEN 'seldom' WHEN n %% 2 = 0 THEN 'often' ELSE 'c' || (n %% 10000) END, c.action, c.before, c.after,
			c.packed_before, CASE WHEN (n / 2 + n / 1000) %% 16 = 0 OR n > %d - 10000 THEN c.packed_after END, c.sum, c.bytes
		FROM (SELECT n + %d AS n FROM %s) AS part JOIN changes c ON c.revision = CASE WHEN n <= 10000 THEN 1 ELSE 2 END WHERE n > 2`, manyChanges, from, series(at)))
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

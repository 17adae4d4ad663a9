package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// hostile is text that is harmless only if no layer interprets it.
var hostile = []string{
	`"`, `'`, `''`, `\`, `\'`, `$1`, `?`, `:name`, `%`, `_`, `--`, `/*`, `;`, `'; DROP TABLE documents; --`,
	"a\nb\r\n\t", "\x01\x1f\x7f", "ÄÖ ﬁ 漢字 🜚 e\u0301", "\u202egnp.exe", "\u2028\u2029\ufeff", "{{ .x }}", "<< inputs >>",
	"NULL", "null", "1e3", " leading and trailing ", "/../", "a/b", `{"a":1}`,
}

func testHostileText(t *testing.T, b *bench) {
	var changes []fleet.Change
	for _, text := range hostile {
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		// The bytes of a document are kept as they are: spaces, order and doubled keys too.
		changes = append(changes, create(fleet.KindNamespace, text, body(`{ "b":%s,  "a":1.0,"n":9007199254740993}`, quoted)))
	}
	c := next(b.head, changes...)
	c.Actor, c.Reason, c.RequestID, c.Author = strings.Join(hostile, ""), strings.Join(hostile, "x"), hostile[0], strings.Join(hostile, "y")
	b.must(c)
	require.Equal(t, []fleet.Commit{c}, b.since(fleet.Head{}, 10))
	require.Equal(t, []fleet.Commit{c}, b.history(store.HistoryQuery{Actor: c.Actor, Limit: 10}))
	stored := map[string]json.RawMessage{}
	for _, r := range b.load().Records {
		stored[r.ID] = r.Body
	}
	require.Len(t, stored, len(hostile))
	for _, ch := range changes {
		require.Equal(t, string(ch.After), string(stored[ch.ID]))
		require.Equal(t, []fleet.Commit{c}, b.history(store.HistoryQuery{Kind: ch.Kind, ID: ch.ID, Limit: 10}), "%q", ch.ID)
	}
}

// testNUL: Postgres cannot keep a NUL character in text and SQLite can; both is right, cutting it off is not.
func testNUL(t *testing.T, b *bench) {
	b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	const text = "a\x00b"
	for _, c := range []fleet.Commit{
		{Actor: text},
		{Reason: text},
		{RequestID: text},
		{Operations: json.RawMessage(text)},
		{Author: text},
		{Changes: []fleet.Change{create(fleet.KindNamespace, text, body(`{}`))}},
		{Changes: []fleet.Change{update(fleet.KindNamespace, "a", body(`{}`), body("{\"a\":\"\x00\"}"))}},
	} {
		fresh := next(b.head)
		c.Revision, c.ID, c.At = fresh.Revision, fresh.ID, fresh.At
		err := b.Store.Commit(b.ctx(), b.head, c)
		if err != nil {
			require.NotErrorIs(t, err, store.ErrUnavailable, "trying again would not help")
			require.Equal(t, b.head, b.load().Head)
			continue
		}
		require.Equal(t, []fleet.Commit{c}, b.since(b.head, 10))
		b.head = c.Head()
	}
	b.load()
}

// testCreatedAgain: a decommissioned cluster that is created again is a new one, as fleet.State has it.
func testCreatedAgain(t *testing.T, b *bench) {
	live, gone := body(`{"labels":{"deleted_at":"no"}}`), body(`{"deleted_at":"2026-01-02T03:04:05Z"}`)
	first := b.commit(create(fleet.KindCluster, "a", live))
	second := b.commit(update(fleet.KindCluster, "a", live, gone))
	require.Equal(t, []fleet.Record{record(first, second, fleet.KindCluster, "a", gone)}, b.load().Records)
	third := b.commit(update(fleet.KindCluster, "a", gone, live))
	require.Equal(t, []fleet.Record{record(third, third, fleet.KindCluster, "a", live)}, b.load().Records)
}

func testLargeDocument(t *testing.T, b *bench) {
	large := body(`{"text":%q}`, strings.Repeat("0123456789abcdef", 576<<10)) // 9 MiB, above the limit of a request, and of the snapshot of a freeze
	c := b.commit(create(fleet.KindCluster, "large", large))
	require.Equal(t, []fleet.Record{record(c, c, fleet.KindCluster, "large", large)}, b.load().Records)
	require.Equal(t, []fleet.Commit{c}, b.since(fleet.Head{}, 1))
}

func testLargeCommit(t *testing.T, b *bench) {
	const n = 3000
	var changes []fleet.Change
	for i := range n {
		changes = append(changes, create(fleet.KindCluster, fmt.Sprintf("c%05d", i), body(`{"n":%d}`, i)))
	}
	c := b.commit(changes...)
	require.Len(t, b.load().Records, n)
	require.Equal(t, []fleet.Commit{c}, b.since(fleet.Head{}, 1), "changes keep their order")
	for i, ch := range changes {
		changes[i] = remove(ch.Kind, ch.ID, ch.After)
	}
	b.commit(changes...)
	require.Empty(t, b.load().Records)
}

func testTimes(t *testing.T, b *bench) {
	for i, at := range []time.Time{
		time.Date(2024, 1, 1, 0, 0, 0, 1000, time.UTC),
		time.Date(2024, 1, 1, 0, 0, 0, 999999000, time.UTC),
		time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC),
		time.Date(2262, 12, 31, 23, 59, 59, 0, time.UTC), // beyond the range of nanoseconds
		time.Date(2024, 7, 1, 12, 0, 0, 0, time.FixedZone("summer", 7200)),
	} {
		c := next(b.head, create(fleet.KindNamespace, fmt.Sprint(i), body(`{}`)))
		c.At = at
		b.must(c)
		got := b.load()
		require.Equal(t, at.UTC(), got.At)
		require.Equal(t, at.UTC(), got.Records[i].CreatedAt)
		require.Equal(t, at.UTC(), got.Records[i].UpdatedAt)
		require.Equal(t, at.UTC(), b.history(store.HistoryQuery{Limit: 1})[0].At)
	}
}

package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
)

// View is the table of a list of documents. Without -o wide it has the first Narrow columns.
type View struct {
	Header []string
	Narrow int
	// Mark: the column behind them is one of them if a document has it.
	Mark bool
	Row  func(document json.RawMessage) ([]string, error)
}

// RowOf turns a function of the typed document into the Row of a [View].
func RowOf[T any](cells func(T) []string) func(json.RawMessage) ([]string, error) {
	return func(raw json.RawMessage) ([]string, error) {
		var doc T
		if err := json.Unmarshal(raw, &doc); err != nil {
			return nil, fmt.Errorf("unexpected response of the server: %w", err)
		}
		return cells(doc), nil
	}
}

// Table returns the table of documents.
func (v View) Table(docs ...json.RawMessage) (Table, error) {
	t := Table{Header: slices.Clone(v.Header), Narrow: v.Narrow}
	for _, doc := range docs {
		row, err := v.Row(doc)
		if err != nil {
			return Table{}, err
		}
		t.Rows = append(t.Rows, row)
	}
	if v.Mark && slices.ContainsFunc(t.Rows, func(row []string) bool { return row[v.Narrow] != "" }) {
		t.Narrow++
	}
	return t, nil
}

// SortedBy returns documents in the order of a column, numbers numerically; an empty column keeps their order. An unknown column is
// an [args.Error].
func (v View) SortedBy(column string, docs []json.RawMessage) ([]json.RawMessage, error) {
	if column == "" {
		return docs, nil
	}
	at := slices.IndexFunc(v.Header, func(h string) bool { return strings.EqualFold(h, column) })
	if at < 0 {
		return nil, args.Errorf("there is no column %q; there are %s", column, args.ListOf(v.Header))
	}
	type item struct {
		doc  json.RawMessage
		cell string
	}
	items := make([]item, len(docs))
	for i, doc := range docs {
		row, err := v.Row(doc)
		if err != nil {
			return nil, err
		}
		items[i] = item{doc, row[at]}
	}
	slices.SortStableFunc(items, func(a, b item) int { return compareCells(a.cell, b.cell) })
	out := make([]json.RawMessage, len(docs))
	for i, it := range items {
		out[i] = it.doc
	}
	return out, nil
}

// compareCells compares numbers numerically and all else as text.
func compareCells(a, b string) int {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a, b)
}

// WithLabels inserts columns with the labels of the documents behind the narrow columns: one for each named label, and one with
// all labels.
func (t Table) WithLabels(names []string, all bool, docs []json.RawMessage) (Table, error) {
	if len(names) == 0 && !all {
		return t, nil
	}
	at := len(t.Header)
	if t.Narrow > 0 {
		at = t.Narrow
	}
	var header []string
	for _, name := range names {
		header = append(header, strings.ToUpper(name))
	}
	if all {
		header = append(header, "LABELS")
	}
	t.Header = slices.Insert(slices.Clone(t.Header), at, header...)
	for i, doc := range docs {
		var labeled struct{ Labels map[string]string }
		if err := json.Unmarshal(doc, &labeled); err != nil {
			return t, err
		}
		var cells []string
		for _, name := range names {
			cells = append(cells, labeled.Labels[name])
		}
		if all {
			cells = append(cells, Labels(labeled.Labels))
		}
		t.Rows[i] = slices.Insert(slices.Clone(t.Rows[i]), at, cells...)
	}
	if t.Narrow > 0 {
		t.Narrow += len(header)
	}
	return t, nil
}

// Labels formats labels as KEY=VALUE, sorted.
func Labels(labels map[string]string) string {
	out := make([]string, 0, len(labels))
	for k, v := range labels {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// Time formats a time to the second in UTC, so that outputs can be compared.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// TimeOr formats a time that may be absent.
func TimeOr(t *time.Time, absent string) string {
	if t == nil {
		return absent
	}
	return Time(*t)
}

// timeColumns are the columns of tables whose times are shown as ages.
var timeColumns = []string{"AT", "UPDATED", "CREATED", "SEEN", "SINCE", "EXPIRES", "LAST USED"}

// WithAges returns tables with ages in place of times, as kubectl has them: people compare "5m" at a glance.
func WithAges(tables []Table, now time.Time) []Table {
	for t := range tables {
		for column, name := range tables[t].Header {
			if !slices.Contains(timeColumns, name) {
				continue
			}
			for _, row := range tables[t].Rows {
				if at, err := time.Parse(time.RFC3339, row[column]); err == nil {
					row[column] = ageOf(now.Sub(at))
				}
			}
		}
	}
	return tables
}

// ageOf formats an age in the largest unit that fits at least twice; for a future time, the time until then.
func ageOf(age time.Duration) string {
	if age < 0 {
		if age > -time.Minute { // clocks differ
			return "0s"
		}
		return "in " + ageOf(-age)
	}
	const day = 24 * time.Hour
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{365 * day, "y"}, {day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if age >= 2*unit.of {
			return strconv.Itoa(int(age/unit.of)) + unit.name
		}
	}
	return strconv.Itoa(int(age/time.Second)) + "s"
}

// Unquoted returns a value; a string without its quotes.
func Unquoted(value json.RawMessage) string {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return string(value)
	}
	return text
}

package cli

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

// sortFlag orders a list.
func sortFlag() cli.Flag {
	return &cli.StringFlag{Name: "sort-by", Usage: "order by this `COLUMN` of -o wide, as its header has it"}
}

// labelFlags add label columns to lists of documents with labels.
func labelFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "label-columns", Aliases: []string{"L"}, Usage: "columns with these `LABELS`, separated by commas"},
		&cli.BoolFlag{Name: "show-labels", Usage: "a column with all labels"},
	}
}

// sortedBy returns documents in the order of a column.
func (v view) sortedBy(column string, docs []json.RawMessage) ([]json.RawMessage, error) {
	if column == "" {
		return docs, nil
	}
	at := slices.IndexFunc(v.header, func(h string) bool { return strings.EqualFold(h, column) })
	if at < 0 {
		return nil, args.Errorf("there is no column %q; there are %s", column, args.ListOf(v.header))
	}
	type item struct {
		doc  json.RawMessage
		cell string
	}
	items := make([]item, len(docs))
	for i, doc := range docs {
		row, err := v.row(doc)
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

// labelColumns returns the labels of --label-columns. A label's key contains no comma.
func labelColumns(c *cli.Context) ([]string, error) {
	var names []string
	for _, given := range c.StringSlice("label-columns") {
		for name := range strings.SplitSeq(given, ",") {
			if name == "" {
				return nil, args.Errorf("--label-columns: %q has an empty label", given)
			}
			names = append(names, name)
		}
	}
	return names, nil
}

// noteAbsentLabels reports labels of --label-columns that no document has, such as misspelled ones.
func (s *session) noteAbsentLabels(c *cli.Context, plural string, docs []json.RawMessage) error {
	names, err := labelColumns(c)
	if err != nil {
		return err
	}
	present := map[string]bool{}
	for _, doc := range docs {
		var labeled struct{ Labels map[string]string }
		if err := json.Unmarshal(doc, &labeled); err != nil {
			return err
		}
		for name := range labeled.Labels {
			present[name] = true
		}
	}
	for _, name := range names {
		if !present[name] {
			s.note("Note: none of the %s listed has the label %q.", plural, name)
		}
	}
	return nil
}

// withLabels adds label columns to a table of documents.
func withLabels(c *cli.Context, t render.Table, docs []json.RawMessage) (render.Table, error) {
	names, err := labelColumns(c)
	if err != nil || len(names) == 0 && !c.Bool("show-labels") {
		return t, err
	}
	at := len(t.Header)
	if t.Narrow > 0 {
		at = t.Narrow
	}
	var header []string
	for _, name := range names {
		header = append(header, strings.ToUpper(name))
	}
	if c.Bool("show-labels") {
		header = append(header, "LABELS")
	}
	t.Header = slices.Insert(slices.Clone(t.Header), at, header...)
	for i, doc := range docs {
		var labelled struct{ Labels map[string]string }
		if err := json.Unmarshal(doc, &labelled); err != nil {
			return t, err
		}
		var cells []string
		for _, name := range names {
			cells = append(cells, labelled.Labels[name])
		}
		if c.Bool("show-labels") {
			cells = append(cells, formatLabels(labelled.Labels))
		}
		t.Rows[i] = slices.Insert(slices.Clone(t.Rows[i]), at, cells...)
	}
	if t.Narrow > 0 {
		t.Narrow += len(header)
	}
	return t, nil
}

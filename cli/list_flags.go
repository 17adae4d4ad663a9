package cli

import (
	"encoding/json"
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
			s.Note("Note: none of the %s listed has the label %q.", plural, name)
		}
	}
	return nil
}

// withLabels adds label columns to a table of documents.
func withLabels(c *cli.Context, t render.Table, docs []json.RawMessage) (render.Table, error) {
	names, err := labelColumns(c)
	if err != nil {
		return t, err
	}
	return t.WithLabels(names, c.Bool("show-labels"), docs)
}

func limitFlag() cli.Flag {
	return &cli.IntFlag{Name: "limit", Usage: "at most `N` entries; a note reports when there are more (default: all)"}
}

func limitOf(c *cli.Context) (int, error) {
	limit := c.Int("limit")
	if c.IsSet("limit") && limit < 1 {
		return 0, args.Errorf("--limit must be at least 1")
	}
	return limit, nil
}

// listOutput returns documents of a list as output.
func (v kindCommands) listOutput(c *cli.Context, document any, docs ...json.RawMessage) render.Output {
	out := v.OutputOf(document, docs...)
	out.Tables = func() ([]render.Table, error) {
		t, err := v.View.Table(docs...)
		if err == nil {
			t, err = withLabels(c, t, docs)
		}
		return []render.Table{t}, err
	}
	return out
}

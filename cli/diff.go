package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// documentDiff is a document that would change.
type documentDiff struct {
	Kind   string         `json:"kind"`
	ID     string         `json:"id"`
	Action string         `json:"action"`
	Fields []render.Field `json:"fields"`

	source string
	before string // the other side, if both are documents of the fleet
}

func (s *session) diffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "Show in which fields the documents of files differ from the fleet, or two documents of the fleet from each other",
		ArgsUsage: "[KIND/NAME[@REVISION] [KIND/NAME[@REVISION]]]",
		Description: "KIND/NAME@REVISION is a document at a revision. One alone is compared with the current document. With --effective, clusters " +
			"are compared with the entries of their layers.\n\nThe output is text, also without a terminal; -o json and -o yaml print a list.\n" +
			"Exit code 0: no difference, 1: differences, 2: wrong command line, 3: error.\n\n" +
			args.ExampleText("diff -f fleet/", "diff cluster/prod-01 cluster/prod-02 --effective", "diff cluster/prod-01@41", "export > fleet.yaml && $EDITOR fleet.yaml && flux-resourceset-cli diff -f fleet.yaml"),
		Flags: slices.Concat([]cli.Flag{
			documentsFlag(), &cli.BoolFlag{Name: "effective", Usage: "of clusters: with the entries of their layers"},
		}, pruneFlags()),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return s.diffDocuments(c)
			}
			if c.Bool("effective") {
				return args.Errorf("--effective compares clusters of the fleet with each other: name two")
			}
			a, err := s.newApplyRun(c)
			if err != nil {
				return err
			}
			conn, err := s.connect(c)
			if err != nil {
				return err
			}
			diffs, err := a.diff(conn)
			if err != nil {
				return err
			}
			return s.printDiffs(c, diffs)
		},
	}
}

// printDiffs prints the differences; with any, the exit code is 1.
func (s *session) printDiffs(c *cli.Context, diffs []documentDiff) error {
	if err := s.printDiff(c, diffs); err != nil {
		return err
	}
	if len(diffs) > 0 {
		return errDiffers
	}
	return nil
}

// diff compares the documents with the fleet. Only the server can compare: it fills in defaults and normalizes values.
func (a *applyRun) diff(conn client) ([]documentDiff, error) {
	diffs := []documentDiff{}
	ops, err := a.operations(conn)
	if err != nil {
		return nil, err
	}
	_, plan, err := a.s.requestPlan(a.c, conn, ops)
	if err != nil {
		return nil, describeLocations(ops, err, a.describe)
	}
	for _, ref := range plan.Changes {
		d, err := a.diffOf(ref)
		if err != nil {
			return nil, err
		}
		diffs = append(diffs, d)
	}
	return diffs, nil
}

func (a *applyRun) diffOf(ref api.ChangeRef) (documentDiff, error) {
	out := documentDiff{Kind: ref.Kind, ID: ref.ID, Action: ref.Action, Fields: []render.Field{}}
	now := a.found[ref.Kind][ref.ID]
	for _, d := range a.docs {
		if d.kind.kind != ref.Kind || d.id != ref.ID {
			continue
		}
		if now == nil {
			now = json.RawMessage(`{}`)
		}
		fields, err := render.Changes(d.fields, now)
		out.Fields, out.source = append(out.Fields, fields...), d.source
		return out, err
	}
	removed := map[string]json.RawMessage{}
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(now, &stored); err != nil {
		return out, err
	}
	for name, value := range stored {
		if !slices.Contains(readOnly, name) {
			render.Leaves(removed, name, value)
		}
	}
	for _, path := range render.SortedKeys(removed) {
		out.Fields = append(out.Fields, render.Field{Path: path, Before: removed[path]})
	}
	return out, nil
}

func (s *session) printDiff(c *cli.Context, diffs []documentDiff) error {
	document, err := render.Encode(diffs)
	if err != nil {
		return err
	}
	names := make([]string, len(diffs))
	for i, d := range diffs {
		names[i] = nameOfKind(d.Kind) + "/" + d.ID
	}
	out := render.Output{
		Document: document,
		Text:     func(bool) string { return s.diffText(diffs) },
		Names:    func() ([]string, error) { return names, nil },
	}
	if !c.IsSet("output") {
		return s.printAs(c, "table", out)
	}
	return s.print(c, out)
}

// diffText formats diffs like diff -u, a line for each field.
func (s *session) diffText(diffs []documentDiff) string {
	var b strings.Builder
	field := func(path string, value json.RawMessage) string {
		if string(value) == string(render.Present) {
			return path
		}
		return path + ": " + string(value)
	}
	line := func(colour, format string, args ...any) {
		b.WriteString(s.paint(s.env.StdoutTerminal, colour, render.Printable(fmt.Sprintf(format, args...))) + "\n")
	}
	for _, d := range diffs {
		name := nameOfKind(d.Kind) + "/" + d.ID
		was, is := firstNonEmpty(d.before, name), name+"   "+d.source
		if d.before != "" {
			is = d.source
		}
		switch d.Action {
		case "create":
			was = "(none)"
		case "delete":
			is = "(none)"
		}
		line(render.Bold, "--- %s", was)
		line(render.Bold, "+++ %s", is)
		for _, f := range d.Fields {
			if f.Before != nil {
				line(render.Red, "-%s", field(f.Path, f.Before))
			}
			if f.After != nil {
				line(render.Green, "+%s", field(f.Path, f.After))
			}
		}
	}
	return b.String()
}

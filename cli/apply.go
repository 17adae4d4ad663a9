package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

func documentsFlag() cli.Flag {
	return &cli.StringSliceFlag{
		Name: "file", Aliases: []string{"f"},
		Usage: "documents, from a YAML or JSON `FILE`, every such file in a directory and those below it, or - for standard input; repeat for more",
	}
}

func pruneFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "prune", Usage: "delete the documents of this `KIND` (resource/TYPE: of one resource type; resource: of all) that the files do not contain; refused if a file is an export of only a part of the fleet; repeat for more"},
		&cli.StringFlag{Name: "mode", Usage: "`MODE` for clusters that --prune deletes: uninstall makes Flux remove everything; orphan forgets the cluster, and Flux keeps its objects"},
	}
}

func (s *session) applyCommand() *cli.Command {
	return &cli.Command{
		Name:  "apply",
		Usage: "Create or change the documents of files, all in one change",
		Description: "A file holds lists of documents in the layout of a seed file and of export, or documents with a `kind`.\n" +
			"Fields that a document does not have stay unchanged; those that it has are replaced as a whole, such as all labels and all patches. Clusters may refer to definitions in the same files.\n\n" +
			args.ExampleText("apply -f fleet/ --plan", "apply -f fleet/ --reason CHG-1234", "export | flux-resourceset-cli apply -f -"),
		Flags: slices.Concat([]cli.Flag{documentsFlag()}, pruneFlags(), []cli.Flag{change.DryRunFlag(), change.YesFlag()}, change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			a, err := s.newApplyRun(c)
			if err != nil {
				return err
			}
			return s.Perform(c, change.Change{
				Operations: a.operations, Recomputed: true, Describe: a.describe, Description: a.pruneQuestion(), PrintsSummary: true,
				Show: a.show,
			})
		},
	}
}

func (s *session) planCommand() *cli.Command {
	return &cli.Command{
		Name:  "plan",
		Usage: "Show the effect of applying files on each cluster, without a change",
		Description: "The same as apply --plan. Exit code 0: no change, 1: changes, 2: wrong command line, 3: error.\n\n" +
			args.ExampleText("plan -f fleet/", "plan -f fleet/ -o json > plan.json    # apply -f fleet/ --plan-hash @plan.json makes exactly this change"),
		Flags: slices.Concat([]cli.Flag{documentsFlag()}, pruneFlags(), []cli.Flag{change.FullFlag()}, change.RenderedFlags()),
		Action: func(c *cli.Context) error {
			a, err := s.newApplyRun(c)
			if err != nil {
				return err
			}
			client, err := s.Connect(c)
			if err != nil {
				return err
			}
			return s.ShowPlan(c, client, change.Change{Operations: a.operations, Describe: a.describe})
		},
	}
}

// pruneQuestion is the text of the confirmation for --prune; empty without --prune.
func (a *applyRun) pruneQuestion() string {
	var titles []string
	for _, n := range a.set.Prune {
		titles = append(titles, n.Title)
	}
	if a.set.PruneResources {
		titles = append(titles, kinds.ResourceKind)
	}
	if len(titles) == 0 {
		return ""
	}
	description := fmt.Sprintf("delete every %s that the files do not contain", strings.Join(titles, ", every "))
	switch a.c.String("mode") {
	case "uninstall":
		description += ", Flux removing everything on such clusters"
	case "orphan":
		description += ", Flux keeping its objects on such clusters"
	}
	return description
}

// applyResult is the output of apply.
type applyResult struct {
	Revision  *int64   `json:"revision"` // null: nothing changed, or a dry run
	Created   []string `json:"created"`
	Changed   []string `json:"changed"`
	Deleted   []string `json:"deleted"`
	Unchanged []string `json:"unchanged"`
}

func (a *applyRun) show(client conn.Client, answer conn.Answer) error {
	var result api.BatchResult
	if err := answer.Decode(&result); err != nil {
		return err
	}
	sum := applyResult{Created: []string{}, Changed: []string{}, Deleted: []string{}, Unchanged: []string{}}
	if len(result.Changes) > 0 && !a.c.Bool("dry-run") {
		sum.Revision = &result.Revision
	}
	actions := map[string]string{}
	for _, ref := range result.Changes {
		name := kinds.NameOf(ref.Kind) + "/" + ref.ID
		actions[name] = ref.Action
		switch ref.Action {
		case "create":
			sum.Created = append(sum.Created, name)
		case "delete":
			sum.Deleted = append(sum.Deleted, name)
		default:
			sum.Changed = append(sum.Changed, name)
		}
	}
	for _, d := range a.set.Documents {
		if actions[d.Name()] == "" {
			sum.Unchanged = append(sum.Unchanged, d.Name())
		}
	}
	slices.Sort(sum.Unchanged)
	summary := fmt.Sprintf("%d created, %d changed, %d deleted, %d unchanged", len(sum.Created), len(sum.Changed), len(sum.Deleted), len(sum.Unchanged))
	if sum.Revision != nil {
		summary += fmt.Sprintf("; revision %d", *sum.Revision)
		if n := a.s.Reached(a.c, client, answer); n >= 0 {
			summary += ", " + summarize.Count(n, "cluster")
		}
	}
	if a.s.Line = summary + "."; !a.s.PrintsOneLine(a.c) {
		a.s.Note("%s.", summary)
	}
	return a.s.PrintChange(a.c, render.Output{
		Document: sum,
		Tables: func() ([]render.Table, error) {
			t := render.Table{Header: []string{"DOCUMENT", "RESULT"}}
			for _, part := range []struct {
				result string
				names  []string
			}{{"created", sum.Created}, {"changed", sum.Changed}, {"deleted", sum.Deleted}, {"unchanged", sum.Unchanged}} {
				for _, name := range part.names {
					t.Rows = append(t.Rows, []string{name, part.result})
				}
			}
			return []render.Table{t}, nil
		},
		Names: func() ([]string, error) { return change.ChangeNames(result.Changes), nil },
	})
}

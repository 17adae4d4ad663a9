package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// errDiffers makes a plan or a diff with differences exit with 1. No message is printed.
var errDiffers = errors.New("something would change")

// plan requests the plan of operations.
func (s *session) plan(c *cli.Context, conn client, ops []operation) (api.Plan, error) {
	_, plan, err := s.requestPlan(c, conn, ops)
	return plan, describeLocations(ops, err, describeOperation)
}

func (s *session) requestPlan(c *cli.Context, conn client, ops []operation) (json.RawMessage, api.Plan, error) {
	data, err := render.Encode(map[string]any{"operations": ops})
	if err != nil {
		return nil, api.Plan{}, err
	}
	var a answer
	if err := s.withoutWarnings(func() error {
		a, err = receive(conn.PlanWithBody(c.Context, nil, contentJSON, bytes.NewReader(data)))
		return err
	}); err != nil {
		return nil, api.Plan{}, err
	}
	var plan api.Plan
	return a.body, plan, a.decode(&plan)
}

// showPlan prints the plan of a change.
func (s *session) showPlan(c *cli.Context, conn client, ch change) error {
	for _, flag := range []string{"dry-run", "if-match", "plan-hash"} {
		if c.IsSet(flag) {
			return args.Errorf("--plan changes nothing, so it excludes --%s", flag)
		}
	}
	if c.IsSet("templates") && c.String("templates") == "" {
		return args.Errorf("--templates must not be empty")
	}
	var ops []operation
	ch.operations = ch.operations.recordedIn(&ops)
	document, plan, err := ch.plan(s, c, conn)
	if err != nil {
		return err
	}
	made, err := s.renderedPlan(c, conn, plan, ops)
	if err == nil && made != nil && c.Bool("rendered") {
		document, err = made.addTo(document)
	}
	if err != nil {
		return err
	}
	err = s.print(c, render.Output{
		Document: document,
		Text: func(wide bool) string {
			return s.planText(plan, made, planStyle{wide: wide || c.Bool("full"), terminal: s.env.StdoutTerminal})
		},
		Names: func() ([]string, error) { return affectedClusters(plan), nil },
	})
	if err == nil && len(plan.Changes) > 0 {
		err = errDiffers
	}
	return err
}

func affectedClusters(plan api.Plan) []string {
	var names []string
	for _, group := range plan.Groups {
		for _, id := range group.Clusters {
			names = append(names, clusters.name+"/"+id)
		}
	}
	slices.Sort(names)
	return names
}

// shownNames is the number of clusters or documents that a plan names; the rest is counted. -o wide names all.
const shownNames = 8

// shownAlike is the largest number of documents of a kind with the same change that are named; -o wide names all.
const shownAlike = 3

// shownLines is the number of lines for a group of documents or clusters.
const shownLines = 12

// planStyle is the style of a plan's text.
type planStyle struct {
	wide     bool // without limits
	terminal bool // in colors
}

// planText formats a plan for people: the effect by groups of clusters, with objects if they were rendered, and the totals last,
// where the reader ends.
func (s *session) planText(plan api.Plan, made *renderedPlan, style planStyle) string {
	wide := style.wide
	w := planWriter{wide: wide, paint: func(code, text string) string { return s.paint(style.terminal, code, text) }}
	if made != nil && made.Clusters != nil {
		w.objects(plan, made)
	} else {
		w.groups(w.groupsOf(plan), "cluster")
	}
	w.ownership(plan.Ownership)
	for i, warning := range groupWarnings(plan.Warnings, wide) {
		if i == 0 {
			w.linef("")
		}
		w.linef("%s %s", w.paint(render.Yellow, "Warning:"), render.Printable(warning))
	}
	w.linef("")
	if len(plan.Changes) == 0 {
		w.linef("Nothing would change.")
		return strings.TrimPrefix(w.b.String(), "\n")
	}
	w.counts(plan)
	if made != nil {
		w.noEffect(plan, made)
	}
	if plan.ConfirmationRequired {
		w.linef("%s", w.paint(render.Red, "Confirmation required: at a terminal, with --max-removals, or with the plan hash."))
		if plan.ConfirmationReason != "" {
			w.linef("%s", render.Printable("Because "+plan.ConfirmationReason+"."))
		}
	}
	w.linef("Plan hash %s, made at revision %d.", plan.PlanHash, plan.BaseRevision)
	return strings.TrimPrefix(w.b.String(), "\n")
}

type planWriter struct {
	b     strings.Builder
	wide  bool
	most  int // lines per group; 0: shownLines
	paint func(code, text string) string
}

func (w *planWriter) linef(format string, args ...any) {
	_, _ = fmt.Fprintf(&w.b, format+"\n", args...)
}

// counts writes the totals, removals last and in red.
func (w *planWriter) counts(plan api.Plan) {
	t := plan.Totals
	w.linef("Documents: %s", render.Printable(strings.Join(w.documents(plan.Changes), ", ")))
	w.linef("%s would change; inputs of %s: %d added, %d changed, %d removed.",
		summarize.Count(len(plan.Changes), "document"), summarize.Count(t.Clusters, "cluster"), t.Added, t.Changed, t.Removed)
	if t.Clusters == 0 && len(plan.Ownership) == 0 {
		w.linef("It changes stored data only; no cluster receives another input.")
	}
	if removals := summarize.RemovalSentence(plan); removals != "" {
		w.linef("%s", w.paint(render.Red, removals))
	}
}

// documents lists the changed documents; those of a kind with the same change are only counted if there are many.
func (w *planWriter) documents(refs []api.ChangeRef) []string {
	repeated := map[string]int{}
	for _, ref := range refs {
		repeated[ref.Action+" "+ref.Kind]++
	}
	var out []string
	for _, ref := range refs {
		n := repeated[ref.Action+" "+ref.Kind]
		switch name := nameOfKind(ref.Kind); {
		case n == 0: // counted above
		case n <= shownAlike || w.wide:
			out = append(out, ref.Action+" "+name+"/"+ref.ID)
		default:
			if _, typed, ok := strings.Cut(name, "/"); ok {
				out = append(out, fmt.Sprintf("%s %d of %s", ref.Action, n, typed))
			} else {
				out = append(out, ref.Action+" "+summarize.Count(n, name))
			}
			repeated[ref.Action+" "+ref.Kind] = 0
		}
	}
	return out
}

// names lists names; above a limit, it counts the rest.
func (w *planWriter) names(names []string) string {
	if more := len(names) - shownNames; more > 1 && !w.wide {
		return render.Printable(strings.Join(names[:shownNames], ", ")) + fmt.Sprintf(" and %d more", more)
	}
	return render.Printable(strings.Join(names, ", "))
}

// ownership writes the values whose field manager changes, which is not part of polls.
func (w *planWriter) ownership(changes []api.OwnershipChange) {
	if len(changes) > 0 {
		w.linef("\nManagers")
	}
	owners := func(names []string) string {
		return render.Printable(firstNonEmpty(strings.Join(names, ","), "nobody"))
	}
	for i, ch := range changes {
		if more := len(changes) - i; i >= shownLines && more > 1 && !w.wide {
			w.linef("  and %s more; --full shows all", summarize.Count(more, "change"))
			break
		}
		w.linef("  ~ %s of %s on %s: %s → %s", render.Printable(ch.Path), render.Printable(ch.ComponentID), w.names(ch.Clusters), owners(ch.Before), owners(ch.After))
	}
}

// shortJSON formats one side of a change. Its arguments are the results of a nullable field's Get.
func shortJSON(value json.RawMessage, err error) string {
	if err != nil {
		return "(none)"
	}
	const longest = 120
	text := []rune(render.Printable(strings.ReplaceAll(string(value), "\n", " ")))
	if len(text) > longest {
		return string(text[:longest]) + "…"
	}
	return string(text)
}

// Package planview formats the effect of changes as text for people: plans, revisions, and the line about a finished change.
//
// Input are models of the API; output is text, colored by the caller's function. It sends no requests and knows no flags:
//
//	api.Plan, Objects --> groups of clusters with the same effect --> Plan
//	api.RevisionDetail --> groups of documents with the same difference ----------> Revision
//	[]Operation, response --------------------------------------------------------> ResultLine
package planview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// Style is the style of a text.
type Style struct {
	Full  bool                           // without limits
	Paint func(code, text string) string // colors text with a code of package render; nil: without colors
	// KindName returns the command line's name of a kind of the API, such as component for platform_component.
	KindName func(kind string) string
}

// ShownNames is the number of clusters or documents that a plan names; the rest is counted. -o wide names all.
const ShownNames = 8

// shownAlike is the largest number of documents of a kind with the same change that are named; -o wide names all.
const shownAlike = 3

// shownLines is the number of lines for a group of documents or clusters.
const shownLines = 12

// Plan formats a plan: the effect by groups of clusters, with objects if they were compared, and the totals last, where the reader
// ends.
func Plan(plan api.Plan, made *Objects, style Style) string {
	w := writer{Style: style}
	if made != nil && made.Clusters != nil {
		w.objects(plan, made)
	} else {
		w.groups(w.groupsOf(plan), "cluster")
	}
	w.ownership(plan.Ownership)
	for i, warning := range groupWarnings(summarize.OtherWarnings(plan), style.Full) {
		if i == 0 {
			w.linef("")
		}
		w.linef("%s %s", w.paint(render.Yellow, "Warning:"), render.Printable(warning))
	}
	w.linef("")
	w.adopted(plan.Adopted)
	if len(plan.Changes) == 0 && len(plan.Adopted) == 0 {
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

type writer struct {
	Style
	b    strings.Builder
	most int // lines per group; 0: shownLines
}

// paint colors text, unless the style has no colors or the color is empty.
func (w *writer) paint(code, text string) string {
	if w.Paint == nil || code == "" || text == "" {
		return text
	}
	return w.Paint(code, text)
}

func (w *writer) linef(format string, args ...any) {
	_, _ = fmt.Fprintf(&w.b, format+"\n", args...)
}

// Totals describes the effect of a plan in one line.
func Totals(plan api.Plan) string {
	t := plan.Totals
	return fmt.Sprintf("%s would change; inputs of %s: %d added, %d changed, %d removed.",
		summarize.Count(len(plan.Changes), "document"), summarize.Count(t.Clusters, "cluster"), t.Added, t.Changed, t.Removed)
}

// counts writes the totals, then removals and failed policies.
func (w *writer) counts(plan api.Plan) {
	w.linef("Documents: %s", render.Printable(cmp.Or(strings.Join(w.documents(plan.Changes), ", "), "none")))
	w.linef("%s", Totals(plan))
	if plan.Totals.Clusters == 0 && len(plan.Ownership) == 0 {
		w.linef("It changes stored data only; no cluster receives another input.")
	}
	if removals := summarize.RemovalSentence(plan); removals != "" {
		w.linef("%s", w.paint(render.Red, removals))
	}
	for _, v := range plan.Policies {
		if !v.Failed {
			continue
		}
		color, verb := render.Red, "refuses the change"
		if v.Action == "warn" {
			color, verb = render.Yellow, "warns"
		}
		line := fmt.Sprintf("Policy %s %s: %s", v.ID, verb, v.Message)
		if v.Clusters > 0 {
			line += " (" + summarize.Count(v.Clusters, "cluster") + ")"
		}
		w.linef("%s", w.paint(color, render.Printable(line)))
	}
}

// documents lists the changed documents; those of a kind with the same change are only counted if there are many.
func (w *writer) documents(refs []api.ChangeRef) []string {
	repeated := map[string]int{}
	for _, ref := range refs {
		repeated[ref.Action+" "+ref.Kind]++
	}
	var out []string
	for _, ref := range refs {
		n := repeated[ref.Action+" "+ref.Kind]
		switch name := w.KindName(ref.Kind); {
		case n == 0: // counted above
		case n <= shownAlike || w.Full:
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

// adopted writes the documents that a source would manage from then on.
func (w *writer) adopted(docs []api.SourceDocument) {
	if len(docs) == 0 {
		return
	}
	names := make([]string, len(docs))
	for i, d := range docs {
		names[i] = fmt.Sprintf("%s/%s (%s)", w.KindName(d.Kind), d.ID, d.File)
	}
	exist := "exist"
	if len(docs) == 1 {
		exist = "exists"
	}
	w.linef("The source would manage %s that %s: %s", summarize.Count(len(docs), "document"), exist, Names(names, w.Full))
}

// Names lists names; unless all are requested, it counts those above [ShownNames].
func Names(names []string, all bool) string {
	if more := len(names) - ShownNames; more > 1 && !all {
		return render.Printable(strings.Join(names[:ShownNames], ", ")) + fmt.Sprintf(" and %d more", more)
	}
	return render.Printable(strings.Join(names, ", "))
}

// ownership writes the values whose field manager changes, which is not part of polls.
func (w *writer) ownership(changes []api.OwnershipChange) {
	if len(changes) > 0 {
		w.linef("\nManagers")
	}
	owners := func(names []string) string {
		return render.Printable(cmp.Or(strings.Join(names, ","), "nobody"))
	}
	for i, ch := range changes {
		if more := len(changes) - i; i >= shownLines && more > 1 && !w.Full {
			w.linef("  and %s more; --full shows all", summarize.Count(more, "change"))
			break
		}
		w.linef("  ~ %s of %s on %s: %s → %s", render.Printable(ch.Path), render.Printable(ch.ComponentID), Names(ch.Clusters, w.Full), owners(ch.Before), owners(ch.After))
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

// AffectedClusters returns the clusters whose inputs a plan changes, sorted, as -o name prints them.
func AffectedClusters(plan api.Plan) []string {
	var names []string
	for _, group := range plan.Groups {
		for _, id := range group.Clusters {
			names = append(names, clusterName(id))
		}
	}
	slices.Sort(names)
	return names
}

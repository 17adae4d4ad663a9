// Package summary describes commits in one line of text for people. The log keeps operations and names; only this package
// decides on the wording, and nothing else depends on it.
package summary

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxPhrases is the number of operations or documents that are named one by one.
const maxPhrases = 3

// Names returns the word that people use for a kind of document.
type Names func(kind string) string

// Operations describes requested operations; more is the number of further ones.
func (n Names) Operations(ops []api.RevisionOperation, more int) string {
	if sameOperation(ops) && len(ops)+more > 1 {
		var names []string
		for _, op := range ops {
			names = append(names, n.document(op.Kind, op.ID))
		}
		return pastTense(ops[0].Op) + " " + listNames(names, len(names)+more)
	}
	var phrases []string
	for _, op := range ops[:min(len(ops), maxPhrases)] {
		phrases = append(phrases, n.phrase(op))
	}
	if more += len(ops) - len(phrases); more > 0 {
		phrases = append(phrases, "and "+plural(more, "more operation"))
	}
	return strings.Join(phrases, "; ")
}

// Changes describes a change of count documents; changed are the first of them.
func (n Names) Changes(changed []api.ChangeRef, count int) string {
	var names []string
	for i, ch := range changed {
		name := n.document(ch.Kind, ch.ID)
		if i == 0 || ch.Action != changed[i-1].Action {
			name = pastTense(ch.Action) + " " + name
		}
		names = append(names, name)
	}
	return listNames(names, count)
}

// sameOperation reports whether all operations do the same, each to one document.
func sameOperation(ops []api.RevisionOperation) bool {
	switch ops[0].Op {
	case "create", "update", "patch", "delete":
		return !slices.ContainsFunc(ops, func(op api.RevisionOperation) bool { return op.Op != ops[0].Op || op.Clusters > 0 || op.Mode != "" })
	}
	return false
}

// document returns a document as messages name it: component/podinfo.
func (n Names) document(kind, id string) string { return n(kind) + "/" + id }

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// listNames lists the first of count names.
func listNames(names []string, count int) string {
	shown := names[:min(len(names), maxPhrases)]
	text := strings.Join(shown, ", ")
	if more := count - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func pastTense(action string) string {
	switch action {
	case "create":
		return "created"
	case "delete":
		return "deleted"
	}
	return "changed"
}

// phrase describes one operation.
func (n Names) phrase(op api.RevisionOperation) string {
	name := n.document(op.Kind, op.ID)
	if op.Kind == "token" {
		name += " (" + strings.Join(op.Fields, ", ") + ")"
	}
	with := func(text string) string {
		if len(op.Fields) == 0 {
			return text
		}
		return text + ": " + strings.Join(op.Fields, ", ")
	}
	verb, _, _ := strings.Cut(op.Op, "_")
	switch {
	case op.Op == "create":
		return "created " + name
	case op.Op == "approved":
		return with("approved " + name)
	case op.Op == "update", op.Op == "patch":
		return with("changed " + name)
	case op.Op == "delete" && op.Mode == "orphan":
		return "forgot " + name
	case op.Op == "delete" && op.Clusters > 0:
		return fmt.Sprintf("deleted %s, off %s", name, plural(op.Clusters, "cluster"))
	case op.Op == "delete":
		return strings.TrimSuffix("deleted "+name, " ()")
	case op.Op == "apply":
		return with("applied the artifact of " + name)
	case op.Op == "replay":
		return "replayed " + name
	case op.Op == "rotate":
		return "rotated " + name
	case op.Op == "seed":
		return "seeded the fleet"
	case op.Op == "restore" && op.ID == "":
		return fmt.Sprintf("restored revision %d", op.Revision)
	case op.Op == "restore":
		return fmt.Sprintf("restored %s to revision %d", name, op.Revision)
	case op.Op == "revert" && op.ID == "":
		return fmt.Sprintf("reverted revision %d", op.Revision)
	case op.Op == "revert":
		return fmt.Sprintf("reverted revision %d of %s", op.Revision, name)
	case op.Op == "adopt":
		return "moved shared settings of clusters to " + n.targets(op)
	case op.Op == "set_labels":
		return with("labelled " + n.targets(op))
	case op.Op == "reconcile":
		return "requested a reconciliation of " + n.targets(op)
	case verb == "assign":
		return with("assigned " + name + " to " + n.targets(op))
	case verb == "unassign":
		return "took " + name + " off " + n.targets(op)
	case op.Op == "relinquish_values":
		return fmt.Sprintf("gave up the values that %q owns of %s on %s", op.FieldManager, name, n.targets(op))
	case verb == "set" || verb == "patch" || verb == "apply":
		return "set " + strings.Join(op.Fields, ", ") + " of " + name + " on " + n.targets(op)
	}
	if done, ok := rolloutActions[op.Op]; ok {
		if op.Stage != "" {
			done = strings.Replace(done, "a stage", "stage "+op.Stage, 1)
		}
		return done + " " + name
	}
	return strings.TrimSuffix(op.Op+" "+name, " /")
}

// rolloutActions are the actions on a rollout, in the past tense.
var rolloutActions = map[string]string{
	"start":    "started a stage of",
	"approve":  "approved a stage of",
	"pause":    "paused",
	"resume":   "resumed",
	"skip":     "skipped a stage of",
	"back":     "rolled back a stage of",
	"abort":    "aborted",
	"complete": "completed",
}

// targets names the clusters or layers that an operation changed, and of how many.
func (n Names) targets(op api.RevisionOperation) string {
	changed := op.Clusters - op.Unchanged
	clusters := plural(op.Clusters, "cluster")
	if op.Unchanged > 0 {
		clusters = fmt.Sprintf("%d of %s", changed, clusters)
	}
	switch {
	case len(op.Layers) > 0:
		count := op.LayerCount - op.Unchanged
		names := make([]string, min(count, len(op.Layers)))
		for i := range names {
			names[i] = n.document("layer", op.Layers[i])
		}
		return listNames(names, count)
	case len(op.ClusterIds) > 0 && changed == 1:
		return "cluster/" + op.ClusterIds[0]
	case op.All && op.Unchanged == 0:
		return "all " + clusters
	case op.Selector != "":
		return clusters + " (" + op.Selector + ")"
	}
	return clusters
}

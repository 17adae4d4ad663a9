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

// Operation is an operation of a batch.
type Operation map[string]any

// Kind returns the kind of an operation's document; for a resource with its type.
func (op Operation) Kind() string {
	kind, _ := op["kind"].(string)
	if id, ok := op["type"].(string); ok && kind == "resource" {
		return kind + "/" + id
	}
	return kind
}

// ResultLine returns the line about operations that were carried out; empty: an operation has no text. body is the response to the
// batch. kindName is [Style.KindName], reached the number of clusters whose inputs changed, -1 if it is unknown.
func ResultLine(ops []Operation, body json.RawMessage, kindName func(kind string) string, reached int) string {
	var result api.BatchResult
	if json.Unmarshal(body, &result) != nil {
		return ""
	}
	unchanged := len(result.Changes) == 0
	if subject, verb := clustersSentence(ops); unchanged && subject != "" {
		return subject + " unchanged"
	} else if subject != "" {
		return fmt.Sprintf("%s %s (revision %d)", subject, verb, result.Revision)
	}
	var line strings.Builder
	var last string
	for i, op := range ops {
		clusters := -1
		if i < len(result.Results) {
			if op["op"] == "adopt" && result.Results[i].Documents == 0 && !unchanged {
				continue
			}
			clusters = result.Results[i].Clusters
		}
		subject, verb := op.sentence(clusters, kindName)
		if op["op"] == "put" && slices.ContainsFunc(result.Changes, func(ref api.ChangeRef) bool {
			return ref.Action == "create" && ref.Kind == op.Kind() && ref.ID == op["id"]
		}) {
			verb = "created"
		}
		switch {
		case subject == "":
			return ""
		case subject == last:
			line.WriteString(" and " + verb)
		case last != "":
			line.WriteString(", " + subject + " " + verb)
		default:
			line.WriteString(subject + " " + verb)
		}
		last = subject
	}
	if last == "" {
		return ""
	}
	if unchanged {
		subject, _ := ops[0].sentence(-1, kindName)
		return subject + " unchanged"
	}
	reach := ""
	if reached >= 0 && !slices.ContainsFunc(ops, Operation.onClusters) {
		reach = ", " + summarize.Count(reached, "cluster")
	}
	return fmt.Sprintf("%s (revision %d%s)", line.String(), result.Revision, reach)
}

// sentence returns the subject of an operation and the verb with its targets; with the number of clusters if it is not negative.
func (op Operation) sentence(on int, kindName func(string) string) (subject, verb string) {
	name, _ := op["op"].(string)
	switch name {
	case "create":
		return op.documentName(kindName), "created"
	case "update", "patch", "put":
		return op.documentName(kindName), "changed"
	case "delete":
		return op.documentName(kindName), op.deletionText()
	case "restore":
		return cmp.Or(op.documentName(kindName), "the fleet"), fmt.Sprintf("restored to revision %v", op["revision"])
	case "revert":
		if doc := op.documentName(kindName); doc != "" {
			return doc, fmt.Sprintf("reverted from revision %v", op["revision"])
		}
		return fmt.Sprintf("revision %v", op["revision"]), "reverted"
	case "set_labels":
		return op.targetText(on), "labeled"
	case "reconcile":
		return op.targetText(on), "reconciled at the next poll"
	case "adopt":
		return op.targetText(on), "filled with shared settings"
	}
	verb = map[string]string{
		"assign": "assigned to", "unassign": "unassigned from", "set": "changed on", "patch": "patched on", "apply": "patched on", "relinquish": "relinquished on",
	}[name[:max(0, strings.IndexByte(name, '_'))]]
	if enabled, ok := op["enabled"].(bool); ok && name == "set_component" {
		verb = map[bool]string{true: "enabled on", false: "disabled on"}[enabled]
	}
	subject = op.definitionName()
	if verb == "" || subject == "" {
		return "", ""
	}
	return subject, verb + " " + op.targetText(on)
}

// clustersSentence returns the sentence of several operations that do the same on one cluster each; empty for other operations.
func clustersSentence(ops []Operation) (subject, verb string) {
	if len(ops) < 2 {
		return "", ""
	}
	for _, op := range ops {
		if op.Kind() != "cluster" || op["op"] != ops[0]["op"] || op["mode"] != ops[0]["mode"] {
			return "", ""
		}
	}
	subject = summarize.Count(len(ops), "cluster")
	switch ops[0]["op"] {
	case "delete":
		return subject, strings.Replace(ops[0].deletionText(), "its", "their", 1)
	case "update", "patch":
		return subject, "changed"
	}
	return "", ""
}

// onClusters reports whether the sentence of an operation names or counts clusters.
func (op Operation) onClusters() bool {
	return op.Kind() == "cluster" || op["cluster_ids"] != nil || op["selector"] != nil || op["all"] != nil
}

// deletionText describes a deletion: objects on a cluster are removed later, or stay.
func (op Operation) deletionText() string {
	switch {
	case op.Kind() != "cluster":
		return "deleted"
	case op["mode"] == "orphan":
		return "forgotten; Flux keeps its objects"
	}
	return "deleted; Flux removes its objects after the next poll"
}

// documentName names the document of an operation; empty without one.
func (op Operation) documentName(kindName func(string) string) string {
	id, _ := op["id"].(string)
	if doc, ok := op["document"].(map[string]any); ok && id == "" {
		id, _ = doc["id"].(string)
	}
	if id == "" {
		return ""
	}
	return kindName(op.Kind()) + "/" + id
}

// definitionName names the definition that an operation assigns, unassigns or sets: its id is in the field KIND_id.
func (op Operation) definitionName() string {
	for _, field := range render.SortedKeys(op) {
		name, ok := strings.CutSuffix(field, "_id")
		id, isText := op[field].(string)
		switch {
		case !ok || !isText:
		case name == "resource":
			return fmt.Sprintf("resource/%v/%s", op["type"], id)
		default:
			return name + "/" + id
		}
	}
	return ""
}

// targetText names the cluster or the layer of an operation, or counts several. The server counts no clusters for operations on
// layers.
func (op Operation) targetText(clusters int) string {
	ids, _ := op["cluster_ids"].([]string)
	on, _ := op["layers"].([]string)
	switch {
	case len(on) == 1:
		return "layer/" + on[0]
	case len(on) > 1:
		return summarize.Count(len(on), "layer")
	case len(ids) == 1:
		return clusterName(ids[0])
	case clusters >= 0:
		return summarize.Count(clusters, "cluster")
	case len(ids) > 1:
		return summarize.Count(len(ids), "cluster")
	}
	return "clusters"
}

// clusterName names a cluster.
func clusterName(id string) string { return "cluster/" + id }

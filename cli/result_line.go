package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// After a change, a terminal shows one line; programs receive the server's response.

// printsOneLine reports whether the output is one line: on a terminal, without a format. The result of a dry run is shown in full.
func (s *session) printsOneLine(c *cli.Context) bool {
	return s.env.StdoutTerminal && !c.IsSet("output") && s.env.Getenv("FRS_OUTPUT") == "" && !c.Bool("dry-run")
}

// prepareResultLine reads, before a change, what the line about it needs: the operations and, for a change whose response is a
// document, the newest revision.
func (s *session) prepareResultLine(c *cli.Context, conn client, ch change) error {
	if _, err := ch.operations(conn); err != nil || ch.request == nil {
		return err
	}
	if err := s.newest(c, conn); err != nil && s.verbose {
		s.note("the newest revision could not be read: %v", err)
	}
	return nil
}

// resultLine returns the line about operations that were carried out; empty: an operation has no text. before is the newest known
// revision when they were sent.
func (s *session) resultLine(ops []operation, a answer, before int64) string {
	result, batch := batchResult(a)
	revision, _ := strconv.ParseInt(a.revision, 10, 64)
	if batch {
		revision = result.Revision
	}
	unchanged := batch && len(result.Changes) == 0 || !batch && revision <= before
	var line strings.Builder
	var last string
	for i, op := range ops {
		clusters := -1
		if batch && i < len(result.Results) {
			if op["op"] == "adopt" && result.Results[i].Documents == 0 && !unchanged {
				continue
			}
			clusters = result.Results[i].Clusters
		}
		subject, verb := op.sentence(clusters)
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
		subject, _ := ops[0].sentence(-1)
		return subject + " unchanged"
	}
	return fmt.Sprintf("%s (revision %d)", line.String(), revision)
}

// batchResult decodes the response to a batch; false for other responses.
func batchResult(a answer) (api.BatchResult, bool) {
	var result api.BatchResult
	err := json.Unmarshal(a.body, &result)
	return result, err == nil && result.Results != nil
}

// sentence returns the subject of an operation and the verb with its targets; with the number of clusters if it is not negative.
func (op operation) sentence(on int) (subject, verb string) {
	name, _ := op["op"].(string)
	switch name {
	case "create":
		return op.documentName(), "created"
	case "update", "patch":
		return op.documentName(), "changed"
	case "delete":
		return op.documentName(), op.deletionText()
	case "restore":
		return firstNonEmpty(op.documentName(), "the fleet"), fmt.Sprintf("restored to revision %v", op["revision"])
	case "revert":
		if doc := op.documentName(); doc != "" {
			return doc, fmt.Sprintf("reverted from revision %v", op["revision"])
		}
		return fmt.Sprintf("revision %v", op["revision"]), "reverted"
	case "set_labels":
		return op.targetText(on), "labeled"
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

// deletionText describes a deletion: objects on a cluster are removed later, or stay.
func (op operation) deletionText() string {
	switch {
	case kindOf(op) != clusters.kind:
		return "deleted"
	case op["mode"] == "orphan":
		return "forgotten; Flux keeps its objects"
	}
	return "deleted; Flux removes its objects after the next poll"
}

// documentName names the document of an operation; empty without one.
func (op operation) documentName() string {
	id, _ := op["id"].(string)
	if doc, ok := op["document"].(map[string]any); ok && id == "" {
		id, _ = doc["id"].(string)
	}
	if id == "" {
		return ""
	}
	return nameOfKind(kindOf(op)) + "/" + id
}

// definitionName names the definition that an operation assigns, unassigns or sets.
func (op operation) definitionName() string {
	if id, ok := op[resourceKind+"_id"].(string); ok {
		return fmt.Sprintf("%s%v/%s", resourcePrefix, op["type"], id)
	}
	for _, n := range definitions() {
		if id, ok := op[n.name+"_id"].(string); ok {
			return n.name + "/" + id
		}
	}
	return ""
}

// targetText names the cluster or the layer of an operation, or counts several. The server counts no clusters for operations on
// layers.
func (op operation) targetText(clusters int) string {
	ids, _ := op["cluster_ids"].([]string)
	on, _ := op["layers"].([]string)
	switch {
	case len(on) == 1:
		return layers.name + "/" + on[0]
	case len(on) > 1:
		return summarize.Count(len(on), layers.name)
	case len(ids) == 1:
		return clustersName(ids[0])
	case clusters >= 0:
		return summarize.Count(clusters, "cluster")
	case len(ids) > 1:
		return summarize.Count(len(ids), "cluster")
	}
	return "clusters"
}

func clustersName(id string) string { return clusters.name + "/" + id }

// printLine prints the line about a change.
func (s *session) printLine(line string) error {
	_, err := fmt.Fprintln(s.env.Stdout, render.Printable(line))
	return err
}

// recordedIn returns a planner that also stores its operations.
func (p planner) recordedIn(in *[]operation) planner {
	return func(conn client) ([]operation, error) {
		ops, err := p(conn)
		*in = slices.Clone(ops)
		return ops, err
	}
}

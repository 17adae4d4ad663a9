package cli

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// fewDocuments is up to how many documents of a kind are read one by one; of more, the whole list is.
const fewDocuments = 20

// loadFleet reads what the fleet has. A process that is behind must not make a document loadFleet as if it were there already, so
// nothing older is read than the newest revision in the log, which every process asks the store for.
func (a *applyRun) loadFleet(conn client) error {
	if err := a.s.newest(a.c, conn); err != nil {
		return err
	}
	a.found = map[string]map[string]json.RawMessage{}
	if err := a.findTypes(conn); err != nil {
		return err
	}
	for _, n := range documentKinds(a.types...) {
		found := map[string]json.RawMessage{}
		a.found[n.kind] = found
		var ids []string
		for _, d := range a.docs {
			if d.kind.kind == n.kind {
				ids = append(ids, d.id)
			}
		}
		if len(ids) <= fewDocuments && !a.prunes(n) {
			for _, id := range ids {
				doc, err := receive(n.api.get(a.c.Context, conn, id))
				switch {
				case err == nil:
					found[id] = doc.body
				case apiclient.ErrorCode(err) != "not_found":
					return err
				}
			}
			continue
		}
		list, err := a.s.listAll(a.c, conn, n)
		if n.resourceType != "" && apiclient.ErrorCode(err) == "not_found" {
			continue // the type is among what is given
		}
		if err != nil {
			return err
		}
		for _, doc := range list {
			id, err := documentID(doc)
			if err != nil {
				return err
			}
			found[id] = doc
		}
	}
	return nil
}

// prunes tells whether documents of a kind that were not given are deleted.
func (a *applyRun) prunes(n documentKind) bool {
	return n.resourceType != "" && a.prunesResources || slices.ContainsFunc(a.pruned, func(p documentKind) bool { return p.kind == n.kind })
}

// findTypes finds the resource types that the documents, and what is pruned, are of.
func (a *applyRun) findTypes(conn client) error {
	ids := map[string]bool{}
	for _, d := range a.docs {
		ids[d.kind.resourceType] = true
	}
	for _, n := range a.pruned {
		ids[n.resourceType] = true
	}
	if a.prunesResources {
		types, err := a.s.typesOf(a.c.Context, conn)
		if err != nil {
			return err
		}
		for _, of := range types {
			ids[of.ID] = true
		}
	}
	delete(ids, "")
	a.types = nil
	for _, id := range render.SortedKeys(ids) {
		a.types = append(a.types, resourcesOfID(id))
	}
	return nil
}

// listAll reads every document of a kind.
func (s *session) listAll(c *cli.Context, conn client, n documentKind) ([]json.RawMessage, error) {
	return s.readList(0, n.page, func(e ...edit) (*http.Response, error) { return n.api.list(c.Context, conn, e...) })
}

// Up to how many documents, and bytes of them, all are sent. The server takes several times as much.
const (
	sentDocuments = 2000
	sentBytes     = 1 << 20
)

// newest notes the newest revision in the server's log.
func (s *session) newest(c *cli.Context, conn client) error {
	one := 1
	a, err := receive(conn.ListRevisions(c.Context, &api.ListRevisionsParams{Limit: &one}))
	if err != nil {
		return err
	}
	var found []api.RevisionSummary
	if err := a.decode(&found); err != nil {
		return err
	}
	for _, revision := range found {
		s.connection.seen.Note(revision.Revision)
	}
	return nil
}

// operations are those that make the fleet what the documents say, looking at it anew each time. Whether a document
// changes anything is for the server to say, at the very revision that the change is made to. Only of a large fleet the
// documents that say what it has are left out, so that few changes are a small request: those of which the server has
// confirmed it. Definitions come before the clusters that refer to them, and are deleted after.
func (a *applyRun) operations(conn client) ([]operation, error) {
	if err := a.loadFleet(conn); err != nil {
		return nil, err
	}
	given, err := a.suppliedOperations()
	if err != nil {
		return nil, err
	}
	if a.large() {
		if err := a.confirm(conn, given); err != nil {
			return nil, err
		}
	}
	ops := []operation{}
	for _, g := range given {
		if !g.same || !a.large() {
			ops = append(ops, g.operation)
		}
	}
	for _, n := range slices.Backward(documentKinds(a.types...)) {
		for _, id := range a.idsToPrune(n) {
			op := n.operation("delete", id, nil)
			if n.kind == clusters.kind {
				op["mode"] = a.c.String("mode")
			}
			ops = append(ops, op)
		}
	}
	if len(ops) == 0 { // the API wants at least one, and a plan of nothing has a hash, too
		d := a.docs[0]
		ops = append(ops, d.kind.operation("update", d.id, map[string]any{"document": d.fields}))
	}
	return ops, nil
}

// suppliedOperation is the operation of a document that was given.
type suppliedOperation struct {
	operation
	doc  document
	same bool // the fleet seems to have it as it is
}

// suppliedOperations are the operations of the documents, as the fleet was found.
func (a *applyRun) suppliedOperations() ([]suppliedOperation, error) {
	var given []suppliedOperation
	for _, n := range documentKinds(a.types...) {
		for _, d := range a.docs {
			if d.kind.kind != n.kind {
				continue
			}
			g := suppliedOperation{operation: n.operation("create", d.id, map[string]any{"document": d.fields}), doc: d}
			if now, exists := a.found[n.kind][d.id]; exists {
				changes, err := render.Changes(d.fields, now)
				if err != nil {
					return nil, err
				}
				g.operation["op"], g.same = "update", len(changes) == 0
			}
			given = append(given, g)
		}
	}
	return given, nil
}

// large tells whether the documents are more than are sent without need.
func (a *applyRun) large() bool {
	size := 0
	for _, d := range a.docs {
		size += d.size()
	}
	return size > sentBytes || len(a.docs) > sentDocuments
}

// confirm asks the server about the documents that seem to be in the fleet as they are, as many at a time as are sent
// otherwise: what was read before may be the work of another process, or undone since. Those that would change something
// are no longer the same.
func (a *applyRun) confirm(conn client, given []suppliedOperation) error {
	var part []*suppliedOperation
	size := 0
	for i := range given {
		g := &given[i]
		if !g.same {
			continue
		}
		if len(part) > 0 && (len(part) == sentDocuments || size+g.doc.size() > sentBytes) {
			if err := a.confirmPart(conn, part); err != nil {
				return err
			}
			part, size = nil, 0
		}
		part, size = append(part, g), size+g.doc.size()
	}
	if len(part) == 0 {
		return nil
	}
	return a.confirmPart(conn, part)
}

func (a *applyRun) confirmPart(conn client, part []*suppliedOperation) error {
	ops := make([]operation, len(part))
	for i, g := range part {
		ops[i] = g.operation
	}
	_, plan, err := a.s.requestPlan(a.c, conn, ops)
	if slices.Contains([]string{"conflict", "not_found", "validation_error"}, apiclient.ErrorCode(err)) {
		for _, g := range part { // the fleet has changed: with the others they are judged as a whole
			g.same = false
		}
		return nil
	}
	if err != nil {
		return describeLocations(ops, err, a.describe)
	}
	for _, change := range plan.Changes {
		for _, g := range part {
			if g.doc.kind.kind == change.Kind && g.doc.id == change.ID {
				g.same = false
			}
		}
	}
	return nil
}

// idsToPrune are the documents of a kind that are to be pruned.
func (a *applyRun) idsToPrune(n documentKind) []string {
	if !a.prunes(n) {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a.found[n.kind])), func(id string) bool {
		return slices.ContainsFunc(a.docs, func(d document) bool { return d.kind.kind == n.kind && d.id == id })
	})
}

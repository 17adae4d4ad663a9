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

// fewDocuments is the largest number of documents of a kind that are read one by one. For more, the list is read.
const fewDocuments = 20

// loadFleet reads the fleet's versions of the documents. A process that lags behind must not make a document look already applied,
// so nothing older is read than the newest revision in the log, which every process reads from the store.
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
			continue // the files create the type
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

// prunes reports whether documents of a kind that are missing in the files are deleted.
func (a *applyRun) prunes(n documentKind) bool {
	return n.resourceType != "" && a.prunesResources || slices.ContainsFunc(a.pruned, func(p documentKind) bool { return p.kind == n.kind })
}

// findTypes finds the resource types of the documents and of the definitions to prune.
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

// The largest number of documents, and of their bytes, that are all sent. The server accepts several times as much.
const (
	sentDocuments = 2000
	sentBytes     = 1 << 20
)

// newest records the newest revision in the server's log.
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

// operations returns the operations that apply the documents, computed from the current fleet on each call. The server decides
// whether a document changes anything, at the revision of the change itself. For a large set of documents, those that match the
// fleet are left out after the server has confirmed it, so that a small change is a small request. Definitions come before the
// clusters that refer to them, and are deleted after them.
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
	if len(ops) == 0 { // the API requires at least one, and a plan of no change has a hash, too
		d := a.docs[0]
		ops = append(ops, d.kind.operation("update", d.id, map[string]any{"document": d.fields}))
	}
	return ops, nil
}

// suppliedOperation is the operation of a document in the files.
type suppliedOperation struct {
	operation
	doc  document
	same bool // the fleet seems to have the same document
}

// suppliedOperations returns the operations of the documents in the files, compared with the fleet that was read.
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

// large reports whether the documents exceed the limits below which all are sent.
func (a *applyRun) large() bool {
	size := 0
	for _, d := range a.docs {
		size += d.size()
	}
	return size > sentBytes || len(a.docs) > sentDocuments
}

// confirm checks with a dry run that the documents which seem to match the fleet do match it, in parts of the usual size: the fleet
// may have been read from a process that lagged, or may have changed since. It clears the mark of those that differ.
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
		for _, g := range part { // the fleet has changed: the whole change decides about them
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

// idsToPrune returns the ids of a kind that the files do not have.
func (a *applyRun) idsToPrune(n documentKind) []string {
	if !a.prunes(n) {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a.found[n.kind])), func(id string) bool {
		return slices.ContainsFunc(a.docs, func(d document) bool { return d.kind.kind == n.kind && d.id == id })
	})
}

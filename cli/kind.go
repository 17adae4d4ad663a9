package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

// documentKind is a kind of document: how it is called, its fields, its table, and the calls of the API for it.
type documentKind struct {
	kind         string   // as the API calls it; empty for what is no document
	name, plural string   // as in messages and in -o name: "component", "components"
	title        string   // for people: "platform component"
	list         string   // the list of them in a file, and of those assigned in a cluster
	aliases      []string // of the command, and of the kind where one is named
	usage        string   // of the command
	example      string   // a command line that creates one
	fields       []field
	view         view
	text         func(wide bool) string // shown in place of the table
	labeled      bool                   // documents have labels
	api          calls
	filters      func() []filter // of lists of them
	// widen adds to the table of a list with -o wide what is no part of the documents.
	widen func(c *cli.Context, s *session, conn client, tables func() ([]render.Table, error)) func() ([]render.Table, error)
	// Of kinds that clusters are assigned.
	*assignable
	// typed is the resource type that the documents are definitions of; empty for what is compiled in.
	resourceType string
	// page is how many entries the server lists at most in one answer; 0: all of them.
	page int
}

// assignable is what a kind has that clusters are assigned.
type assignable struct {
	word                 string  // for one of them in a cluster: "role binding"
	overrides            []field // settings of an assignment, as create has them beside the fields of the definition
	assigned             []field // the same, as assign has them; nil: overrides
	values               bool    // assign takes values to patch, too
	removed              string  // what Flux removes from a cluster after unassign
	unconfirmedInScripts bool    // without a terminal, deleting it needs no --yes
	inputs               inputType
}

// calls are a kind's operations. Optional parameters travel as edits, so all kinds look the same. A kind that is not
// assigned to clusters has no assign and unassign.
type calls struct {
	list    func(ctx context.Context, c client, e ...edit) (*http.Response, error)
	get     func(ctx context.Context, c client, id string, e ...edit) (*http.Response, error)
	history func(ctx context.Context, c client, id string, e ...edit) (*http.Response, error)
	create  func(ctx context.Context, c client, body []byte, e ...edit) (*http.Response, error)
	update  func(ctx context.Context, c client, id string, body []byte, e ...edit) (*http.Response, error)
	patch   func(ctx context.Context, c client, id string, body []byte, e ...edit) (*http.Response, error)
	delete  func(ctx context.Context, c client, id string, e ...edit) (*http.Response, error)

	assign   func(ctx context.Context, c client, cluster, id string, body []byte, e ...edit) (*http.Response, error)
	unassign func(ctx context.Context, c client, cluster, id string, e ...edit) (*http.Response, error)
}

// Content types of bodies.
const (
	contentJSON       = "application/json"
	contentMergePatch = "application/merge-patch+json"
)

// view is a kind's table: the cells of a document, of which the first narrow ones are shown without -o wide.
type view struct {
	header []string
	narrow int
	row    func(json.RawMessage) ([]string, error)
}

// rowOf makes a view's row from a function over the typed document.
func rowOf[T any](cells func(T) []string) func(json.RawMessage) ([]string, error) {
	return func(raw json.RawMessage) ([]string, error) {
		var doc T
		if err := json.Unmarshal(raw, &doc); err != nil {
			return nil, fmt.Errorf("the server's answer is not as expected: %w", err)
		}
		return cells(doc), nil
	}
}

// definitions are the kinds that clusters are assigned and that are compiled in, in the order of a cluster's lists and of
// its Flux's polls. Flags, columns, completion, files, plans and help follow from them.
func definitions() []documentKind { return []documentKind{components, namespaces, roleBindings} }

// documentKinds are the kinds of documents, with those that some resource types make, definitions first: what a document refers
// to is there before it does.
func documentKinds(types ...documentKind) []documentKind {
	return slices.Concat(definitions(), []documentKind{resourceTypes}, types, []documentKind{layers, clusters})
}

// kindNames are the API's names of what has a history, the clusters first.
func kindNames() []string {
	names := []string{clusters.kind}
	for _, n := range append(definitions(), resourceTypes, layers) {
		names = append(names, n.kind)
	}
	return append(names, tokens.name)
}

// nameOfKind is how people call what the API calls so.
func nameOfKind(kind string) string {
	for _, n := range documentKinds() {
		if n.kind == kind {
			return n.name
		}
	}
	return kind
}

func (v view) table(docs ...json.RawMessage) (render.Table, error) {
	t := render.Table{Header: slices.Clone(v.header), Narrow: v.narrow}
	for _, doc := range docs {
		row, err := v.row(doc)
		if err != nil {
			return render.Table{}, err
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// shown is one or more documents of a kind as output.
func (n documentKind) outputOf(document json.RawMessage, docs ...json.RawMessage) render.Output {
	return render.Output{
		Document: document, Text: n.text,
		Tables: func() ([]render.Table, error) {
			t, err := n.view.table(docs...)
			return []render.Table{t}, err
		},
		Names: func() ([]string, error) { return n.names(docs...) },
	}
}

func (n documentKind) names(docs ...json.RawMessage) ([]string, error) {
	names := make([]string, len(docs))
	for i, doc := range docs {
		id, err := documentID(doc)
		if err != nil {
			return nil, err
		}
		names[i] = n.name + "/" + id
	}
	return names, nil
}

func documentID(doc json.RawMessage) (string, error) {
	var d struct {
		ID       string `json:"id"`
		Revision int64  `json:"revision"`
	}
	err := json.Unmarshal(doc, &d)
	if d.ID == "" { // a revision is called by its number
		d.ID = strconv.FormatInt(d.Revision, 10)
	}
	return d.ID, err
}

// one is a single document as output.
func (n documentKind) output(doc json.RawMessage) render.Output { return n.outputOf(doc, doc) }

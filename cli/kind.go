package cli

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/manifests"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

// documentKind describes a kind of document: its names, fields, table and API calls.
type documentKind struct {
	kind         string   // name in the API; empty if it is no document
	name, plural string   // as in messages and in -o name: "component", "components"
	title        string   // for people: "platform component"
	list         string   // the list in a file, and the list of assignments in a cluster
	aliases      []string // of the command, and where a kind is named
	usage        string   // of the command
	example      string   // a command line that creates one
	schema       string   // in the OpenAPI document; fields that a new document requires are in its Create schema
	fields       []field
	view         render.View
	text         func(wide bool) string // shown in place of the table
	// parts makes the further tables of a single document, of its parts.
	parts   func(document json.RawMessage) ([]render.Table, error)
	labeled bool // documents have labels
	api     calls
	filters func() []filter // of its list
	// Set for kinds that are assigned to clusters.
	*assignable
	// resourceType is the resource type whose definitions the documents are; empty for compiled-in kinds.
	resourceType string
	// page is the number of entries that one request of a list asks for; 0: the server's default.
	page int
}

// assignable describes a kind that is assigned to clusters.
type assignable struct {
	word                 string  // for one of them in a cluster: "role binding"
	overrides            []field // settings of an assignment, as create takes them beside the fields of the definition
	assigned             []field // the same for assign; nil: overrides
	values               bool    // assign also takes values to patch
	removed              string  // what Flux removes from a cluster after unassign
	unconfirmedInScripts bool    // without a terminal, deleting it needs no --yes
	inputs               inputType
}

// definitions returns the compiled-in kinds that are assigned to clusters, in the order of a cluster's lists and of its polls.
// Flags, columns, completion, files, plans and help follow from them.
func definitions() []documentKind { return []documentKind{components, namespaces, roleBindings} }

// documentKinds returns all kinds of documents that batches and files take, with those of the given resource types, definitions first: a
// document comes after those that it refers to.
func documentKinds(types ...documentKind) []documentKind {
	return slices.Concat(definitions(), []documentKind{resourceTypes}, administrative(), types, []documentKind{layers, clusters})
}

// administrative returns the kinds that determine who changes the fleet and how, and do not describe clusters.
func administrative() []documentKind {
	return []documentKind{strategies, freezes, accessDocuments, webhookDocuments}
}

// kindNames returns the API's names of the kinds with a history, clusters first.
func kindNames() []string {
	names := []string{clusters.kind}
	for _, n := range documentKinds() {
		if n.kind != clusters.kind {
			names = append(names, n.kind)
		}
	}
	return append(names, rollouts.kind, tokens.name)
}

// fileKind returns the names of the kind for files.
func (n documentKind) fileKind() manifests.Kind {
	return manifests.Kind{
		Kind: n.kind, Name: n.name, Title: n.title, List: n.list, Aliases: n.aliases, Type: n.resourceType,
		Refers: n.kind == clusters.kind || n.kind == layers.kind,
	}
}

// fileKinds returns the compiled-in kinds for files.
func fileKinds() manifests.Kinds { return fileKindsOf(documentKinds()) }

func fileKindsOf(descriptors []documentKind) manifests.Kinds {
	var kinds manifests.Kinds
	for _, n := range descriptors {
		kinds = append(kinds, n.fileKind())
	}
	return kinds
}

// kindWords returns the API's names of the kinds.
func kindWords() []string { return fileKinds().Words() }

// findKind finds a kind by any of its names; resource/TYPE for the definitions of a resource type.
func findKind(word string) (documentKind, bool) {
	k, ok := fileKinds().Find(word)
	if k.Type != "" {
		return resourcesOfID(k.Type), ok
	}
	for _, n := range documentKinds() {
		if n.kind == k.Kind {
			return n, ok
		}
	}
	return documentKind{}, false
}

// descriptorOf returns the descriptor of a kind that a file has.
func descriptorOf(k manifests.Kind) documentKind {
	n, _ := findKind(k.Kind)
	return n
}

// nameOfKind returns the command line's name of a kind in the API.
func nameOfKind(kind string) string {
	for _, n := range documentKinds() {
		if n.kind == kind {
			return n.name
		}
	}
	return kind
}

// outputOf returns documents of a kind as output.
func (n documentKind) outputOf(document any, docs ...json.RawMessage) render.Output {
	return render.Output{
		Document: document, Text: n.text,
		Tables: func() ([]render.Table, error) {
			t, err := n.view.Table(docs...)
			if err != nil || n.parts == nil || len(docs) != 1 {
				return []render.Table{t}, err
			}
			parts, err := n.parts(docs[0])
			return append([]render.Table{t}, parts...), err
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
	if d.ID == "" { // the number identifies a revision
		d.ID = strconv.FormatInt(d.Revision, 10)
	}
	return d.ID, err
}

// output returns a single document as output.
func (n documentKind) output(doc json.RawMessage) render.Output { return n.outputOf(doc, doc) }

// Package kinds describes the kinds of documents: their names, fields, tables and requests. Flags, files, completion, plans and the
// commands that all kinds have follow from the descriptors.
package kinds

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
)

// Kind describes a kind of document: its names, fields, table and API calls.
type Kind struct {
	API          string   // name in the API; empty if it is no document
	Name, Plural string   // as in messages and in -o name: "component", "components"
	Title        string   // for people: "platform component"
	List         string   // the list in a file, and the list of assignments in a cluster
	Aliases      []string // of the command, and where a kind is named
	Usage        string   // of the command
	Example      string   // a command line that creates one
	Schema       string   // in the OpenAPI document; fields that a new document requires are in its Create schema
	Fields       []Field
	View         render.View
	Text         func(wide bool) string // shown in place of the table
	// parts makes the further tables of a single document, of its parts.
	parts   func(document json.RawMessage) ([]render.Table, error)
	Labeled bool // documents have labels
	Calls   conn.Calls
	Filters func() []Filter // of its list
	// Set for kinds that are assigned to clusters.
	*Assignable
	// ResourceType is the resource type whose definitions the documents are; empty for compiled-in kinds.
	ResourceType string
	// Page is the number of entries that one request of a list asks for; 0: the server's default.
	Page int
}

// Assignable describes a kind that is assigned to clusters.
type Assignable struct {
	Word                 string  // for one of them in a cluster: "role binding"
	Overrides            []Field // settings of an assignment, as create takes them beside the fields of the definition
	Assigned             []Field // the same for assign; nil: Overrides
	Values               bool    // assign also takes values to patch
	Removed              string  // what Flux removes from a cluster after unassign
	UnconfirmedInScripts bool    // without a terminal, deleting it needs no --yes
	Inputs               InputType
}

// Definitions returns the compiled-in kinds that are assigned to clusters, in the order of a cluster's lists and of its polls.
// Flags, columns, completion, files, plans and help follow from them.
func Definitions() []Kind { return []Kind{Components, Namespaces, RoleBindings} }

// All returns all kinds of documents that batches and files take, with those of the given resource types, definitions first: a
// document comes after those that it refers to.
func All(types ...Kind) []Kind {
	return slices.Concat(Definitions(), []Kind{ResourceTypes}, Administrative(), types, []Kind{Layers, Clusters})
}

// Administrative returns the kinds that determine who changes the fleet and how, and do not describe clusters.
func Administrative() []Kind {
	return []Kind{Strategies, Freezes, Access, Webhooks, Sources, Policies}
}

// Names returns the API's names of the kinds with a history, clusters first.
func Names() []string {
	names := []string{Clusters.API}
	for _, n := range All() {
		if n.API != Clusters.API {
			names = append(names, n.API)
		}
	}
	return append(names, Rollouts.API, Tokens.Name)
}

// ForFiles returns the names of the kind for files.
func (n Kind) ForFiles() documents.Kind {
	return documents.Kind{
		Kind: n.API, Name: n.Name, Title: n.Title, List: n.List, Aliases: n.Aliases, Type: n.ResourceType,
		Refers: n.API == Clusters.API || n.API == Layers.API,
	}
}

// ForFiles returns the compiled-in kinds for files.
func ForFiles() documents.Kinds { return ForFilesOf(All()) }

// ForFilesOf returns kinds for files.
func ForFilesOf(descriptors []Kind) documents.Kinds {
	var all documents.Kinds
	for _, n := range descriptors {
		all = append(all, n.ForFiles())
	}
	return all
}

// Words returns the API's names of the kinds.
func Words() []string { return ForFiles().Words() }

// Find finds a kind by any of its names; resource/TYPE for the definitions of a resource type.
func Find(word string) (Kind, bool) { return FindIn(All(ResourcesOfID("TYPE")), word) }

// FindIn is Find among some kinds. The definitions of all resource types are among them if those of one are.
func FindIn(some []Kind, word string) (Kind, bool) {
	k, _ := ForFilesOf(some).Find(word)
	for _, n := range some {
		switch {
		case word == "": // the list of a kind that files do not have
		case k.Type != "" && n.ResourceType != "":
			return ResourcesOfID(k.Type), true
		case k.Kind != "" && n.API == k.Kind:
			return n, true
		}
	}
	return Kind{}, false
}

// Of returns the descriptor of a kind that a file has.
func Of(k documents.Kind) Kind {
	n, _ := Find(k.Kind)
	return n
}

// NameOf returns the command line's name of a kind in the API.
func NameOf(kind string) string {
	for _, n := range All() {
		if n.API == kind {
			return n.Name
		}
	}
	return kind
}

// OutputOf returns documents of a kind as output.
func (n Kind) OutputOf(document any, docs ...json.RawMessage) render.Output {
	return render.Output{
		Document: document, Text: n.Text,
		Tables: func() ([]render.Table, error) {
			t, err := n.View.Table(docs...)
			if err != nil || n.parts == nil || len(docs) != 1 {
				return []render.Table{t}, err
			}
			parts, err := n.parts(docs[0])
			return append([]render.Table{t}, parts...), err
		},
		Names: func() ([]string, error) { return n.Names(docs...) },
	}
}

// Names returns documents as KIND/NAME.
func (n Kind) Names(docs ...json.RawMessage) ([]string, error) {
	names := make([]string, len(docs))
	for i, doc := range docs {
		id, err := DocumentID(doc)
		if err != nil {
			return nil, err
		}
		names[i] = n.Name + "/" + id
	}
	return names, nil
}

// DocumentID returns the id of a document, or the number of a revision.
func DocumentID(doc json.RawMessage) (string, error) {
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

// Output returns a single document as output.
func (n Kind) Output(doc json.RawMessage) render.Output { return n.OutputOf(doc, doc) }

// Filter is a flag of a list that becomes a parameter of the query.
type Filter struct {
	Flag  cli.Flag
	Param string
}

// FilterEdit sets the parameters of the filters whose flags are set.
func FilterEdit(c *cli.Context, filters []Filter) conn.Edit {
	values := url.Values{}
	for _, f := range filters {
		name := f.Flag.Names()[0]
		if c.IsSet(name) {
			values.Set(f.Param, fmt.Sprint(c.Value(name)))
		}
	}
	return conn.Query(values)
}

// InputType is one of the lists that a cluster's Flux polls.
type InputType struct {
	Name string
	View render.View
}

// InputTypes returns all lists in the order of the kinds.
func InputTypes() []InputType {
	var types []InputType
	for _, n := range Definitions() {
		types = append(types, n.Inputs)
	}
	return types
}

// InputTypeNames returns the names of all lists in the order of the kinds.
func InputTypeNames() []string {
	var names []string
	for _, t := range InputTypes() {
		names = append(names, t.Name)
	}
	return names
}

// OneTitle is the title with its article.
func (n Kind) OneTitle() string {
	if strings.ContainsAny(n.Title[:1], "aeiou") {
		return "an " + n.Title
	}
	return "a " + n.Title
}

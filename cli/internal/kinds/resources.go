package kinds

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/resourcetype"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/urfave/cli/v2"
)

// WithID adds the id of a definition to an operation's fields.
func WithID(n Kind, id string, settings map[string]any) map[string]any {
	fields := map[string]any{n.Name + "_id": id}
	if n.ResourceType != "" {
		fields = map[string]any{"type": n.ResourceType, ResourceKind + "_id": id}
	}
	maps.Copy(fields, settings)
	return fields
}

// ResourceKind is the kind of the definitions of all resource types in documents and operations, which have the type in a field.
const ResourceKind = documents.ResourceKind

// ResourcesOf returns the kind that a resource type makes. With the type's id alone, tables lack columns, and values of --set are
// read as JSON where they are valid JSON.
func ResourcesOf(of api.ResourceType) Kind {
	id, k := of.ID, documents.OfType(of.ID)
	properties := resourcetype.In(of.Schema)
	return Kind{
		ResourceType: id, API: k.Kind, Schema: "Resource", Name: k.Name, Plural: id, Title: k.Title, List: k.List,
		Usage:   "Definitions of your resource types, and their assignments to clusters",
		Example: "resource network-policies create podinfo --set namespace=podinfo --set ports=[9898] --cluster demo-cluster-01",
		Fields:  specFields("set", "spec", "", properties),
		View:    properties.View(true),
		Assignable: &Assignable{
			Word: id, Removed: "the objects made from it", Overrides: specFields("override", "overrides", " on these clusters, instead of the definition's; replaces all overrides", properties),
			Inputs: InputType{Name: id, View: properties.View(false)},
		},
		Calls: conn.Calls{Path: "/resources/" + url.PathEscape(id)},
	}
}

// ResourcesOfID returns the kind of a resource type's definitions by the type's id.
func ResourcesOfID(id string) Kind { return ResourcesOf(api.ResourceType{ID: id}) }

// specFields are the flags that set properties of a spec: NAME=VALUE, and as JSON. Together they are one field of the document, so
// each of them reads both.
func specFields(flag, name, usage string, properties resourcetype.Properties) []Field {
	read := func(c *cli.Context, _ string) (any, error) {
		return properties.Parse(flag, func(name string) []string { return stringValues(c, name) })
	}
	plainly := listField(flag, name, "`NAME=VALUE`: a property"+usage+"; a string if the schema requires one, else JSON; repeat for more")
	exactly := listField(flag+"-json", name, "`NAME=JSON`: a property"+usage+"; repeat for more")
	plainly.read, exactly.read = read, read
	plainly.merge, exactly.merge = true, true
	return []Field{plainly, exactly}
}

// Operation returns an operation on a document of the kind.
func (n Kind) Operation(op, id string, more map[string]any) planview.Operation {
	o := planview.Operation{"op": op, "kind": n.API, "id": id}
	if n.ResourceType != "" {
		o["kind"], o["type"] = ResourceKind, n.ResourceType
	}
	maps.Copy(o, more)
	return o
}

// ChangeOperation returns the operation update or put with the given fields of a document. Those of a spec are merged: the others stay.
func (n Kind) ChangeOperation(op, id string, fields any) planview.Operation {
	switch {
	case n.ResourceType == "":
		return n.Operation(op, id, map[string]any{"document": fields})
	case op == "update":
		op = "patch"
	}
	return n.Operation(op, id, map[string]any{"patch": fields})
}

// ChangeOperations returns the operations update or put with the given fields of a document. A field of which only some keys change is
// in an operation of its own, which merges them.
func (n Kind) ChangeOperations(op, id string, fields map[string]any) (ops []planview.Operation) {
	whole, patch := map[string]any{}, map[string]any{}
	for name, value := range fields {
		if part, ok := value.(changes); ok {
			patch[name] = part
		} else {
			whole[name] = value
		}
	}
	_, named := whole["id"]
	if alone := len(whole) == 0 || named && len(whole) == 1; op == "put" || !alone || len(patch) == 0 {
		ops = append(ops, n.ChangeOperation(op, id, whole))
	}
	if len(patch) > 0 {
		ops = append(ops, n.Operation("patch", id, map[string]any{"patch": patch}))
	}
	return ops
}

// CreateOperation returns the operation that creates a document. One that exists stays as it is: other values in it are a conflict.
func (n Kind) CreateOperation(id string, fields map[string]any) planview.Operation {
	document := map[string]any{}
	for name, value := range fields {
		if part, ok := value.(changes); ok {
			value = withoutNull(part)
		}
		document[name] = value
	}
	op := n.ChangeOperation("put", id, document)
	op["if_absent"] = true
	return op
}

// withoutNull returns an object without the keys that changes remove.
func withoutNull(object map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range object {
		if below, ok := value.(map[string]any); ok {
			value = withoutNull(below)
		}
		if value != nil {
			out[name] = value
		}
	}
	return out
}

// AssignOperation returns the name of the operation that assigns or unassigns a document of the kind: VERB_component.
func (n Kind) AssignOperation(verb string) string {
	if n.ResourceType != "" {
		return verb + "_" + ResourceKind
	}
	return verb + "_" + n.Name
}

// Command returns the command of the kind as it is typed.
func (n Kind) Command() string {
	if n.ResourceType != "" {
		return ResourceKind + " " + n.ResourceType
	}
	return n.Name
}

// Entries returns a cluster's list of the kind.
func (n Kind) Entries(cluster json.RawMessage) ([]map[string]json.RawMessage, error) {
	var doc map[string]json.RawMessage
	var entries []map[string]json.RawMessage
	err := json.Unmarshal(cluster, &doc)
	list := doc[n.List]
	if err == nil && n.ResourceType != "" && list != nil {
		var lists map[string]json.RawMessage
		err = json.Unmarshal(list, &lists)
		list = lists[n.ResourceType]
	}
	if err == nil && list != nil {
		err = json.Unmarshal(list, &entries)
	}
	if err != nil {
		return nil, fmt.Errorf("unexpected response of the server: %w", err)
	}
	return entries, nil
}

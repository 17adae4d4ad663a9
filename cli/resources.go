package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/manifests"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/resourcetype"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// resourceKind is the kind of the definitions of all resource types in documents and operations, which have the type in a field.
const resourceKind = manifests.ResourceKind

// resourcesOf returns the kind that a resource type makes. With the type's id alone, tables lack columns, and values of --set are
// read as JSON where they are valid JSON.
func resourcesOf(of api.ResourceType) documentKind {
	id, k := of.ID, manifests.OfType(of.ID)
	properties := resourcetype.In(of.Schema)
	return documentKind{
		resourceType: id, kind: k.Kind, schema: "Resource", name: k.Name, plural: id, title: k.Title, list: k.List,
		usage:   "Definitions of your resource types, and their assignments to clusters",
		example: "resource network-policies create podinfo --set namespace=podinfo --set ports=[9898] --cluster demo-cluster-01",
		fields:  specFields("set", "spec", "", properties),
		view:    properties.View(true),
		assignable: &assignable{
			word: id, removed: "the objects made from it", overrides: specFields("override", "overrides", " on these clusters, instead of the definition's; replaces all overrides", properties),
			inputs: inputType{name: id, view: properties.View(false)},
		},
		api: calls{path: "/resources/" + url.PathEscape(id)},
	}
}

// resourcesOfID returns the kind of a resource type's definitions by the type's id.
func resourcesOfID(id string) documentKind { return resourcesOf(api.ResourceType{ID: id}) }

// resourceCommand is the command of the definitions of all resource types. It has the commands of every assignable kind; the type
// is known when one is run.
func (s *session) resourceCommand() *cli.Command {
	const operand = "TYPE"
	general := kindCommands{s, resourcesOfID("TYPE")}
	general.title, general.plural = "resource", "resources of a type"
	cmd := general.definitionCommand()
	cmd.Name, cmd.Aliases = resourceKind, []string{"resources", "res"}
	cmd.ArgsUsage = operand
	cmd.Flags = []cli.Flag{&cli.StringFlag{Name: strings.ToLower(operand), Hidden: true, Usage: "the resource type"}}
	for i, sub := range cmd.Subcommands {
		sub.Action = func(c *cli.Context) error {
			conn, err := s.connect(c)
			if err != nil {
				return err
			}
			id := c.String("type")
			if err := args.CheckID(operand, id); err != nil {
				return err
			}
			of, err := s.typeOf(c.Context, conn, id)
			if err != nil {
				return err
			}
			return kindCommands{s, resourcesOf(of)}.definitionCommand().Subcommands[i].Action(c)
		}
	}
	return cmd
}

// specFields are the flags that set properties of a spec: NAME=VALUE, and as JSON. Together they are one field of the document, so
// each of them reads both.
func specFields(flag, name, usage string, properties resourcetype.Properties) []field {
	read := func(c *cli.Context, _ string) (any, error) {
		return properties.Parse(flag, func(name string) []string { return stringValues(c, name) })
	}
	plainly := listField(flag, name, "`NAME=VALUE`: a property"+usage+"; a string if the schema requires one, else JSON; repeat for more")
	exactly := listField(flag+"-json", name, "`NAME=JSON`: a property"+usage+"; repeat for more")
	plainly.read, exactly.read = read, read
	plainly.merge, exactly.merge = true, true
	return []field{plainly, exactly}
}

// operation returns an operation on a document of the kind.
func (n documentKind) operation(op, id string, more map[string]any) operation {
	o := operation{"op": op, "kind": n.kind, "id": id}
	if n.resourceType != "" {
		o["kind"], o["type"] = resourceKind, n.resourceType
	}
	maps.Copy(o, more)
	return o
}

// changeOperation returns the operation update or put with the given fields of a document. Those of a spec are merged: the others stay.
func (n documentKind) changeOperation(op, id string, fields any) operation {
	switch {
	case n.resourceType == "":
		return n.operation(op, id, map[string]any{"document": fields})
	case op == "update":
		op = "patch"
	}
	return n.operation(op, id, map[string]any{"patch": fields})
}

// assignOperation returns the name of the operation that assigns or unassigns a document of the kind: VERB_component.
func (n documentKind) assignOperation(verb string) string {
	if n.resourceType != "" {
		return verb + "_" + resourceKind
	}
	return verb + "_" + n.name
}

// command returns the command of the kind as it is typed.
func (n documentKind) command() string {
	if n.resourceType != "" {
		return resourceKind + " " + n.resourceType
	}
	return n.name
}

// entries returns a cluster's list of the kind.
func (n documentKind) entries(cluster json.RawMessage) ([]map[string]json.RawMessage, error) {
	var doc map[string]json.RawMessage
	var entries []map[string]json.RawMessage
	err := json.Unmarshal(cluster, &doc)
	list := doc[n.list]
	if err == nil && n.resourceType != "" && list != nil {
		var lists map[string]json.RawMessage
		err = json.Unmarshal(list, &lists)
		list = lists[n.resourceType]
	}
	if err == nil && list != nil {
		err = json.Unmarshal(list, &entries)
	}
	if err != nil {
		return nil, fmt.Errorf("unexpected response of the server: %w", err)
	}
	return entries, nil
}

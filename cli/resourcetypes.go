package cli

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/resourcetype"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// resourceTypes are the documents that each make a kind of definition; see resources.go.
var resourceTypes = documentKind{
	kind: "resource_type", schema: "ResourceType", name: "resource-type", plural: "resource types", title: "resource type", list: "resource_types",
	aliases: []string{"rt", "resource-types"}, usage: "Resource types: kinds of definitions that are made by you",
	example: "resource-type create network-policies -f network-policies.yaml",
	fields: []field{
		textField("description", "description", "description for people"),
		listField("overridable", "overridable", "`PROPERTY` that clusters may set otherwise; repeat for more; replaces all"),
		textField("removal", "removal", "effect on an object whose input is removed: delete, or keep with the annotation of the template"),
	},
	view: render.View{
		Header: []string{"ID", "REMOVAL", "TEMPLATE", "OVERRIDABLE", "REVISION", "DESCRIPTION", "UPDATED"},
		Narrow: 6,
		Row: render.RowOf(func(d api.ResourceType) []string {
			template := "no"
			if d.Template != "" {
				template = "yes"
			}
			return []string{
				d.ID, d.Removal, template, strings.Join(d.Overridable, ","), strconv.FormatInt(d.Revision, 10), d.Description, render.Time(d.UpdatedAt),
			}
		}),
	},
	api: calls{path: "/resource_types"},
}

func (s *session) resourceTypeCommand() *cli.Command {
	v := kindCommands{s, resourceTypes}
	remove := v.deleteCommand()
	remove.Usage = "Delete a resource type without definitions"
	for _, f := range remove.Flags {
		if flag, ok := f.(*cli.BoolFlag); ok && flag.Name == "cascade" {
			flag.Usage = "delete its definitions, and unassign them from every cluster, in the same change"
		}
	}
	return v.documentCommand(remove)
}

// typesOf returns the resource types of the fleet by id.
func (s *session) typesOf(ctx context.Context, conn client) ([]api.ResourceType, error) {
	docs, err := s.readList(0, 0, func(e ...edit) (*http.Response, error) { return resourceTypes.api.list(ctx, conn, e...) })
	types := make([]api.ResourceType, len(docs))
	for i, doc := range docs {
		if err := (answer{body: doc}).decode(&types[i]); err != nil {
			return nil, err
		}
	}
	return types, err
}

// typeIDs returns the ids of typesOf.
func (s *session) typeIDs(ctx context.Context, conn client) ([]string, error) {
	types, err := s.typesOf(ctx, conn)
	ids := make([]string, len(types))
	for i, of := range types {
		ids[i] = of.ID
	}
	return ids, err
}

// typeOf returns one resource type.
func (s *session) typeOf(ctx context.Context, conn client, id string) (api.ResourceType, error) {
	return receiveAs[api.ResourceType](resourceTypes.api.get(ctx, conn, id))
}

// completionTime is the time limit of a completion.
const completionTime = 2 * time.Second

// typeNames returns candidates for completion.
func (s *completer) typeNames() []string { return s.idsOf(resourceTypes) }

// propertiesOf returns the names of the fields of the type in the command line, each with an equals sign.
func (s *completer) propertiesOf(flag string) []string {
	conn, err := s.connection.client(s.c)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.c.Context, completionTime)
	defer cancel()
	of, err := s.typeOf(ctx, conn, s.resourceType)
	if err != nil {
		return nil
	}
	names := of.Overridable
	if strings.HasPrefix(flag, "set") {
		names = resourcetype.In(of.Schema).Names
	}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = name + "="
	}
	return out
}

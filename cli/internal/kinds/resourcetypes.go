package kinds

import (
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// ResourceTypes are the documents that each make a kind of definition; see resources.go.
var ResourceTypes = Kind{
	API: "resource_type", Schema: "ResourceType", Name: "resource-type", Plural: "resource types", Title: "resource type", List: "resource_types",
	Aliases: []string{"rt", "resource-types"}, Usage: "Resource types: kinds of definitions that are made by you",
	Example: "resource-type create network-policies -f network-policies.yaml",
	Fields: []Field{
		textField("description", "description", "description for people"),
		listField("overridable", "overridable", "`PROPERTY` that clusters may set otherwise; repeat for more; replaces all"),
		textField("removal", "removal", "effect on an object whose input is removed: delete, or keep with the annotation of the template"),
	},
	View: render.View{
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
	Calls: conn.Calls{Path: "/resource_types"},
}

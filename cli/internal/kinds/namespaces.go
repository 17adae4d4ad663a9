package kinds

import (
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Namespaces are the namespaces that clusters are assigned.
var Namespaces = Kind{
	API: "namespace", Schema: "Namespace", Name: "namespace", Plural: "namespaces", Title: "namespace", List: "namespaces",
	Aliases: []string{"namespaces", "ns"}, Usage: "Namespaces, and their assignments to clusters",
	Example: "namespace create team-sandbox --label team=sandbox --annotation owner=platform --cluster demo-cluster-01",
	Fields: []Field{
		parsedField("label", "labels", "label `KEY=VALUE`; repeat for more; replaces all labels", input.Pairs),
		parsedField("annotation", "annotations", "annotation `KEY=VALUE`; repeat for more; replaces all annotations", input.Pairs),
		textField("deletion-policy", "deletion_policy", "`POLICY` when it is unassigned from a cluster: delete it with everything in it, or orphan it"),
	},
	View: render.View{
		Header: []string{"ID", "DELETION", "LABELS", "REVISION", "ANNOTATIONS", "UPDATED"},
		Narrow: 4,
		Row: render.RowOf(func(d api.Namespace) []string {
			return []string{d.ID, d.DeletionPolicy, render.Labels(d.Labels), strconv.FormatInt(d.Revision, 10), render.Labels(d.Annotations), render.Time(d.UpdatedAt)}
		}),
	},
	Assignable: &Assignable{
		Word: "namespace", Removed: "the namespace with everything in it, unless its deletion policy is orphan", UnconfirmedInScripts: true,
		Inputs: InputType{
			Name: "namespaces",
			View: render.View{
				Header: []string{"ID", "DELETION", "LABELS", "ANNOTATIONS"},
				Narrow: 3,
				Row: render.RowOf(func(d api.FluxNamespace) []string {
					return []string{d.ID, d.DeletionPolicy, render.Labels(d.Labels), render.Labels(d.Annotations)}
				}),
			},
		},
	},
	Calls: conn.Calls{Path: "/namespaces"},
}

package cli

import (
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

var namespaces = documentKind{
	kind: "namespace", schema: "Namespace", name: "namespace", plural: "namespaces", title: "namespace", list: "namespaces",
	aliases: []string{"namespaces", "ns"}, usage: "Namespaces, and their assignments to clusters",
	example: "namespace create team-sandbox --label team=sandbox --annotation owner=platform --cluster demo-cluster-01",
	fields: []field{
		parsedField("label", "labels", "label `KEY=VALUE`; repeat for more; replaces all labels", input.Pairs),
		parsedField("annotation", "annotations", "annotation `KEY=VALUE`; repeat for more; replaces all annotations", input.Pairs),
		textField("deletion-policy", "deletion_policy", "`POLICY` when it is unassigned from a cluster: delete it with everything in it, or orphan it"),
	},
	view: render.View{
		Header: []string{"ID", "DELETION", "LABELS", "REVISION", "ANNOTATIONS", "UPDATED"},
		Narrow: 4,
		Row: render.RowOf(func(d api.Namespace) []string {
			return []string{d.ID, d.DeletionPolicy, render.Labels(d.Labels), strconv.FormatInt(d.Revision, 10), render.Labels(d.Annotations), render.Time(d.UpdatedAt)}
		}),
	},
	assignable: &assignable{
		word: "namespace", removed: "the namespace with everything in it, unless its deletion policy is orphan", unconfirmedInScripts: true,
		inputs: inputType{
			name: "namespaces",
			view: render.View{
				Header: []string{"ID", "DELETION", "LABELS", "ANNOTATIONS"},
				Narrow: 3,
				Row: render.RowOf(func(d api.FluxNamespace) []string {
					return []string{d.ID, d.DeletionPolicy, render.Labels(d.Labels), render.Labels(d.Annotations)}
				}),
			},
		},
	},
	api: calls{path: "/namespaces"},
}

package ui

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxDefinitions is how many definitions of a kind the page of definitions names.
const maxDefinitions = 200

// Lists of the definitions that have no page of their own, as addresses name them. Each resource type has one more, of its id.
const (
	listNamespaces    = "namespaces"
	listRoleBindings  = "rolebindings"
	listResourceTypes = "resource-types"
)

// definitionKind is the kind of the documents in a list of definitions.
func definitionKind(list string) string {
	switch list {
	case listNamespaces:
		return client.KindNamespace
	case listRoleBindings:
		return client.KindRoleBinding
	case listResourceTypes:
		return client.KindResourceType
	}
	return client.KindResource + "/" + list
}

// definitionList is a list of definitions, by their ids.
type definitionList struct {
	List  string
	IDs   []string
	Count int
}

func makeDefinitionList(list string, ids []string) definitionList {
	slices.Sort(ids)
	return definitionList{list, ids, len(ids)}
}

// definitionLists are namespaces, role bindings, resource types, and the resources of each type.
func (req *pageRequest) definitionLists() ([]definitionList, error) {
	ctx := req.r.Context()
	namespaces, err := req.fleet.ListNamespacesWithResponse(ctx, nil)
	if err != nil {
		return nil, err
	}
	bindings, err := req.fleet.ListRoleBindingsWithResponse(ctx, nil)
	if err != nil {
		return nil, err
	}
	types, err := req.fleet.ListResourceTypesWithResponse(ctx, nil)
	if err != nil {
		return nil, err
	}
	typeIDs := idsOf(*types.JSON200, func(t api.ResourceType) string { return t.ID })
	out := []definitionList{
		makeDefinitionList(listNamespaces, idsOf(*namespaces.JSON200, func(n api.Namespace) string { return n.ID })),
		makeDefinitionList(listRoleBindings, idsOf(*bindings.JSON200, func(b api.RoleBinding) string { return b.ID })),
		makeDefinitionList(listResourceTypes, typeIDs),
	}
	for _, name := range out[2].IDs {
		resources, err := req.fleet.ListResourcesWithResponse(ctx, name, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, makeDefinitionList(name, idsOf(*resources.JSON200, func(r api.Resource) string { return r.ID })))
	}
	return out, nil
}

func idsOf[T any](documents []T, id func(T) string) []string {
	out := make([]string, len(documents))
	for i, doc := range documents {
		out[i] = id(doc)
	}
	return out
}

type definitionsView struct {
	frame
	Lists []definitionList
}

// showDefinitions lists the definitions that clusters are assigned besides components.
func showDefinitions(req *pageRequest) error {
	lists, err := req.definitionLists()
	if err != nil {
		return err
	}
	for i, list := range lists {
		lists[i].IDs = list.IDs[:min(len(list.IDs), maxDefinitions)]
	}
	return req.show("definitions", definitionsView{req.frame("Definitions", "definitions"), lists})
}

type definitionView struct {
	frame
	List, Kind, ID string
	Deleted        bool
	Fields         []fieldChange // its values, in After
	Hidden         bool
	Reveal         string
	Changes        []changeRow
	More           string // the rest of the history
}

// showDefinition shows one definition, also one that was deleted: by its history.
func showDefinition(req *pageRequest) error {
	list, id := req.r.PathValue("list"), req.r.PathValue("id")
	kind := definitionKind(list)
	doc, err := req.document(kind, id, nil)
	if err != nil {
		return err
	}
	view := definitionView{List: list, Kind: kind, ID: id, Deleted: doc == nil, Reveal: req.revealLink(), More: historyLink(kind, id)}
	if view.Changes, _, err = req.changes(&api.ListRevisionsParams{Kind: &kind, ID: &id, Limit: new(overviewChanges)}); err != nil {
		return err
	}
	if view.Deleted && len(view.Changes) == 0 {
		return errNotFound
	}
	if view.Fields, err = diff(nil, doc, req.reveal()); err != nil {
		return err
	}
	for _, f := range view.Fields {
		view.Hidden = view.Hidden || f.Hidden
	}
	view.frame = req.frame(id, "definitions")
	return req.show("definition", view)
}

package ui

import (
	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxDefinitions is the number of ids that the page of definitions shows for each kind.
const maxDefinitions = 200

// definitionList is a list of definitions, by their ids.
type definitionList struct {
	List  string
	IDs   []string
	Count int
}

// definitionLists returns the definitions of each kind without a section of its own, and the resources of each resource type.
func (req *pageRequest) definitionLists() (out []definitionList, err error) {
	var listed []kind
	for _, k := range kinds {
		if k.listAll != nil {
			listed = append(listed, k)
		}
	}
	for i := 0; i < len(listed); i++ { // listed grows by the resource types
		ids, err := listed[i].ids(req.r.Context(), req.fleet)
		if err != nil {
			return nil, err
		}
		out = append(out, definitionList{listed[i].list, ids, len(ids)})
		if listed[i].name == client.KindResourceType {
			for _, id := range ids {
				listed = append(listed, resourceKind(id))
			}
		}
	}
	return out, nil
}

type definitionsView struct {
	frame
	Lists []definitionList
}

// showDefinitions lists all definitions except components.
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
	Fields         []fieldChange // values, in After
	Hidden         bool
	Reveal         string
	Changes        []changeRow
	More           string // the rest of the history
}

// showDefinition shows one definition and its history. A deleted one has only its history.
func showDefinition(req *pageRequest) error {
	list, id := req.r.PathValue("list"), req.r.PathValue("id")
	kind := kindOfList(list).name
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

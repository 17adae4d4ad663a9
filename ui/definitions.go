package ui

import (
	"encoding/json"
	"net/url"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxDefinitions is the number of ids that the page of definitions shows for each kind.
const maxDefinitions = 200

// definitionList is a list of definitions, by their ids.
type definitionList struct {
	List  string
	Items []pageLink
	Table documentTable // in place of Items, of a kind with columns
	All   string        // the page with all of its documents; empty: this is all
	Count int
}

type definitionsView struct {
	frame
	Lists     []definitionList
	NewFreeze string // the address of the form; empty: the visitor may create none
}

// showDefinitions lists the definitions of each kind without a section of its own, and the resources of each resource type.
func showDefinitions(req *pageRequest) error {
	view := definitionsView{NewFreeze: req.newFreezeLink()}
	var listed []kind
	for _, k := range kinds {
		if k.section == "" && (!k.admin || req.may("admin")) {
			listed = append(listed, k)
		}
	}
	for i := 0; i < len(listed); i++ { // listed grows by the resource types
		if len(listed[i].columns) > 0 {
			list, err := req.firstDocuments(listed[i])
			if err != nil {
				return err
			}
			if list.Count > 0 || list.List == policyList { // there are rules in any case
				view.Lists = append(view.Lists, list)
			}
			continue
		}
		var ids []namedID
		if err := listed[i].readAll(req, &ids); err != nil {
			return err
		}
		if len(ids) == 0 && listed[i].serviceOnly {
			continue // nobody uses it
		}
		list := definitionList{List: listed[i].list, Count: len(ids)}
		for _, one := range ids {
			list.Items = append(list.Items, pageLink{one.Text(), listed[i].page(one.ID)})
			if listed[i].name == client.KindResourceType {
				listed = append(listed, resourceKind(one.ID))
			}
		}
		list.Items = list.Items[:min(len(list.Items), maxDefinitions)]
		view.Lists = append(view.Lists, list)
	}
	return req.show("definitions", "Definitions", "definitions", &view)
}

// firstDocuments returns the first documents of a kind with columns, in the order of its own page.
func (req *pageRequest) firstDocuments(k kind) (definitionList, error) {
	rows, err := k.documents(req)
	if err != nil {
		return definitionList{}, err
	}
	list := definitionList{List: k.list, Count: len(rows), All: link("definitions", k.list), Table: k.table(rows, "", url.Values{})}
	list.Table.Rows = rows[:min(len(rows), tableRows)]
	return list, nil
}

type definitionView struct {
	frame
	List, Kind, ID string
	Deleted        bool
	Managed        managed
	Fields         []fieldChange // values, in After
	Hidden         bool
	Reveal         string
	Assigned       bool // clusters may have it
	Bar            stateBar
	Clusters       int
	ClustersLink   string
	Layers         []string // that assign it
	Delete         pageLink
	Changes        []changeRow
}

// showDefinition shows one definition: its values, where it is assigned, which clusters confirmed it, and its history. A deleted one has
// only its history.
func showDefinition(req *pageRequest) error {
	list, id := req.r.PathValue("list"), req.r.PathValue("id")
	kind := kindOfList(list)
	if kind.admin && !req.may("admin") {
		req.redirect(historyLink(kind.name, id))
		return nil
	}
	doc, by, err := req.managedDocument(kind.name, id, nil)
	if err != nil {
		return err
	}
	view := definitionView{List: list, Kind: kind.name, ID: id, Deleted: doc == nil, Managed: by, Reveal: req.revealLink()}
	if view.Changes, _, err = req.changes(&api.ListRevisionsParams{Kind: &kind.name, ID: &id, Limit: new(overviewChanges)}); err != nil {
		return err
	}
	if view.Deleted && len(view.Changes) == 0 {
		return errNotFound
	}
	if view.Fields, err = diff(nil, doc, req.reveal()); err != nil {
		return err
	}
	view.Hidden = anyHidden(view.Fields)
	if !view.Deleted && !kind.serviceOnly && kind.name != client.KindResourceType {
		if err := req.showAssigned(&view, kind); err != nil {
			return err
		}
	}
	if !view.Deleted && !kind.serviceOnly {
		view.Delete = req.deleteLink(kind.name, id, kind.page(id)+"/delete")
	}
	return req.show("definition", id, "definitions", &view)
}

// showAssigned sets the clusters that have a definition, by state, and the layers that assign it.
func (req *pageRequest) showAssigned(view *definitionView, k kind) error {
	view.Assigned = true
	status, err := req.fleet.GetStatusWithResponse(req.r.Context(), &api.GetStatusParams{List: &k.list, Input: &view.ID, Limit: new(1)})
	if err != nil {
		return err
	}
	has := filter{List: k.list, Input: view.ID}
	view.Clusters, view.ClustersLink = status.JSON200.Total, has.page()
	view.Bar = makeStateBar(status.JSON200.Counts, func(state string) string {
		has.State = state
		return has.page()
	})
	layers, err := req.fleet.ListLayersWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	var documents []json.RawMessage
	if err := json.Unmarshal(layers.Body, &documents); err != nil {
		return err
	}
	for i, document := range documents {
		lists, err := layerLists(document)
		if err != nil {
			return err
		}
		for _, l := range lists {
			if slices.ContainsFunc(l.Entries, func(e pageLink) bool { return e.Link == k.page(view.ID) }) {
				view.Layers = append(view.Layers, (*layers.JSON200)[i].ID)
			}
		}
	}
	return nil
}

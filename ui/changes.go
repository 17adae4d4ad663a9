package ui

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

type changesView struct {
	frame
	Kind, ID, Actor string
	Source          string
	Since, Until    string // as the form sends them
	Kinds           []choice
	Problem         string // with a time; empty: none
	Days            []day
	Older, All      string
	Count           string // the address with the numbers of clusters, which the page's script requests; empty: it has them
}

// formTime is the format of the times that a form sends; the page asks for UTC.
const formTime = "2006-01-02T15:04"

// queryTime returns a time of the query; nil: it is not given.
func (req *pageRequest) queryTime(name string) (*time.Time, error) {
	text := req.query(name)
	if text == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	at, err := time.ParseInLocation(formTime, text, time.UTC)
	if err != nil {
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, fmt.Errorf("%q is not a time such as 2026-01-02T15:04", text)
		}
	}
	return &at, nil
}

// showChanges lists revisions by day.
func showChanges(req *pageRequest) error {
	view := changesView{Kind: req.query("kind"), ID: req.query("id"), Actor: req.query("actor"), Source: req.query("source"), Since: req.query("since"), Until: req.query("until"), All: prefix + "/changes"}
	since, notSince := req.queryTime("since")
	until, notUntil := req.queryTime("until")
	switch problem := errors.Join(notSince, notUntil); {
	case problem != nil:
		view.Problem = problem.Error()
	case view.ID != "" && view.Kind == "":
		view.Problem = "Choose the kind of " + view.ID + "."
	case view.Source != "" && view.Actor != "":
		view.Problem = "Choose an actor or a source, not both."
	}
	for _, k := range kinds {
		if !k.admin || req.may("admin") {
			view.Kinds = append(view.Kinds, choice{Text: kindName(k.name), Link: k.name, On: k.name == view.Kind})
		}
	}
	if view.Kind != "" && !slices.ContainsFunc(view.Kinds, func(c choice) bool { return c.On }) { // of a resource type
		view.Kinds = append(view.Kinds, choice{Text: kindName(view.Kind), Link: view.Kind, On: true})
	}
	actor := view.Actor
	if view.Source != "" {
		actor = sourceActor(view.Source)
	}
	var next string
	if view.Problem == "" {
		rows, older, err := req.readChanges(api.ListRevisionsParams{
			Kind: optional(view.Kind), ID: optional(view.ID), Actor: optional(actor), Since: since, Until: until, Cursor: optional(req.query("cursor")),
		})
		if err != nil {
			return err
		}
		if actor == "" && (view.Kind == "" || view.ID != "") { // the list has all revisions of these documents
			setChangedAgain(rows)
		}
		view.Days, next = days(rows), older
		if !slices.ContainsFunc(rows, func(r changeRow) bool { return r.Clusters > 0 }) && !isRefresh(req.r) && req.query("count") == "" {
			view.Count = req.addressWith("count", "true")
		}
	}
	if next != "" {
		view.Older = req.addressWith("cursor", next)
	}
	status := http.StatusOK
	if view.Problem != "" {
		status = http.StatusBadRequest
	}
	return req.showStatus(status, "changes", "Changes", "changes", &view)
}

// sourceActor returns the actor of the revisions that a source makes.
func sourceActor(id string) string { return "source:" + id }

type changeView struct {
	frame
	Change        api.RevisionDetail
	Groups        []documentGroup
	MoreDocuments int // not shown
	Hidden        bool
	Progress      stateBar
	ProgressScope string // the clusters that Progress counts; empty: none
	Reached       int    // of these clusters, how many were served the revision or a later one
	Superseded    bool   // later revisions changed all of these inputs again
	Revert        string
}

// restoreLinks returns links to the forms that restore a document to its state before or after a revision.
func restoreLinks(revision int64, kind, id, action string) (out []pageLink) {
	to := func(revision int64) string {
		return address(fmt.Sprintf("%s/changes/%d/restore", prefix, revision), map[string]string{"kind": kind, "id": id})
	}
	if kind == "token" || kind == "forgotten" { // the API restores neither
		return nil
	}
	if action != "create" && revision > 1 {
		out = append(out, pageLink{"Restore previous version", to(revision - 1)})
	}
	if action != "delete" {
		out = append(out, pageLink{"Restore this version", to(revision)})
	}
	return out
}

// showChange shows a revision: author and reason, the changed fields of each document, and its progress on clusters.
func showChange(req *pageRequest) error {
	number, err := req.revision()
	if err != nil {
		return err
	}
	rev, err := req.fleet.GetRevisionWithResponse(req.r.Context(), number, &api.GetRevisionParams{Limit: new(maxDocuments)})
	if err != nil {
		return err
	}
	r := *rev.JSON200
	view := changeView{
		Change: r, MoreDocuments: r.ChangeCount - len(r.Changes),
	}
	restorable := req.mayPlanRestores()
	if restorable {
		view.Revert = fmt.Sprintf("%s/changes/%d/revert", prefix, number)
	}
	var documents []documentView
	for _, ch := range r.Changes {
		doc := documentView{Kind: ch.Kind, ID: ch.ID, Action: ch.Action, Link: linkTo(ch.Kind, ch.ID)}
		if restorable {
			doc.Restore = restoreLinks(number, ch.Kind, ch.ID, ch.Action)
		}
		fields, err := diff(ch.Before, ch.After, req.reveal())
		if err != nil {
			return err
		}
		view.Hidden = view.Hidden || anyHidden(fields)
		doc.Fields = fields
		documents = append(documents, doc)
	}
	view.Groups = groupDocuments(documents)
	if err := req.showProgress(&view, r); err != nil {
		return err
	}
	return req.show("change", "Revision "+strconv.FormatInt(number, 10), "changes", &view)
}

// arrival reads the progress of a revision: the states of the inputs that it changed.
func (req *pageRequest) showProgress(view *changeView, rev api.RevisionDetail) error {
	status, err := req.fleet.GetStatusWithResponse(req.r.Context(), &api.GetStatusParams{Limit: new(1), ChangedIn: &rev.Revision})
	if err != nil {
		return err
	}
	total, counts := status.JSON200.Total, status.JSON200.Counts
	if total == 0 {
		return nil // it changed no inputs
	}
	view.Progress, view.Superseded, view.Reached = makeStateBar(counts, nil), counts["superseded"] == total, status.JSON200.Reached
	view.ProgressScope = "of " + plural(total, "cluster") + " whose inputs it changed"
	return nil
}

// revision returns the revision in the path of the address.
func (req *pageRequest) revision() (int64, error) {
	number, err := strconv.ParseInt(req.r.PathValue("revision"), 10, 64)
	if err != nil || number < 1 {
		return 0, errNotFound
	}
	return number, nil
}

// overviewCauses and overviewChanges are the numbers of rows on the overview.
const (
	overviewCauses  = 12
	overviewChanges = 8
)

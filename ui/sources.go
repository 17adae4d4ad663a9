package ui

import (
	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxDriftedLinks is the number of drifted documents of a source that are shown.
const maxDriftedLinks = 10

// sourceRow is a source with its state.
type sourceRow struct {
	api.Source

	State, Class    string // Class is the state of clusters with the same color
	NeedsAttention  bool
	Drifted         []api.SourceDocument
	MoreDrifted     int
	Plan            string // the address of the plan of the held artifact; empty: there is none
	Approvable      bool   // the visitor may approve it there
	Suspend, Resume string // addresses of forms; empty: not offered
}

type sourcesView struct {
	frame
	Rows    []sourceRow
	Stopped int
}

// sourceStates has the text of each state, and the state of clusters with the same color.
var sourceStates = map[string][2]string{
	"pending": {"Pending", "progressing"}, "progressing": {"Progressing", "progressing"}, "ready": {"Synced", "confirmed"}, "held": {"Held", "silent"}, "failed": {"Failed", "failed"}, "suspended": {"Suspended", "never"},
}

// mayChangeSources reports whether forms are enabled and the visitor may change sources.
func (req *pageRequest) mayChangeSources() bool { return req.page.cfg.Changes && req.may("admin") }

// showSources shows what each source has applied, and what is held. Only administrators may read sources.
func showSources(req *pageRequest) error {
	if !req.may("admin") { // the API answers a static token with 401, which would end the session
		return errNotAdmin
	}
	list, err := req.fleet.ListSourcesWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	var view sourcesView
	for _, source := range *list.JSON200 {
		row := req.sourceRow(source)
		if row.NeedsAttention {
			view.Stopped++
		}
		view.Rows = append(view.Rows, row)
	}
	return req.show("sources", "Sources", "definitions", &view)
}

func (req *pageRequest) sourceRow(source api.Source) sourceRow {
	status, state := source.Status, sourceStates[source.Status.State]
	row := sourceRow{Source: source, State: state[0], Class: state[1], NeedsAttention: status.State == "held" || status.State == "failed"}
	row.Drifted = status.Drifted[:min(len(status.Drifted), maxDriftedLinks)]
	row.MoreDrifted = len(status.Drifted) - len(row.Drifted)
	may := req.mayChangeSources()
	if held := status.Held; held != nil && held.PlanHash != "" && !source.Suspended {
		row.Plan, row.Approvable = link("sources", source.ID, "approve"), may && !held.Approved
	}
	switch {
	case !may:
	case source.Suspended:
		row.Resume = link("sources", source.ID, "resume")
	default:
		row.Suspend = link("sources", source.ID, "suspend")
	}
	return row
}

// approveSourceForm approves the held artifact of a source.
func approveSourceForm(req *pageRequest) (changeForm, error) {
	if !req.may("admin") {
		return changeForm{}, errNotAdmin
	}
	id := req.r.PathValue("id")
	return changeForm{
		Headline: "Approve the held artifact of source " + id, Button: "Approve", NoChange: "The artifact changes nothing.", NavSection: "definitions", Destructive: true,
		Notes:   []string{"At its next check, the source makes this change once, if the effect is still the same: as a rollout if its strategy can deliver it, otherwise at once."},
		Command: "frs source approve " + id, Crumbs: sourceCrumbs, Source: id,
	}, nil
}

// suspendSourceForm suspends or resumes a source.
func suspendSourceForm(req *pageRequest, suspended bool) (changeForm, error) {
	if !req.may("admin") {
		return changeForm{}, errNotAdmin
	}
	id := req.r.PathValue("id")
	form := changeForm{
		Headline: "Suspend source " + id, Button: "Suspend", NoChange: "The source is suspended already.", NavSection: "definitions",
		Notes:   []string{"No artifact is applied until the source is resumed. Its documents stay managed, and its open rollout continues."},
		Command: "frs suspend source " + id, Crumbs: sourceCrumbs,
		Operation: api.Operation{Op: client.OpPatch, Kind: client.KindSource, ID: id, Patch: []byte(`{"suspended":true}`)},
	}
	if !suspended {
		form.Headline, form.Button, form.NoChange = "Resume source "+id, "Resume", "The source is not suspended."
		form.Notes = []string{"At its next check, the source applies the artifact to which it refers, unless that is applied already or is held."}
		form.Command, form.Operation.Patch = "frs resume source "+id, []byte(`{"suspended":false}`)
	}
	return form, nil
}

var sourceCrumbs = []pageLink{{"Definitions", link("definitions")}, {"Sources", link("sources")}}

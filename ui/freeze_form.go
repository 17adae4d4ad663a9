package ui

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/flux-resourceset/flux-resourceset/internal/windows"
)

// everyCluster selects all clusters in the form of a freeze.
const everyCluster = "*"

// newFreezeLink returns the address of the form; empty if the visitor may create no freeze.
func (req *pageRequest) newFreezeLink() string {
	if !req.mayChange(writing, client.KindFreeze, "") {
		return ""
	}
	return link("freezes", "create")
}

// newFreezeForm creates a freeze: for a time, or with windows of the week.
func newFreezeForm(req *pageRequest) (changeForm, error) {
	in := &freezeInput{ID: req.query("id"), Selector: req.query("selector"), From: req.query("from"), Until: req.query("until"), Allow: req.query("allow"), Block: req.query("block")}
	form := changeForm{
		Headline: "New freeze", Button: "Create freeze", NavSection: "definitions", NewFreeze: in,
		Crumbs: []pageLink{{"Definitions", link("definitions")}, {"Freezes", link("definitions", "freezes")}}, NoChange: "A freeze with the name " + in.ID + " exists already.",
	}
	if *in == (freezeInput{}) {
		return form, nil
	}
	freeze, problem := req.readFreeze(in)
	if problem != nil {
		in.Problem = problem.Error()
		return form, nil //nolint:nilerr // the form shows it
	}
	form.Command = "frs freeze create " + summarize.ShellWord(in.ID)
	flag := func(name string, values ...string) {
		for _, value := range values {
			if value != "" {
				form.Command += " --" + name + " " + summarize.ShellWord(value)
			}
		}
	}
	flag("selector", freeze.Selector)
	flag("from", timeText(freeze.From))
	flag("until", timeText(freeze.Until))
	if freeze.All {
		form.Command += " --all"
	}
	flag("allow", typedLines(in.Allow)...)
	flag("block", typedLines(in.Block)...)
	form.Command += " --reason REASON"
	if freeze.All && len(freeze.Allow)+len(freeze.Block) == 0 {
		form.Confirm, form.Destructive = allClusters, true
	}
	return form, req.tryFreeze(&form, freeze)
}

// readFreeze returns the freeze of a form. The error is for the person who filled it in.
func (req *pageRequest) readFreeze(in *freezeInput) (f api.FreezeCreate, err error) {
	f.ID, f.Selector = in.ID, in.Selector
	if f.Selector == everyCluster {
		f.Selector, f.All = "", true
	}
	if f.ID == "" || in.Selector == "" {
		return f, errors.New("enter a name and the clusters: a selector, or * for all")
	}
	from, fromErr := req.queryTime("from")
	until, untilErr := req.queryTime("until")
	if err := errors.Join(fromErr, untilErr); err != nil {
		return f, err
	}
	f.From, f.Until = from, until
	if f.Allow, err = parseWindows(in.Allow); err == nil {
		f.Block, err = parseWindows(in.Block)
	}
	return f, err
}

func parseWindows(text string) (out []api.Window, err error) {
	for _, line := range typedLines(text) {
		w, err := windows.Parse(line)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// tryFreeze makes the API check the freeze of a form, and notes which clusters it selects.
func (req *pageRequest) tryFreeze(form *changeForm, freeze api.FreezeCreate) error {
	form.Freeze = &freeze
	form.Notes = []string{"Changes of what its clusters are served are refused while it is active. Clusters keep what they are served."}
	if len(freeze.Allow)+len(freeze.Block) > 0 {
		form.Notes = []string{"Every week: " + weekText(freeze) + ". Taking a change back is always possible."}
	}
	if !req.mayApply() { // the API answers a static token with 401, which would end the session
		return nil
	}
	trial := freeze
	trial.Reason = "a trial"
	made, err := req.fleet.CreateFreezeWithResponse(req.r.Context(), &api.CreateFreezeParams{DryRun: new(true)}, trial)
	refused, answered := errors.AsType[*client.Error](err)
	switch {
	case answered && refused.Problem.Error == client.CodeConflict: // the plan says so
	case answered && explained(refused):
		form.Freeze, form.NewFreeze.Problem = nil, refused.Problem.Detail
		for _, one := range refused.Problem.Errors {
			form.NewFreeze.Problem += ": " + one.Detail
		}
	case err != nil:
		return err
	default:
		form.Notes = append(form.Notes, fmt.Sprintf("It selects %s now; changes of %d of them are refused now.", summarize.Count(made.JSON200.Clusters, "cluster"), made.JSON200.Frozen))
	}
	return nil
}

// timeText returns a time as the command line reads it; empty: none.
func timeText(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// weekText describes the windows of a freeze.
func weekText(f api.FreezeCreate) string {
	var parts []string
	if len(f.Allow) > 0 {
		parts = append(parts, "changes are permitted within "+windows.Text(f.Allow))
	}
	if len(f.Block) > 0 {
		parts = append(parts, "refused within "+windows.Text(f.Block))
	}
	return strings.Join(parts, ", and ")
}

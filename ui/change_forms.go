package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// changeForm is a change that the page offers. Its plan is shown first.
type changeForm struct {
	Headline, Button, NoChange string // NoChange is the text for a plan without changes
	NavSection                 string // the section that the navigation marks
	Crumbs                     []pageLink
	Notes                      []string
	Command                    string   // the equivalent CLI command
	Choices                    []choice // variants of the form
	Confirm                    string   // to be typed; empty: nothing but protected environments of the plan
	Destructive                bool     // cannot simply be reverted on clusters: the button is red
	Operation                  api.Operation
	Also                       []api.Operation    // further operations of the same change
	Rollout                    *rolloutChange     // in place of Operation; nil: none
	Source                     string             // whose held artifact is approved, in place of Operation; empty: none
	Freeze                     *api.FreezeCreate  // to be created with the reason of the change, in place of Operation; nil: none
	Create                     *api.RolloutCreate // to be created with Operation, in place of it; nil: none
	Input                      *versionInput      // fields to fill in first; nil: none
	NewFreeze                  *freezeInput       // fields of Freeze to fill in first; nil: none
	Cluster                    *clusterInput      // the same, of a new cluster
	Effect                     *rolloutChange     // whose effect on clusters is shown, in place of that of the change; nil: none
	Remedies                   []remedy
	ApproveFor                 string                                     // the subject for whom the form approves the plan, in place of the change; empty: none
	fields                     func(*pageRequest) (documentFields, error) // the fields that change; nil: only the documents are listed
}

// versionInput holds the fields of the form that changes the version of a component, as they were entered.
type versionInput struct {
	Action                            string
	Version, Layer, Cluster, Strategy string
	OneCluster                        bool     // the scope is a cluster
	Stages                            string   // lines of NAME=SELECTOR, with Strategy ownStages
	Values                            string   // lines of PATH=VALUE, or PATH- to remove one
	Problem                           string   // with the fields
	Known                             []string // versions, the newest first
	Layers, Strategies                []string // to choose from
	Now                               []placeVersion
	Served                            []versionCell // the desired versions with their clusters
}

// placeVersion is a version that is set in a place of the form.
type placeVersion struct {
	Place, Version string
	Link           string // the form for that place
	On             bool   // the form is for it
}

// Current returns the version in the place of the form; empty: it sets none.
func (in *versionInput) Current() string {
	for _, p := range in.Now {
		if p.On {
			return p.Version
		}
	}
	return ""
}

// Kind returns the kind of the document that changes, as files name it.
func (in *versionInput) Kind() string {
	switch {
	case in.Cluster != "":
		return client.KindCluster
	case in.Layer != "":
		return client.KindLayer
	}
	return client.KindPlatformComponent
}

// freezeInput holds the fields of the form of a freeze, as they were entered.
type freezeInput struct {
	ID, Selector, From, Until string
	Allow, Block              string // windows, one in each line
	Problem                   string
}

// clusterInput holds the fields of the form that creates a cluster, as they were entered.
type clusterInput struct {
	ID, DNS, Environment, Labels string
	Problem                      string   // with Labels
	Environments                 []string // of other clusters, to choose from
}

// remedy is a link or command to offer when the API refuses a form with an error code.
type remedy struct{ Code, Label, Link, Meaning string }

// documentFields holds the fields that a form changes, by document.
type documentFields map[api.ChangeRef][]fieldChange

// revertForm reverts a revision.
func revertForm(req *pageRequest) (changeForm, error) {
	number, err := req.revision()
	if err != nil {
		return changeForm{}, err
	}
	command := fmt.Sprintf("frs revision revert %d", number)
	return changeForm{
		Headline: fmt.Sprintf("Revert revision %d", number), Button: fmt.Sprintf("Revert revision %d", number), NoChange: "There is nothing left to revert.",
		NavSection: "changes", Crumbs: []pageLink{{"Changes", link("changes")}, {fmt.Sprintf("Revision %d", number), link("changes", strconv.FormatInt(number, 10))}},
		Notes: []string{"Later changes are kept."}, Command: command, Operation: api.Operation{Op: client.OpRevert, Revision: number},
		Remedies: []remedy{
			{client.CodeRevertConflict, command + " --ours", "", "keeps the later changes"},
			{client.CodeRevertConflict, command + " --theirs", "", "reverts them as well"},
		},
		fields: func(req *pageRequest) (documentFields, error) { return req.revertedFields(number) },
	}, nil
}

// revertedFields returns the fields that a revision changed, with before and after exchanged.
func (req *pageRequest) revertedFields(number int64) (documentFields, error) {
	rev, err := req.fleet.GetRevisionWithResponse(req.r.Context(), number, &api.GetRevisionParams{Limit: new(maxDocuments)})
	if err != nil {
		return nil, err
	}
	out := documentFields{}
	for _, ch := range rev.JSON200.Changes {
		if out[api.ChangeRef{Kind: ch.Kind, ID: ch.ID}], err = diff(ch.After, ch.Before, req.reveal()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// restoreForm restores one document to its content at a revision.
func restoreForm(req *pageRequest) (changeForm, error) {
	number, err := req.revision()
	kind, id := req.query("kind"), req.query("id")
	if err != nil || kind == "" || id == "" {
		return changeForm{}, errNotFound
	}
	op := api.Operation{Op: client.OpRestore, Revision: number, Kind: kind, ID: id}
	noun := strings.TrimPrefix(kind, "platform_")
	if name, found := strings.CutPrefix(kind, client.KindResource+"/"); found {
		op.Kind, op.Type, noun = client.KindResource, name, "resource/"+name
	}
	return changeForm{
		Headline: fmt.Sprintf("Restore %s %s to revision %d", kindName(kind), id, number), Button: "Restore", NoChange: "It already has the content of that revision.",
		NavSection: "changes", Crumbs: []pageLink{{"Changes of " + id, historyLink(kind, id)}},
		Notes:   []string{"Later changes of this document are reverted as well. Other documents are kept."},
		Command: fmt.Sprintf("frs restore %d %s %s", number, summarize.ShellWord(noun), summarize.ShellWord(id)), Operation: op,
		fields: func(req *pageRequest) (documentFields, error) {
			now, err := req.document(kind, id, nil)
			if err != nil {
				return nil, err
			}
			then, err := req.document(kind, id, &number)
			if err != nil {
				return nil, err
			}
			fields, err := diff(now, then, req.reveal())
			return documentFields{{Kind: kind, ID: id}: fields}, err
		},
	}, nil
}

// document reads a document, now or at a revision; nil when it does not exist.
func (req *pageRequest) document(name, id string, revision *int64) (json.RawMessage, error) {
	document, _, err := req.managedDocument(name, id, revision)
	return document, err
}

// managedDocument reads a document, and the source that manages it.
func (req *pageRequest) managedDocument(name, id string, revision *int64) (document json.RawMessage, by managed, err error) {
	k, ok := kindNamed(name)
	if !ok {
		return nil, by, errNotFound
	}
	query := ""
	if revision != nil && !k.serviceOnly {
		query = "revision=" + strconv.FormatInt(*revision, 10)
	}
	rsp, err := req.get(k.path+"/"+url.PathEscape(id), query)
	if problem, answered := errors.AsType[*client.Error](err); answered && problem.StatusCode == http.StatusNotFound {
		return nil, by, nil
	}
	if err != nil {
		return nil, by, err
	}
	defer rsp.Body.Close()
	document, err = io.ReadAll(rsp.Body)
	return document, req.managedBy(rsp), err
}

// protectionForm sets or removes the deletion protection of a cluster.
func protectionForm(req *pageRequest, on bool) changeForm {
	id := req.r.PathValue("id")
	p := changeForm{
		Headline: "Protect cluster " + id, Button: "Protect", NoChange: "The cluster is already protected.", NavSection: "clusters",
		Notes:   []string{"No change can remove anything from a protected cluster, or delete it."},
		Command: "frs cluster set " + id + " --deletion-protection", Crumbs: []pageLink{{"Clusters", link("clusters")}, {id, link("clusters", id)}},
	}
	if !on {
		p.Headline, p.Button, p.NoChange = "Remove the protection of cluster "+id, "Remove protection", "The cluster has no protection of its own; a layer may protect it."
		p.Notes = []string{"Changes can remove things from it again, and it can be deleted, unless a layer protects it."}
		p.Command += "=false"
	}
	p.Operation = api.Operation{Op: client.OpPatch, Kind: client.KindCluster, ID: id, Patch: fmt.Appendf(nil, `{"deletion_protection":%t}`, on)}
	p.fields = func(*pageRequest) (documentFields, error) {
		return documentFields{{Kind: client.KindCluster, ID: id}: {{Field: "deletion_protection", Before: strconv.FormatBool(!on), After: strconv.FormatBool(on)}}}, nil
	}
	return p
}

// deleteForm returns the form that deletes a document of a kind. With cascade in the address, the document is also removed from everything that
// uses it.
func (req *pageRequest) deleteForm(k kind) changeForm {
	id := req.r.PathValue("id")
	op, noun := api.Operation{Op: client.OpDelete, Kind: k.name, ID: id}, strings.TrimPrefix(k.name, "platform_")
	command := "frs " + strings.ReplaceAll(noun, "_", "-") + " delete " + id
	if typeID, found := strings.CutPrefix(k.name, client.KindResource+"/"); found {
		op.Kind, op.Type, command = client.KindResource, typeID, "frs resource "+typeID+" delete "+id
	}
	form := changeForm{
		Headline: "Delete " + kindName(k.name) + " " + id, Button: "Delete", NoChange: "Already deleted.", NavSection: cmp.Or(k.section, "definitions"), Destructive: true,
		Command: command, Crumbs: k.crumbs(id), Operation: op,
	}
	switch k.name {
	case client.KindCluster:
		form.Notes = []string{
			"Flux on the cluster uninstalls everything that it received from this service. The cluster itself is kept.",
			"To keep all objects on the cluster: frs delete cluster " + id + " --mode orphan",
		}
		form.Remedies = []remedy{{client.CodeProtected, "Remove its protection first", link("clusters", id, "unprotect"), ""}}
	case client.KindLayer:
		form.Notes = []string{"Its clusters lose the settings that only this layer sets."}
	default:
		form.Remedies = []remedy{{client.CodeInUse, "Also remove it from everything that uses it", k.page(id) + "/delete?cascade=true", ""}}
		if req.query("cascade") == "true" {
			form.Operation.Cascade = true
			form.Headline += ", also from all clusters"
			form.Command += " --cascade"
			if k.name == client.KindPlatformComponent {
				form.Notes = []string{"Flux uninstalls it on every cluster."}
			}
		}
	}
	return form
}

// deleteFormOf returns the forms that delete documents of a kind with a section of its own.
func deleteFormOf(name string) func(*pageRequest) (changeForm, error) {
	k, _ := kindNamed(name)
	return func(req *pageRequest) (changeForm, error) { return req.deleteForm(k), nil }
}

// deleteDefinitionForm deletes a definition of a kind that clusters poll, or a resource type.
func deleteDefinitionForm(req *pageRequest) (changeForm, error) {
	k := kindOfList(req.r.PathValue("list"))
	if k.serviceOnly || k.section != "" {
		return changeForm{}, errNotFound
	}
	return req.deleteForm(k), nil
}

// revealLink returns the address of this page with masked values revealed.
func (req *pageRequest) revealLink() string {
	return req.addressWith("reveal", "true")
}

// incomplete reports whether fields have to be filled in before there is a change.
func (p changeForm) incomplete() bool {
	return (p.Input != nil || p.Cluster != nil) && p.Operation.Op == "" || p.NewFreeze != nil && p.Freeze == nil
}

// operations returns the operations of the change.
func (p changeForm) operations() []api.Operation {
	return append([]api.Operation{p.Operation}, p.Also...)
}

// explains reports whether the form shows the reason of a refusal. With fields, that something does not exist is one, too.
func (p changeForm) explains(refused *client.Error) bool {
	return explained(refused) || p.Input != nil && refused.StatusCode == http.StatusNotFound
}

// plan returns the plan of a form.
func (req *pageRequest) plan(p changeForm) (*api.Plan, error) {
	switch {
	case p.incomplete():
		return &api.Plan{}, nil
	case p.Freeze != nil:
		return req.planStop(p.Freeze)
	case p.Source != "":
		plan, err := req.fleet.PlanSourceWithResponse(req.r.Context(), p.Source, nil)
		if err != nil {
			return nil, err
		}
		return plan.JSON200, nil
	case p.Rollout != nil:
		return req.planRollout(*p.Rollout)
	}
	params := api.PlanParams{}
	if p.Input != nil { // the page offers the document as a file
		params.Return = new("documents")
	}
	plan, err := req.fleet.PlanWithResponse(req.r.Context(), &params, api.PlanRequest{Operations: p.operations()})
	if err != nil {
		return nil, err
	}
	return plan.JSON200, nil
}

// change makes the change of a form with the hash of its plan, and returns the address of the page to show then.
func (req *pageRequest) change(p changeForm, hash, reason string) (string, error) {
	if p.ApproveFor != "" {
		_, err := req.fleet.CreateApprovalWithResponse(req.r.Context(), nil, api.ApprovalCreate{PlanHash: hash, Subject: p.ApproveFor, Reason: reason})
		return link("approvals"), err
	}
	override := optional(strings.TrimSpace(req.r.PostFormValue("override"))) // policies
	if f := p.Freeze; f != nil {
		f.Reason = reason
		_, err := req.fleet.CreateFreezeWithResponse(req.r.Context(), &api.CreateFreezeParams{XChangeReason: &reason}, *f)
		if p.NewFreeze != nil {
			return link("definitions", "freezes", f.ID), err
		}
		return prefix + "/", err
	}
	if r := p.Rollout; r != nil {
		params := api.ChangeRolloutParams{Stage: optional(r.Stage), PlanHash: &hash, XChangeReason: &reason, XFleetOverridePolicy: override}
		_, err := req.fleet.ChangeRolloutWithResponse(req.r.Context(), r.ID, r.Action, &params)
		return link("rollouts", r.ID), err
	}
	if p.Source != "" {
		params := api.ApproveSourceParams{XChangeReason: &reason}
		_, err := req.fleet.ApproveSourceWithResponse(req.r.Context(), p.Source, &params, api.SourceApproval{PlanHash: hash})
		return link("sources"), err
	}
	if r := p.Create; r != nil {
		r.Description = reason
		_, err := req.fleet.CreateRolloutWithResponse(req.r.Context(), &api.CreateRolloutParams{PlanHash: &hash, XChangeReason: &reason, XFleetOverridePolicy: override}, *r)
		return link("rollouts", r.ID), err
	}
	made, err := req.fleet.ApplyBatchWithResponse(req.r.Context(), &api.ApplyBatchParams{XFleetOverridePolicy: override}, api.BatchRequest{Operations: p.operations(), PlanHash: hash, Reason: reason})
	if err != nil {
		return "", err
	}
	if p.Cluster != nil {
		return link("clusters", p.Cluster.ID, "connect"), nil
	}
	if p.Operation.Kind == client.KindFreeze {
		return prefix + "/", nil // which shows it, and has changed nothing else
	}
	return fmt.Sprintf("%s/changes/%d", prefix, made.JSON200.Revision), nil
}

// permitted reports whether the API would make a change for a reason, which plans are judged without: it tries the change.
func (req *pageRequest) permitted(p changeForm, hash, reason string) (bool, error) {
	var err error
	switch {
	case reason == "" || p.Source != "" || !req.mayApply():
		return false, nil
	case p.Rollout != nil:
		params := api.ChangeRolloutParams{Stage: optional(p.Rollout.Stage), PlanHash: &hash, XChangeReason: &reason, DryRun: new(true)}
		_, err = req.fleet.ChangeRolloutWithResponse(req.r.Context(), p.Rollout.ID, p.Rollout.Action, &params)
	default:
		_, err = req.fleet.ApplyBatchWithResponse(req.r.Context(), &api.ApplyBatchParams{DryRun: new(true)}, api.BatchRequest{Operations: p.operations(), PlanHash: hash, Reason: reason})
	}
	if _, answered := errors.AsType[*client.Error](err); answered {
		return false, nil
	}
	return err == nil, err
}

// planStop returns the plan of the creation of a freeze, which needs no plan of the API: it changes no answer.
func (req *pageRequest) planStop(f *api.FreezeCreate) (*api.Plan, error) {
	plan := &api.Plan{PlanHash: "new"}
	_, err := req.fleet.GetFreezeWithResponse(req.r.Context(), f.ID, nil)
	if problem, answered := errors.AsType[*client.Error](err); answered && problem.StatusCode == http.StatusNotFound {
		plan.Changes, err = []api.ChangeRef{{Kind: client.KindFreeze, ID: f.ID, Action: "create"}}, nil
	}
	return plan, err
}

// rolloutChange is an action on a rollout, in place of operations.
type rolloutChange struct{ ID, Action, Stage string }

// planRollout returns the plan of an action on a rollout.
func (req *pageRequest) planRollout(r rolloutChange) (*api.Plan, error) {
	plan, err := req.fleet.PlanWithResponse(req.r.Context(), nil, api.PlanRequest{Rollout: r.ID, Action: r.Action, Stage: r.Stage})
	if err != nil {
		return nil, err
	}
	return plan.JSON200, nil
}

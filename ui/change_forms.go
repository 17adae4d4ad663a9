package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// changeForm is a change that somebody may make here. Its plan is shown first.
type changeForm struct {
	Headline, Button, NoChange string // NoChange is what is said when there is nothing left to do
	NavSection                 string // the section of the page
	Crumbs                     []pageLink
	Notes                      []string
	Command                    string // that does the same at the command line
	Destructive                bool   // what it takes away is gone
	Operation                  api.Operation
	Remedies                   []remedy
	fields                     func(*pageRequest) (documentFields, error) // nil: the documents say enough by their names
}

type pageLink struct{ Text, Link string }

// way is what leads on when the API refuses a changeForm for one reason.
type remedy struct{ Code, Label, Link, Meaning string }

// documentFields are the values that a changeForm changes, by document.
type documentFields map[api.ChangeRef][]fieldChange

// changeForms are the changes that can be made here, by the address of their plans.
var changeForms = map[string]func(*pageRequest) (changeForm, error){
	"/changes/{revision}/revert":  revertForm,
	"/changes/{revision}/restore": restoreForm,
	"/clusters/{id}/protect":      func(req *pageRequest) (changeForm, error) { return protectionForm(req, true), nil },
	"/clusters/{id}/unprotect":    func(req *pageRequest) (changeForm, error) { return protectionForm(req, false), nil },
	"/clusters/{id}/delete":       deleteClusterForm,
	"/components/{id}/delete":     deleteComponentForm,
	"/layers/{id}/delete":         deleteLayerForm,
}

func revertForm(req *pageRequest) (changeForm, error) {
	number, err := req.revision()
	if err != nil {
		return changeForm{}, err
	}
	command := fmt.Sprintf("frs revision revert %d", number)
	return changeForm{
		Headline: fmt.Sprintf("Taking revision %d back", number), Button: fmt.Sprintf("Revert revision %d", number), NoChange: "Nothing of it is left to take back.",
		NavSection: "changes", Crumbs: []pageLink{{"Changes", link("changes")}, {fmt.Sprintf("Revision %d", number), link("changes", strconv.FormatInt(number, 10))}},
		Notes: []string{"Whatever was changed since stays."}, Command: command, Operation: api.Operation{Op: client.OpRevert, Revision: number},
		Remedies: []remedy{
			{client.CodeRevertConflict, command + " --ours", "", "keeps what was changed since"},
			{client.CodeRevertConflict, command + " --theirs", "", "takes that back as well"},
		},
		fields: func(req *pageRequest) (documentFields, error) { return req.revertedFields(number) },
	}, nil
}

// revertedFields are the values that a revision is known to have changed, the other way round.
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

// restoreForm puts one document back to how it was at a revision.
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
		Headline: fmt.Sprintf("Putting %s %s back to revision %d", kindName(kind), id, number), Button: "Put it back", NoChange: "It is as it was at that revision.",
		NavSection: "changes", Crumbs: []pageLink{{"Changes of " + id, historyLink(kind, id)}},
		Notes:   []string{"Whatever was changed in it since is taken back as well. Other documents stay as they are."},
		Command: fmt.Sprintf("frs restore %d %s %s", number, noun, id), Operation: op,
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
	k, ok := kindNamed(name)
	if !ok {
		return nil, errNotFound
	}
	rsp, err := k.get(req.r.Context(), req.fleet, id, revision)
	if problem, answered := errors.AsType[*client.Error](err); answered && problem.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer rsp.Body.Close()
	return io.ReadAll(rsp.Body)
}

func protectionForm(req *pageRequest, on bool) changeForm {
	id := req.r.PathValue("id")
	p := changeForm{
		Headline: "Protecting cluster " + id, Button: "Protect it", NoChange: "It is protected already.", NavSection: "clusters",
		Notes:   []string{"NoChange is taken off a protected cluster, by whatever change, and it is not deleted."},
		Command: "frs cluster protect " + id, Crumbs: []pageLink{{"Clusters", link("clusters")}, {id, link("clusters", id)}},
	}
	if !on {
		p.Headline, p.Button, p.NoChange = "Lifting the protection of cluster "+id, "Lift the protection", "It has no protection of its own: where it is protected, a layer says so."
		p.Notes = []string{"Changes may take things off it again, and it may be deleted. A layer may protect it all the same."}
		p.Command += " --off"
	}
	p.Operation = api.Operation{Op: client.OpPatch, Kind: client.KindCluster, ID: id, Patch: fmt.Appendf(nil, `{"deletion_protection":%t}`, on)}
	p.fields = func(*pageRequest) (documentFields, error) {
		return documentFields{{Kind: client.KindCluster, ID: id}: {{Field: "deletion_protection", Before: strconv.FormatBool(!on), After: strconv.FormatBool(on)}}}, nil
	}
	return p
}

func deleteClusterForm(req *pageRequest) (changeForm, error) {
	id := req.r.PathValue("id")
	return changeForm{
		Headline: "Deleting cluster " + id, Button: "Delete it", NoChange: "It is deleted already.", NavSection: "clusters", Destructive: true,
		Notes: []string{
			"Flux there is told to uninstall all that it has from here. The cluster itself stays.",
			"To leave everything where it is: frs cluster delete " + id + " --mode orphan",
		},
		Command: "frs cluster delete " + id, Crumbs: []pageLink{{"Clusters", link("clusters")}, {id, link("clusters", id)}},
		Operation: api.Operation{Op: client.OpDelete, Kind: client.KindCluster, ID: id},
		Remedies:  []remedy{{client.CodeProtected, "Lift its protection first", link("clusters", id, "unprotect"), ""}},
	}, nil
}

func deleteComponentForm(req *pageRequest) (changeForm, error) {
	id, cascade := req.r.PathValue("id"), req.query("cascade") == "true"
	p := changeForm{
		Headline: "Deleting component " + id, Button: "Delete it", NoChange: "It is deleted already.", NavSection: "components", Destructive: true,
		Command: "frs component delete " + id, Crumbs: []pageLink{{"Components", link("components")}, {id, link("components", id)}},
		Operation: api.Operation{Op: client.OpDelete, Kind: client.KindPlatformComponent, ID: id, Cascade: cascade},
		Remedies:  []remedy{{client.CodeInUse, "Take it off everything that has it as well", link("components", id, "delete") + "?cascade=true", ""}},
	}
	if cascade {
		p.Headline += ", off every cluster"
		p.Command += " --cascade"
		p.Notes = []string{"Flux uninstalls it wherever it is."}
	}
	return p, nil
}

func deleteLayerForm(req *pageRequest) (changeForm, error) {
	id := req.r.PathValue("id")
	return changeForm{
		Headline: "Deleting layer " + id, Button: "Delete it", NoChange: "It is deleted already.", NavSection: "layers", Destructive: true,
		Notes:   []string{"Its clusters lose what only this layer gives them."},
		Command: "frs layer delete " + id, Crumbs: []pageLink{{"Layers", link("layers")}, {id, link("layers", id)}},
		Operation: api.Operation{Op: client.OpDelete, Kind: client.KindLayer, ID: id},
	}, nil
}

// offers tells whether changes are made here, by this visitor.
func (req *pageRequest) mayChange() bool { return req.page.cfg.Changes && req.may("write") }

// revealed is this page with what is masked, whatever else its address says.
func (req *pageRequest) revealLink() string {
	page, query := *req.r.URL, req.r.URL.Query()
	query.Set("reveal", "true")
	page.RawQuery = query.Encode()
	return page.RequestURI()
}

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

// proposal is a change that somebody may make here. Its plan is shown first.
type proposal struct {
	Headline, Button, Nothing string // Nothing is what is said when there is nothing left to do
	In                        string // the section of the page
	Crumbs                    []crumb
	Notes                     []string
	Command                   string // that does the same at the command line
	Grave                     bool   // what it takes away is gone
	Operation                 api.Operation
	Ways                      []way
	fields                    func(*visit) (fieldsOf, error) // nil: the documents say enough by their names
}

type crumb struct{ Text, Link string }

// way is what leads on when the API refuses a proposal for one reason.
type way struct{ Code, Label, Link, Means string }

// fieldsOf are the values that a proposal changes, by document.
type fieldsOf map[api.ChangeRef][]fieldChange

// proposals are the changes that can be made here, by the address of their plans.
var proposals = map[string]func(*visit) (proposal, error){
	"/changes/{revision}/revert":  proposeRevert,
	"/changes/{revision}/restore": proposeRestore,
	"/clusters/{id}/protect":      func(v *visit) (proposal, error) { return proposeProtection(v, true), nil },
	"/clusters/{id}/unprotect":    func(v *visit) (proposal, error) { return proposeProtection(v, false), nil },
	"/clusters/{id}/delete":       proposeDecommission,
	"/components/{id}/delete":     proposeDeleteComponent,
	"/layers/{id}/delete":         proposeDeleteLayer,
}

func proposeRevert(v *visit) (proposal, error) {
	number, err := v.revision()
	if err != nil {
		return proposal{}, err
	}
	command := fmt.Sprintf("frs revision revert %d", number)
	return proposal{
		Headline: fmt.Sprintf("Taking revision %d back", number), Button: fmt.Sprintf("Revert revision %d", number), Nothing: "Nothing of it is left to take back.",
		In: "changes", Crumbs: []crumb{{"Changes", link("changes")}, {fmt.Sprintf("Revision %d", number), link("changes", strconv.FormatInt(number, 10))}},
		Notes: []string{"Whatever was changed since stays."}, Command: command, Operation: api.Operation{Op: client.OpRevert, Revision: number},
		Ways: []way{
			{client.CodeRevertConflict, command + " --ours", "", "keeps what was changed since"},
			{client.CodeRevertConflict, command + " --theirs", "", "takes that back as well"},
		},
		fields: func(v *visit) (fieldsOf, error) { return v.fieldsBack(number) },
	}, nil
}

// fieldsBack are the values that a revision is known to have changed, the other way round.
func (v *visit) fieldsBack(number int64) (fieldsOf, error) {
	rev, err := v.fleet.GetRevisionWithResponse(v.r.Context(), number, &api.GetRevisionParams{Limit: new(documentsPerChange)})
	if err != nil {
		return nil, err
	}
	out := fieldsOf{}
	for _, ch := range rev.JSON200.Changes {
		if out[api.ChangeRef{Kind: ch.Kind, ID: ch.ID}], err = diff(ch.After, ch.Before, v.reveal()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// proposeRestore puts one document back to how it was at a revision.
func proposeRestore(v *visit) (proposal, error) {
	number, err := v.revision()
	kind, id := v.query("kind"), v.query("id")
	if err != nil || kind == "" || id == "" {
		return proposal{}, errNotFound
	}
	op := api.Operation{Op: client.OpRestore, Revision: number, Kind: kind, ID: id}
	noun := strings.TrimPrefix(kind, "platform_")
	if name, found := strings.CutPrefix(kind, client.KindResource+"/"); found {
		op.Kind, op.Type, noun = client.KindResource, name, "resource/"+name
	}
	return proposal{
		Headline: fmt.Sprintf("Putting %s %s back to revision %d", kindName(kind), id, number), Button: "Put it back", Nothing: "It is as it was at that revision.",
		In: "changes", Crumbs: []crumb{{"Changes of " + id, changesOf(kind, id)}},
		Notes:   []string{"Whatever was changed in it since is taken back as well. Other documents stay as they are."},
		Command: fmt.Sprintf("frs restore %d %s %s", number, noun, id), Operation: op,
		fields: func(v *visit) (fieldsOf, error) {
			now, err := v.document(kind, id, nil)
			if err != nil {
				return nil, err
			}
			then, err := v.document(kind, id, &number)
			if err != nil {
				return nil, err
			}
			fields, err := diff(now, then, v.reveal())
			return fieldsOf{{Kind: kind, ID: id}: fields}, err
		},
	}, nil
}

// document is a document now, or at a revision; nil when it is not there.
func (v *visit) document(kind, id string, at *int64) (json.RawMessage, error) {
	ctx := v.r.Context()
	var rsp *http.Response
	var err error
	switch name, resource := strings.CutPrefix(kind, client.KindResource+"/"); {
	case resource:
		rsp, err = v.fleet.GetResource(ctx, name, id, &api.GetResourceParams{Revision: at})
	case kind == client.KindCluster:
		rsp, err = v.fleet.GetCluster(ctx, id, &api.GetClusterParams{Revision: at})
	case kind == client.KindPlatformComponent:
		rsp, err = v.fleet.GetPlatformComponent(ctx, id, &api.GetPlatformComponentParams{Revision: at})
	case kind == client.KindNamespace:
		rsp, err = v.fleet.GetNamespace(ctx, id, &api.GetNamespaceParams{Revision: at})
	case kind == client.KindRoleBinding:
		rsp, err = v.fleet.GetRoleBinding(ctx, id, &api.GetRoleBindingParams{Revision: at})
	case kind == client.KindResourceType:
		rsp, err = v.fleet.GetResourceType(ctx, id, &api.GetResourceTypeParams{Revision: at})
	case kind == client.KindLayer:
		rsp, err = v.fleet.GetLayer(ctx, id, &api.GetLayerParams{Revision: at})
	default:
		return nil, errNotFound
	}
	if problem, answered := errors.AsType[*client.Error](err); answered && problem.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer rsp.Body.Close()
	return io.ReadAll(rsp.Body)
}

func proposeProtection(v *visit, on bool) proposal {
	id := v.r.PathValue("id")
	p := proposal{
		Headline: "Protecting cluster " + id, Button: "Protect it", Nothing: "It is protected already.", In: "clusters",
		Notes:   []string{"Nothing is taken off a protected cluster, by whatever change, and it is not deleted."},
		Command: "frs cluster protect " + id, Crumbs: []crumb{{"Clusters", link("clusters")}, {id, link("clusters", id)}},
	}
	if !on {
		p.Headline, p.Button, p.Nothing = "Lifting the protection of cluster "+id, "Lift the protection", "It has no protection of its own: where it is protected, a layer says so."
		p.Notes = []string{"Changes may take things off it again, and it may be deleted. A layer may protect it all the same."}
		p.Command += " --off"
	}
	p.Operation = api.Operation{Op: client.OpPatch, Kind: client.KindCluster, ID: id, Patch: fmt.Appendf(nil, `{"deletion_protection":%t}`, on)}
	p.fields = func(*visit) (fieldsOf, error) {
		return fieldsOf{{Kind: client.KindCluster, ID: id}: {{Field: "deletion_protection", Before: strconv.FormatBool(!on), After: strconv.FormatBool(on)}}}, nil
	}
	return p
}

func proposeDecommission(v *visit) (proposal, error) {
	id := v.r.PathValue("id")
	return proposal{
		Headline: "Deleting cluster " + id, Button: "Delete it", Nothing: "It is deleted already.", In: "clusters", Grave: true,
		Notes: []string{
			"Flux there is told to uninstall all that it has from here. The cluster itself stays.",
			"To leave everything where it is: frs cluster delete " + id + " --mode orphan",
		},
		Command: "frs cluster delete " + id, Crumbs: []crumb{{"Clusters", link("clusters")}, {id, link("clusters", id)}},
		Operation: api.Operation{Op: client.OpDelete, Kind: client.KindCluster, ID: id},
		Ways:      []way{{client.CodeProtected, "Lift its protection first", link("clusters", id, "unprotect"), ""}},
	}, nil
}

func proposeDeleteComponent(v *visit) (proposal, error) {
	id, cascade := v.r.PathValue("id"), v.query("cascade") == "true"
	p := proposal{
		Headline: "Deleting component " + id, Button: "Delete it", Nothing: "It is deleted already.", In: "components", Grave: true,
		Command: "frs component delete " + id, Crumbs: []crumb{{"Components", link("components")}, {id, link("components", id)}},
		Operation: api.Operation{Op: client.OpDelete, Kind: client.KindPlatformComponent, ID: id, Cascade: cascade},
		Ways:      []way{{client.CodeInUse, "Take it off everything that has it as well", link("components", id, "delete") + "?cascade=true", ""}},
	}
	if cascade {
		p.Headline += ", off every cluster"
		p.Command += " --cascade"
		p.Notes = []string{"Flux uninstalls it wherever it is."}
	}
	return p, nil
}

func proposeDeleteLayer(v *visit) (proposal, error) {
	id := v.r.PathValue("id")
	return proposal{
		Headline: "Deleting layer " + id, Button: "Delete it", Nothing: "It is deleted already.", In: "layers", Grave: true,
		Notes:   []string{"Its clusters lose what only this layer gives them."},
		Command: "frs layer delete " + id, Crumbs: []crumb{{"Layers", link("layers")}, {id, link("layers", id)}},
		Operation: api.Operation{Op: client.OpDelete, Kind: client.KindLayer, ID: id},
	}, nil
}

// offers tells whether changes are made here, by this visitor.
func (v *visit) offers() bool { return v.page.cfg.Changes && v.may("write") }

// revealed is this page with what is masked, whatever else its address says.
func (v *visit) revealed() string {
	page, query := *v.r.URL, v.r.URL.Query()
	query.Set("reveal", "true")
	page.RawQuery = query.Encode()
	return page.RequestURI()
}

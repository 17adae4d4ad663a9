package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/oapi-codegen/nullable"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// versionForm changes the version of a component in the catalog, a layer or a cluster, at once or as a rollout.
func versionForm(req *pageRequest) (changeForm, error) {
	id := req.r.PathValue("id")
	doc, err := req.fleet.GetPlatformComponentWithResponse(req.r.Context(), id, nil)
	if err != nil {
		return changeForm{}, err
	}
	component := *doc.JSON200
	in := &versionInput{
		Action: link("components", id, "version"), Version: strings.TrimSpace(req.query("version")), Layer: req.query("layer"), Cluster: strings.TrimSpace(req.query("cluster")), Strategy: req.query("strategy"),
	}
	form := changeForm{
		Headline: "Change the version of " + id, Button: "Change version", NoChange: "Nothing would change: this version is set there already.", NavSection: "components",
		Crumbs: []pageLink{{"Components", link("components")}, {id, link("components", id)}}, Input: in, Command: "frs component set " + id,
	}
	if err := req.readChoices(component, in); err != nil {
		return form, err
	}
	if in.Version == "" {
		return form, nil
	}
	flag := " --component-version "
	if component.Type == "kustomize" {
		flag = " --oci-tag "
	}
	form.Operation = versionOperation(component, in)
	switch {
	case in.Cluster != "":
		form.Command += " --cluster " + shellWord(in.Cluster)
	case in.Layer != "":
		form.Command += " --layer " + shellWord(in.Layer)
	}
	form.Command += flag + shellWord(in.Version)
	if in.Strategy != "" {
		rollout, err := req.rolloutID(id, in)
		if err != nil {
			return form, err
		}
		form.Create = &api.RolloutCreate{ID: rollout, Operations: []api.Operation{form.Operation}, Strategy: in.Strategy}
		form.Button = "Create rollout"
		form.Notes = []string{"The rollout " + form.Create.ID + " is created; its stages are those of the strategy " + in.Strategy + ". No cluster is served the change before a stage starts."}
		form.Command += " --rollout " + form.Create.ID + " --strategy " + shellWord(in.Strategy)
	}
	return form, nil
}

// readChoices reads what the form offers: known versions, the layers that have the component, and the strategies.
func (req *pageRequest) readChoices(component api.PlatformComponent, in *versionInput) error {
	known, err := req.fleet.GetComponentVersionsWithResponse(req.r.Context(), component.ID, nil)
	if err != nil {
		return err
	}
	for _, source := range known.JSON200.Sources {
		if source.Policy == "" { // of the component itself, not of an image
			for _, v := range source.Versions {
				in.Known = append(in.Known, v.Version)
			}
		}
	}
	layers, err := req.fleet.ListLayersWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	for _, l := range *layers.JSON200 {
		if slices.ContainsFunc(l.PlatformComponents, func(a api.LayerComponent) bool { return a.ID == component.ID }) {
			in.Layers = append(in.Layers, l.ID)
		}
	}
	strategies, err := req.fleet.ListStrategiesWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	for _, s := range *strategies.JSON200 {
		in.Strategies = append(in.Strategies, s.ID)
	}
	return nil
}

// versionOperation returns the operation that sets the version where the form says.
func versionOperation(component api.PlatformComponent, in *versionInput) api.Operation {
	kustomize := component.Type == "kustomize"
	if in.Cluster == "" && in.Layer == "" {
		field := "component_version"
		if kustomize {
			field = "oci_tag"
		}
		text, _ := json.Marshal(in.Version) //nolint:errchkjson // a string
		return api.Operation{Op: client.OpPatch, Kind: client.KindPlatformComponent, ID: component.ID, Patch: fmt.Appendf(nil, "{%q:%s}", field, text)}
	}
	op := api.Operation{Op: client.OpSetComponent, ComponentID: component.ID}
	if in.Cluster != "" {
		op.ClusterIds = []string{in.Cluster}
	} else {
		op.Layers = []string{in.Layer}
	}
	if kustomize {
		op.OCITag = nullable.NewNullableWithValue(in.Version)
	} else {
		op.ComponentVersion = nullable.NewNullableWithValue(in.Version)
	}
	return op
}

var notInID = regexp.MustCompile(`[^a-z0-9.]+`)

// maxSameRollouts is the number of rollouts of one change that the form tells apart.
const maxSameRollouts = 50

// rolloutID returns the id of the rollout that brings the version. While one is open, the same change has its id, so that it is not begun
// twice; after one that has ended, there is a number in the id.
func (req *pageRequest) rolloutID(component string, in *versionInput) (string, error) {
	base := notInID.ReplaceAllString(strings.ToLower(component+"-"+in.Version+"-"+cmp.Or(in.Cluster, in.Layer)), "-")
	base = strings.Trim(base[:min(len(base), 240)], "-.")
	id := base
	for n := 2; n <= maxSameRollouts; n++ {
		found, err := req.fleet.GetRolloutWithResponse(req.r.Context(), id, nil)
		if refused, answered := errors.AsType[*client.Error](err); answered && refused.StatusCode == http.StatusNotFound {
			break
		}
		if err != nil {
			return "", err
		}
		if openRollout(found.JSON200.State) {
			break
		}
		id = fmt.Sprintf("%s-%d", base, n)
	}
	return id, nil
}

// versionLink returns the address of the form, for a layer or a cluster if it is named; empty if the visitor may not change it there.
func (req *pageRequest) versionLink(component, kind, id string) string {
	if !req.mayChange(runningRollout, kind, id) {
		return ""
	}
	address := link("components", component, "version")
	switch kind {
	case client.KindLayer:
		address += "?" + url.Values{"layer": {id}}.Encode()
	case client.KindCluster:
		address += "?" + url.Values{"cluster": {id}}.Encode()
	}
	return address
}

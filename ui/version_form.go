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
	"github.com/flux-resourceset/flux-resourceset/internal/redact"
)

// versionForm changes the version of a component in the catalog, a layer or a cluster, and values in a layer or on a cluster, at once or as
// a rollout.
func versionForm(req *pageRequest) (changeForm, error) {
	id := req.r.PathValue("id")
	doc, err := req.fleet.GetPlatformComponentWithResponse(req.r.Context(), id, nil)
	if err != nil {
		return changeForm{}, err
	}
	component := *doc.JSON200
	in := &versionInput{
		Action: link("components", id, "version"), Version: strings.TrimSpace(req.query("version")), Layer: req.query("layer"), Cluster: strings.TrimSpace(req.query("cluster")), Strategy: req.query("strategy"),
		Values: strings.ReplaceAll(req.query("values"), "\r\n", "\n"),
	}
	form := changeForm{
		Headline: "Change the version or values of " + id, Button: "Change " + id, NoChange: "Nothing would change: this is set there already.", NavSection: "components",
		Crumbs: []pageLink{{"Components", link("components")}, {id, link("components", id)}}, Input: in, Command: "frs component set " + id,
	}
	if err := req.readChoices(component, in); err != nil {
		return form, err
	}
	values, problem := in.values()
	if in.Problem = problem; problem != "" {
		return form, nil
	}
	var operations []api.Operation
	if in.Version != "" {
		operations = append(operations, versionOperation(component, in))
	}
	if len(values) > 0 {
		operations = append(operations, in.on(api.Operation{Op: client.OpPatchValues, ComponentID: id, Values: values}))
	}
	if len(operations) == 0 {
		return form, nil
	}
	form.Operation, form.Also = operations[0], operations[1:]
	switch {
	case in.Cluster != "":
		form.Command += " --cluster " + shellWord(in.Cluster)
	case in.Layer != "":
		form.Command += " --layer " + shellWord(in.Layer)
	}
	if in.Version != "" {
		flag := " --component-version "
		if component.Type == "kustomize" {
			flag = " --oci-tag "
		}
		form.Command += flag + shellWord(in.Version)
	}
	for _, line := range in.lines() {
		if path, removed := strings.CutSuffix(line, "-"); removed && !strings.Contains(line, "=") {
			form.Command += " --unset " + shellWord(path)
		} else {
			form.Command += " --set " + shellWord(line)
		}
	}
	if in.Strategy != "" {
		rollout, err := req.rolloutID(id, in)
		if err != nil {
			return form, err
		}
		form.Create = &api.RolloutCreate{ID: rollout, Operations: operations, Strategy: in.Strategy}
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
	op := in.on(api.Operation{Op: client.OpSetComponent, ComponentID: component.ID})
	if kustomize {
		op.OCITag = nullable.NewNullableWithValue(in.Version)
	} else {
		op.ComponentVersion = nullable.NewNullableWithValue(in.Version)
	}
	return op
}

// on returns an operation on the cluster or the layer of the form.
func (in *versionInput) on(op api.Operation) api.Operation {
	if in.Cluster != "" {
		op.ClusterIds = []string{in.Cluster}
	} else {
		op.Layers = []string{in.Layer}
	}
	return op
}

// lines returns the lines with values.
func (in *versionInput) lines() (lines []string) {
	for line := range strings.Lines(in.Values) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// values returns the values by path as JSON, nil if there are none; null removes one. The problem is for the person who entered them.
func (in *versionInput) values() (values json.RawMessage, problem string) {
	lines := in.lines()
	if len(lines) == 0 {
		return nil, ""
	}
	if in.Cluster == "" && in.Layer == "" {
		return nil, "values of the catalog are changed on the command line: frs component set NAME --set PATH=VALUE. Choose a layer, or begin at a cluster"
	}
	given := map[string]any{}
	for _, line := range lines {
		path, value, found := strings.Cut(line, "=")
		path = strings.TrimSpace(path)
		removed, cut := strings.CutSuffix(path, "-")
		if !found && cut {
			path = removed
		}
		_, twice := given[path]
		switch {
		case path == "" || !found && !cut:
			return nil, fmt.Sprintf("%q is not PATH=VALUE: write PATH=VALUE, such as replicaCount=3, or PATH- to remove one", line)
		case isSecretValue(path, value):
			return nil, fmt.Sprintf("%q may be a secret, and would be in the address of this page: keep it in a Secret on the cluster, with values_from", path)
		case twice:
			return nil, fmt.Sprintf("%q is set twice", path)
		case found:
			given[path] = value
		default:
			given[path] = nil
		}
	}
	text, _ := json.Marshal(given) //nolint:errchkjson // strings and nil
	return text, ""
}

// isSecretValue reports whether a value may be a secret or contain one.
func isSecretValue(path, value string) bool {
	_, hidden := redact.JSON(path, value, false)
	return hidden || redact.IsSecret(path) || redact.NewMasker().Find(value) != ""
}

var notInID = regexp.MustCompile(`[^a-z0-9.]+`)

// maxSameRollouts is the number of rollouts of one change that the form tells apart.
const maxSameRollouts = 50

// rolloutID returns the id of the rollout that brings the version. While one is open, the same change has its id, so that it is not begun
// twice; after one that has ended, there is a number in the id.
func (req *pageRequest) rolloutID(component string, in *versionInput) (string, error) {
	base := notInID.ReplaceAllString(strings.ToLower(component+"-"+cmp.Or(in.Version, "values")+"-"+cmp.Or(in.Cluster, in.Layer)), "-")
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

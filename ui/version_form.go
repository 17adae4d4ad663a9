package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/oapi-codegen/nullable"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/redact"
	"github.com/flux-resourceset/flux-resourceset/internal/stages"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// ownStages is the choice of a rollout with stages that are typed in, in place of the id of a strategy.
const ownStages = "-"

// versionForm changes the version and values of a component in the catalog, a layer or a cluster, at once or as a rollout. Values are
// read from the body of a request only: an address is kept in histories and logs.
func versionForm(req *pageRequest) (changeForm, error) {
	id := req.r.PathValue("id")
	doc, err := req.fleet.GetPlatformComponentWithResponse(req.r.Context(), id, nil)
	if err != nil {
		return changeForm{}, err
	}
	component := *doc.JSON200
	in := req.versionInput(id)
	form := changeForm{
		Headline: "Change the version or values of " + id, Button: "Change " + id, NoChange: "Nothing would change: this is set there already.", NavSection: "components",
		Crumbs: []pageLink{{"Components", link("components")}, {id, link("components", id)}}, Input: in, Command: "frs component set " + id,
	}
	if err := req.readChoices(component, in); err != nil {
		return form, err
	}
	values, problem := in.values()
	typed, stageProblem := in.stages()
	if in.Problem = cmp.Or(in.Problem, problem, stageProblem); in.Problem != "" {
		return form, nil
	}
	operations := changeOperations(component, in, values)
	if len(operations) == 0 {
		return form, req.readNow(component, in)
	}
	form.Operation, form.Also = operations[0], operations[1:]
	form.Command += in.flags(component)
	if in.Strategy != "" {
		rollout, err := req.rolloutID(id, in)
		if err != nil {
			return form, err
		}
		form.Create = &api.RolloutCreate{ID: rollout, Operations: operations, Strategy: in.Strategy, Stages: typed}
		form.Command += " --rollout " + rollout
		origin := "are those of the strategy " + in.Strategy
		if in.Strategy == ownStages {
			form.Create.Strategy, origin = "", "were entered here"
		} else {
			form.Command += " --strategy " + summarize.ShellWord(in.Strategy)
		}
		for _, stage := range typedLines(in.Stages) {
			form.Command += " --stage " + summarize.ShellWord(stage)
		}
		form.Button = "Create rollout"
		form.Notes = []string{"The rollout " + rollout + " is created; its stages " + origin + ". No cluster is served the change before a stage starts."}
	}
	return form, nil
}

// versionInput returns the fields of the form as they were sent: scope is catalog, layer/NAME or cluster. An address has the layer or the
// cluster in place of it.
func (req *pageRequest) versionInput(id string) *versionInput {
	text := func(name string) string { return strings.TrimSpace(req.r.FormValue(name)) }
	in := &versionInput{
		Action: link("components", id, "version"), Version: text("version"), Layer: text("layer"), Cluster: text("cluster"), Strategy: text("strategy"),
		Stages: strings.ReplaceAll(text("stages"), "\r\n", "\n"), Values: strings.ReplaceAll(strings.TrimSpace(req.r.PostFormValue("values")), "\r\n", "\n"),
	}
	if scope := req.r.PostFormValue("scope"); scope != "" {
		in.Layer, _ = strings.CutPrefix(scope, "layer/")
		switch {
		case scope == "cluster" && in.Cluster == "":
			in.Layer, in.Problem = "", "enter the name of the cluster"
		case scope == "cluster":
			in.Layer = ""
		case scope == "catalog":
			in.Layer, in.Cluster = "", ""
		default:
			in.Cluster = ""
		}
	}
	in.OneCluster = in.Cluster != "" || in.Problem != ""
	if in.Strategy != ownStages {
		in.Stages = ""
	}
	return in
}

// Address returns the address of the form with its fields, but without values.
func (in *versionInput) Address() string {
	return address(in.Action, map[string]string{"version": in.Version, "layer": in.Layer, "cluster": in.Cluster, "strategy": in.Strategy, "stages": in.Stages})
}

// Revealed returns the address of the plan of the fields with masked values revealed.
func (in *versionInput) Revealed() string {
	address, query, _ := strings.Cut(in.Address(), "?")
	return address + "/plan?" + query + "&reveal=true"
}

// showVersionPlan shows the plan of a submitted form. Without values, it is the page with the fields in its address, which can be shared.
func showVersionPlan(req *pageRequest) error {
	form, err := versionForm(req)
	if err != nil {
		return err
	}
	if req.r.Method == http.MethodGet || !req.reveal() && form.Input.Problem == "" && form.Input.Values == "" {
		req.redirect(form.Input.Address())
		return nil
	}
	return req.showPlan(form, http.StatusOK, "", "")
}

// changeOperations returns the operations of the form: one patch of the catalog, or one operation for the version and one for the values.
func changeOperations(component api.PlatformComponent, in *versionInput, values json.RawMessage) (operations []api.Operation) {
	field := "component_version"
	if component.Type == "kustomize" {
		field = "oci_tag"
	}
	if in.Cluster == "" && in.Layer == "" {
		patch := map[string]any{}
		if in.Version != "" {
			patch[field] = in.Version
		}
		if values != nil {
			patch["patches"] = values
		}
		if len(patch) == 0 {
			return nil
		}
		text, _ := json.Marshal(patch) //nolint:errchkjson // strings and JSON
		return []api.Operation{{Op: client.OpPatch, Kind: client.KindPlatformComponent, ID: component.ID, Patch: text}}
	}
	if in.Version != "" {
		op := in.on(api.Operation{Op: client.OpSetComponent, ComponentID: component.ID})
		if field == "oci_tag" {
			op.OCITag = nullable.NewNullableWithValue(in.Version)
		} else {
			op.ComponentVersion = nullable.NewNullableWithValue(in.Version)
		}
		operations = append(operations, op)
	}
	if values != nil {
		operations = append(operations, in.on(api.Operation{Op: client.OpPatchValues, ComponentID: component.ID, Values: values}))
	}
	return operations
}

// flags returns the flags of the command line for the version and the values, and where they are set.
func (in *versionInput) flags(component api.PlatformComponent) (flags string) {
	switch {
	case in.Cluster != "":
		flags += " --cluster " + summarize.ShellWord(in.Cluster)
	case in.Layer != "":
		flags += " --layer " + summarize.ShellWord(in.Layer)
	}
	if in.Version != "" {
		flag := " --component-version "
		if component.Type == "kustomize" {
			flag = " --oci-tag "
		}
		flags += flag + summarize.ShellWord(in.Version)
	}
	for _, line := range typedLines(in.Values) {
		if path, removed := strings.CutSuffix(line, "-"); removed && !strings.Contains(line, "=") {
			flags += " --unset " + summarize.ShellWord(path)
		} else {
			flags += " --set " + summarize.ShellWord(line)
		}
	}
	return flags
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
				if !slices.Contains(in.Known, v.Version) { // of another version policy
					in.Known = append(in.Known, v.Version)
				}
			}
		}
	}
	in.addPlace(component.ID, client.KindPlatformComponent, "", versionText(component.ComponentVersion, component.OCITag))
	layers, err := req.fleet.ListLayersWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	for _, l := range *layers.JSON200 {
		override, overridden := l.Overrides[component.ID]
		assigned := slices.IndexFunc(l.PlatformComponents, func(a api.LayerComponent) bool { return a.ID == component.ID })
		if !overridden && l.ID != in.Layer && assigned < 0 {
			continue
		}
		in.Layers = append(in.Layers, l.ID)
		version := cmp.Or(override.ComponentVersion, override.OCITag)
		if assigned >= 0 {
			version = cmp.Or(l.PlatformComponents[assigned].ComponentVersion, l.PlatformComponents[assigned].OCITag, version)
		}
		if version != "" || l.ID == in.Layer {
			in.addPlace(component.ID, client.KindLayer, l.ID, version)
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

// addPlace adds a version that the catalog, a layer or a cluster sets.
func (in *versionInput) addPlace(component, kind, id, version string) {
	place := placeVersion{Place: "Catalog", Version: version, Link: versionAddress(component, kind, id)}
	switch kind {
	case client.KindLayer:
		place.Place, place.On = "Layer "+id, id == in.Layer && in.Cluster == ""
	case client.KindCluster:
		place.Place, place.On = "Cluster "+id, true
	default:
		place.On = in.Layer == "" && in.Cluster == ""
	}
	in.Now = append(in.Now, place)
}

// readNow reads what the form shows before there is a plan: the desired versions, and that of its cluster.
func (req *pageRequest) readNow(component api.PlatformComponent, in *versionInput) error {
	status, err := req.fleet.GetPlatformComponentStatusWithResponse(req.r.Context(), component.ID, nil)
	if err != nil {
		return err
	}
	in.Served = desiredVersions(component, *status.JSON200)
	if in.Cluster == "" {
		return nil
	}
	cluster, err := req.fleet.GetClusterStatusWithResponse(req.r.Context(), in.Cluster, nil)
	if refused, answered := errors.AsType[*client.Error](err); answered && refused.StatusCode == http.StatusNotFound {
		return nil // the plan will say so
	}
	if err != nil {
		return err
	}
	for _, input := range cluster.JSON200.Inputs {
		if input.List == componentList && input.ID == component.ID {
			in.addPlace(component.ID, client.KindCluster, in.Cluster, versionText(input.ComponentVersion, input.OCITag))
		}
	}
	return nil
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

// typedLines returns the lines of a text without spaces around them and without empty ones.
func typedLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// stages returns the stages that were typed in, nil if a strategy has them. The problem is for the person who entered them.
func (in *versionInput) stages() (out []api.RolloutStage, problem string) {
	lines := typedLines(in.Stages)
	if in.Strategy == ownStages && len(lines) == 0 {
		return nil, "enter the stages, one in each line, such as canary=environment=dev"
	}
	for _, line := range lines {
		stage, err := stages.Parse(line)
		if err != nil {
			return nil, err.Error()
		}
		out = append(out, stage)
	}
	return out, ""
}

// values returns the values by path as JSON, nil if there are none; null removes one. The problem is for the person who entered them.
func (in *versionInput) values() (values json.RawMessage, problem string) {
	lines := typedLines(in.Values)
	if len(lines) == 0 {
		return nil, ""
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
			return nil, fmt.Sprintf("%q may be a secret, and the history would keep it: keep it in a Secret on the cluster, with values_from", path)
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
	return versionAddress(component, kind, id)
}

func versionAddress(component, kind, id string) string {
	in := versionInput{Action: link("components", component, "version")}
	switch kind {
	case client.KindLayer:
		in.Layer = id
	case client.KindCluster:
		in.Cluster = id
	}
	return in.Address()
}

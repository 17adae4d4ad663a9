package ui

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/flux-resourceset/flux-resourceset/internal/redact"
)

// maxPlanFile is the size of the largest document that a plan shows as a file, in bytes.
const maxPlanFile = 64 << 10

// plannedStages returns the stages of a rollout that would be created, and whether the server starts them; none if the visitor may only plan.
func (req *pageRequest) plannedStages(r api.RolloutCreate) (stages []api.RolloutStageStatus, automatic bool, err error) {
	if !req.mayApply() { // the API answers a static token with 401, which would end the session
		return nil, false, nil
	}
	made, err := req.fleet.CreateRolloutWithResponse(req.r.Context(), &api.CreateRolloutParams{DryRun: new(true)}, r)
	if refused, answered := errors.AsType[*client.Error](err); answered && refused.StatusCode == http.StatusForbidden {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return made.JSON200.Stages, made.JSON200.Advance == "automatic", nil
}

// changedFile returns the document that a plan changes as it would be afterwards, for `apply` and for sources; empty if there is none.
// A document with masked values is no file: they would be written. hidden reports whether that is the reason.
func (req *pageRequest) changedFile(kind string, plan *api.Plan) (text string, hidden bool, err error) {
	document := plan.Results[len(plan.Results)-1].Document
	if len(document) == 0 || len(document) > maxPlanFile {
		return "", false, nil
	}
	var fields map[string]any
	if err := decodeNumbers(document, &fields); err != nil {
		return "", false, err
	}
	maps.DeleteFunc(fields, func(field string, _ any) bool { return slices.Contains(documents.ReadOnly, field) })
	fields["kind"] = strings.TrimPrefix(kind, "platform_")
	if redact.Value(fields, false, &hidden); hidden && !req.reveal() {
		return "", true, nil
	}
	return yamlText(fields), false, nil
}

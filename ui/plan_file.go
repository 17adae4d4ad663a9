package ui

import (
	"bytes"
	"encoding/json"
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

// showFile fills in the document of a version form as it would be after the change, for `apply` and for sources. A document with masked
// values is no file: they would be written.
func (req *pageRequest) showFile(view *planView) error {
	if view.Input == nil || view.Empty || !req.mayApply() {
		return nil
	}
	made, err := req.fleet.ApplyBatchWithResponse(req.r.Context(), &api.ApplyBatchParams{DryRun: new(true), Return: new("documents")},
		api.BatchRequest{Operations: view.operations(), Reason: req.reason()})
	if _, answered := errors.AsType[*client.Error](err); answered { // the visitor may only plan, or the change is refused
		return nil
	}
	if err != nil {
		return err
	}
	results := made.JSON200.Results
	text := results[len(results)-1].Document
	if len(text) == 0 || len(text) > maxPlanFile {
		return nil
	}
	var doc map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		return err
	}
	maps.DeleteFunc(doc, func(field string, _ any) bool { return slices.Contains(documents.ReadOnly, field) })
	doc["kind"] = strings.TrimPrefix(view.Input.Kind(), "platform_")
	if redact.Value(doc, false, &view.FileHidden); !view.FileHidden || req.reveal() {
		view.File = yamlText(doc)
	}
	return nil
}

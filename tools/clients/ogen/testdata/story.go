// The story with ogen.
package main

import (
	"context"
	"log"
	"os"
	"strconv"

	"github.com/go-faster/jx"

	"clients/ogen/api"
)

const id, dns = "story-01", "story-01.example.com"

// step prints the step if all its checks hold.
func step(name string, checks ...bool) {
	for i, ok := range checks {
		if !ok {
			log.Fatalf("step %s failed: check %d", name, i+1)
		}
	}
	os.Stdout.WriteString("step " + name + " ok\n")
}

// as is an answer of one kind; another kind, or an answer that the spec does not describe, ends the story.
func as[T any](answer any, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	wanted, ok := answer.(T)
	if !ok {
		log.Fatalf("the answer is %T: %+v", answer, answer)
	}
	return wanted
}

// token is the credential of every operation.
type token string

func (t token) AdminToken(context.Context, api.OperationName) (api.AdminToken, error) {
	return api.AdminToken{Token: string(t)}, nil
}

func (t token) IdToken(context.Context, api.OperationName) (api.IdToken, error) {
	return api.IdToken{Token: string(t)}, nil
}

func (t token) PollToken(context.Context, api.OperationName) (api.PollToken, error) {
	return api.PollToken{Token: string(t)}, nil
}

func (t token) ReadToken(context.Context, api.OperationName) (api.ReadToken, error) {
	return api.ReadToken{Token: string(t)}, nil
}

func (t token) WriteToken(context.Context, api.OperationName) (api.WriteToken, error) {
	return api.WriteToken{Token: string(t)}, nil
}

func main() {
	ctx := context.Background()
	client, err := api.NewClient(os.Args[1], token(os.Args[2]))
	if err != nil {
		log.Fatal(err)
	}

	who := as[*api.IdentityHeaders](client.WhoAmI(ctx, api.WhoAmIParams{}))
	step("whoami", who.Response.Role == "admin")

	list := as[*api.ListClustersOKHeaders](client.ListClusters(ctx, api.ListClustersParams{Environment: api.NewOptString("dev"), Limit: api.NewOptInt(100)}))
	step("list", len(list.Response) == 1, list.Response[0].ID == "demo-cluster-01", list.XTotalCount.Value == 1)

	cluster := &api.ClusterCreate{
		ID: id, ClusterName: api.NewOptNilString("story"), ClusterDNS: dns, Environment: "dev",
		Labels:             api.NewOptNilClusterCreateLabels(api.ClusterCreateLabels{"team": "web", "tier": "one"}),
		PlatformComponents: api.NewOptNilComponentAssignmentInputArray([]api.ComponentAssignmentInput{{ID: "podinfo"}}),
		Patches:            api.NewOptNilClusterCreatePatches(api.ClusterCreatePatches{"podinfo": {"ui.color": api.PatchValue(`"red"`)}}),
	}
	created := as[*api.CreateClusterCreatedHeaders](client.CreateCluster(ctx, cluster, api.CreateClusterParams{}))
	step("create", created.Response.PlatformComponents[0].Enabled)

	exists := as[*api.CreateClusterConflict](client.CreateCluster(ctx, &api.ClusterCreate{ID: id, ClusterDNS: dns, Environment: "dev"}, api.CreateClusterParams{}))
	step("create-again", exists.Error == "conflict")

	invalid := as[*api.CreateClusterBadRequest](client.CreateCluster(ctx, &api.ClusterCreate{ID: "story-02", ClusterDNS: "story-02.example.com", Environment: "mars"}, api.CreateClusterParams{}))
	step("invalid", invalid.Errors[0].Pointer == "/environment")

	got := as[*api.GetClusterOKHeaders](client.GetCluster(ctx, api.GetClusterParams{ID: id}))
	etag, before := got.ETag, got.Response.Revision
	step("get", etag.Set, got.Response.ClusterName == "story")

	as[*api.GetClusterNotModified](client.GetCluster(ctx, api.GetClusterParams{ID: id, IfNoneMatch: etag}))
	step("not-modified")

	missing := as[*api.GetClusterNotFound](client.GetCluster(ctx, api.GetClusterParams{ID: "story-99"}))
	step("not-found", missing.Error == "not_found")

	name := &api.PatchClusterApplicationMergePatchJSON{ClusterName: api.NewOptNilString("renamed")}
	changed := as[*api.UpdateClusterOKHeaders](client.PatchCluster(ctx, name, api.PatchClusterParams{ID: id, IfMatch: etag}))
	step("patch", changed.Response.ClusterName == "renamed")

	stale := as[*api.StaleHeaders](client.PatchCluster(ctx, name, api.PatchClusterParams{ID: id, IfMatch: etag}))
	step("stale", stale.Response.Error == "stale", stale.ETag.Set)

	labels := &api.PatchClusterApplicationJSON{Labels: api.NewOptNilClusterPatchLabels(api.ClusterPatchLabels{"tier": {Null: true}})}
	changed = as[*api.UpdateClusterOKHeaders](client.PatchCluster(ctx, labels, api.PatchClusterParams{ID: id}))
	step("null", len(changed.Response.Labels) == 1, changed.Response.Labels["team"] == "web")

	assignment := api.AssignPlatformComponentParams{ID: id, ComponentID: "podinfo"}
	tag := api.NewOptAssignmentSettings(api.AssignmentSettings{OciTag: api.NewOptNilString("6.0.0")})
	changed = as[*api.UpdateClusterOKHeaders](client.AssignPlatformComponent(ctx, tag, assignment))
	step("override", changed.Response.PlatformComponents[0].OciTag.Value == "6.0.0")

	tag.Value.OciTag.SetToNull()
	changed = as[*api.UpdateClusterOKHeaders](client.AssignPlatformComponent(ctx, tag, assignment))
	step("null-override", !changed.Response.PlatformComponents[0].OciTag.Set)

	poll := as[*api.FluxPlatformComponentsHeaders](client.PollPlatformComponents(ctx, api.PollPlatformComponentsParams{ClusterDNS: dns}))
	step("poll", string(poll.Response.Inputs[0].Patches["ui.color"]) == `"red"`)

	as[*api.PollPlatformComponentsNotModified](client.PollPlatformComponents(ctx, api.PollPlatformComponentsParams{ClusterDNS: dns, IfNoneMatch: poll.ETag}))
	step("poll-unchanged")

	operations := []api.Operation{{
		Op: api.OperationOpPatch, Kind: api.NewOptOperationKind(api.OperationKindCluster), ID: api.NewOptString(id),
		Patch: api.NewOptOperationPatch(api.OperationPatch{"patches": jx.Raw(`{"podinfo":{"ui.color":null,"replicaCount":"3"}}`)}),
	}}
	plan := as[*api.PlanHeaders](client.Plan(ctx, &api.PlanRequest{Operations: operations}, api.PlanParams{}))
	step("plan", plan.Response.Totals.Changed == 1)

	batch := &api.BatchRequest{Operations: operations, PlanHash: api.NewOptString(plan.Response.PlanHash), Reason: api.NewOptString("story")}
	applied := as[*api.BatchResultHeaders](client.ApplyBatch(ctx, batch, api.ApplyBatchParams{}))
	got = as[*api.GetClusterOKHeaders](client.GetCluster(ctx, api.GetClusterParams{ID: id}))
	patches := got.Response.Patches["podinfo"]
	step("batch", len(applied.Response.Changes) == 1, len(patches) == 1, string(patches["replicaCount"]) == `"3"`)

	as[*api.StaleHeaders](client.ApplyBatch(ctx, batch, api.ApplyBatchParams{}))
	step("changed-plan")

	rollout := &api.RolloutCreate{ID: "story", Stages: []api.RolloutStage{{Name: "dev", Selector: api.NewOptString("environment=dev")}}}
	rollout.Operations = []api.Operation{{
		Op: api.OperationOpCreate, Kind: api.NewOptOperationKind(api.OperationKindNamespace),
		Document: api.NewOptOperationDocument(api.OperationDocument{"id": jx.Raw(`"story"`)}),
	}}
	refused := as[*api.CreateRolloutUnprocessableEntity](client.CreateRollout(ctx, rollout, api.CreateRolloutParams{}))
	step("not-stageable", refused.Error == "not_stageable")

	rollout.Operations = []api.Operation{{
		Op: api.OperationOpPatch, Kind: api.NewOptOperationKind(api.OperationKindPlatformComponent), ID: api.NewOptString("podinfo"),
		Patch: api.NewOptOperationPatch(api.OperationPatch{"component_version": jx.Raw(`"6.9.0"`)}),
	}}
	proposed := as[*api.CreateRolloutCreatedHeaders](client.CreateRollout(ctx, rollout, api.CreateRolloutParams{}))
	step("rollout", proposed.Response.State == "proposed")

	running := as[*api.ChangeRolloutOKHeaders](client.ChangeRollout(ctx, api.ChangeRolloutParams{ID: "story", Action: api.ActionPathStart}))
	step("rollout-start", running.Response.Stages[0].State == "started")

	watch := api.ListRevisionsParams{After: api.NewOptString(strconv.FormatInt(before, 10)), Wait: api.NewOptString("1s")} // and the default of limit
	revisions := as[*api.ListRevisionsOKApplicationJSONHeaders](client.ListRevisions(ctx, watch))
	step("watch", revisions.Response[0].Revision == before+1)
}

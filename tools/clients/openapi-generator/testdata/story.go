// The story with the Go client of openapi-generator.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strconv"

	api "clients/openapi-generator/openapi"
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

// status checks the status of an answer that is an error to the client, and the code of its problem.
func status(r *http.Response, err error, status int, code string) bool {
	if r == nil || err == nil || r.StatusCode != status {
		log.Println(err)
		return false
	}
	if code == "" {
		return true
	}
	var problem api.Problem
	failed, ok := err.(*api.GenericOpenAPIError)
	return ok && json.Unmarshal(failed.Body(), &problem) == nil && problem.Error == code
}

func ok(err error) bool {
	if err != nil {
		log.Println(err)
	}
	return err == nil
}

func main() {
	config := api.NewConfiguration()
	config.Servers[0].URL = os.Args[1]
	client := api.NewAPIClient(config)
	ctx := context.WithValue(context.Background(), api.ContextAccessToken, os.Args[2])

	who, _, err := client.ServiceAPI.WhoAmI(ctx).Execute()
	step("whoami", ok(err), who.Role == "admin")

	list, r, err := client.ClustersAPI.ListClusters(ctx).Environment("dev").Limit(100).Offset(0).Execute()
	step("list", ok(err), len(list) == 1, list[0].Id == "demo-cluster-01", r.Header.Get("X-Total-Count") == "1")

	create := api.NewClusterCreate(id, dns, "dev")
	create.SetClusterName("story")
	create.Labels = map[string]string{"team": "web", "tier": "one"}
	create.PlatformComponents = []api.ComponentAssignmentInput{*api.NewComponentAssignmentInput("podinfo")}
	create.Patches = map[string]map[string]any{"podinfo": {"ui.color": "red"}}
	cluster, r, err := client.ClustersAPI.CreateCluster(ctx).ClusterCreate(*create).Execute()
	step("create", ok(err), r.StatusCode == 201, cluster.PlatformComponents[0].Enabled)

	_, r, err = client.ClustersAPI.CreateCluster(ctx).ClusterCreate(*api.NewClusterCreate(id, dns, "dev")).Execute()
	step("create-again", status(r, err, 409, "conflict"))

	_, r, err = client.ClustersAPI.CreateCluster(ctx).ClusterCreate(*api.NewClusterCreate("story-02", "story-02.example.com", "mars")).Execute()
	step("invalid", status(r, err, 400, "validation_error"))

	cluster, r, err = client.ClustersAPI.GetCluster(ctx, id).Execute()
	etag, before := r.Header.Get("ETag"), cluster.Revision
	step("get", ok(err), etag != "", cluster.ClusterName == "story")

	_, r, err = client.ClustersAPI.GetCluster(ctx, id).IfNoneMatch(etag).Execute()
	step("not-modified", status(r, err, 304, ""))

	_, r, err = client.ClustersAPI.GetCluster(ctx, "story-99").Execute()
	step("not-found", status(r, err, 404, "not_found"))

	name := api.NewClusterPatch()
	name.SetClusterName("renamed")
	cluster, _, err = client.ClustersAPI.PatchCluster(ctx, id).IfMatch(etag).ClusterPatch(*name).Execute()
	step("patch", ok(err), cluster.ClusterName == "renamed")

	_, r, err = client.ClustersAPI.PatchCluster(ctx, id).IfMatch(etag).ClusterPatch(*name).Execute()
	step("stale", status(r, err, 412, "stale"))

	cluster, _, err = client.ClustersAPI.PatchCluster(ctx, id).ClusterPatch(api.ClusterPatch{Labels: map[string]*string{"tier": nil}}).Execute()
	step("null", ok(err), len(cluster.Labels) == 1, cluster.Labels["team"] == "web")

	settings := api.NewAssignmentSettings()
	settings.SetOciTag("6.0.0")
	cluster, _, err = client.ClustersAPI.AssignPlatformComponent(ctx, id, "podinfo").AssignmentSettings(*settings).Execute()
	step("override", ok(err), cluster.PlatformComponents[0].GetOciTag() == "6.0.0")

	settings.SetOciTagNil()
	cluster, _, err = client.ClustersAPI.AssignPlatformComponent(ctx, id, "podinfo").AssignmentSettings(*settings).Execute()
	step("null-override", ok(err), !cluster.PlatformComponents[0].HasOciTag())

	poll, r, err := client.FluxAPI.PollPlatformComponents(ctx, dns).Execute()
	tag := r.Header.Get("ETag")
	step("poll", ok(err), poll.Inputs[0].Patches["ui.color"] == "red")

	_, r, err = client.FluxAPI.PollPlatformComponents(ctx, dns).IfNoneMatch(tag).Execute()
	step("poll-unchanged", status(r, err, 304, ""))

	operation := api.NewOperation("patch")
	operation.SetKind("cluster")
	operation.SetId(id)
	operation.Patch = map[string]any{"patches": map[string]any{"podinfo": map[string]any{"ui.color": nil, "replicaCount": "3"}}}
	operations := []api.Operation{*operation}
	plan, _, err := client.ChangesAPI.Plan(ctx).PlanRequest(api.PlanRequest{Operations: operations}).Execute()
	step("plan", ok(err), plan.Totals.Changed == 1)

	batch := api.NewBatchRequest(operations)
	batch.SetPlanHash(plan.PlanHash)
	batch.SetReason("story")
	result, _, err := client.ChangesAPI.ApplyBatch(ctx).BatchRequest(*batch).Execute()
	cluster, _, _ = client.ClustersAPI.GetCluster(ctx, id).Execute()
	step("batch", ok(err), len(result.Changes) == 1, len(cluster.Patches["podinfo"]) == 1, cluster.Patches["podinfo"]["replicaCount"] == "3")

	_, r, err = client.ChangesAPI.ApplyBatch(ctx).BatchRequest(*batch).Execute()
	step("changed-plan", status(r, err, 412, ""))

	stage := api.NewRolloutStage("dev")
	stage.SetSelector("environment=dev")
	creation := api.NewOperation("create")
	creation.SetKind("namespace")
	creation.Document = map[string]any{"id": "story"}
	rollout := api.NewRolloutCreate("story", []api.Operation{*creation})
	rollout.Stages = []api.RolloutStage{*stage}
	_, r, err = client.RolloutsAPI.CreateRollout(ctx).RolloutCreate(*rollout).Execute()
	step("not-stageable", status(r, err, 422, "not_stageable"))

	change := api.NewOperation("patch")
	change.SetKind("platform_component")
	change.SetId("podinfo")
	change.Patch = map[string]any{"component_version": "6.9.0"}
	rollout.Operations = []api.Operation{*change}
	created, _, err := client.RolloutsAPI.CreateRollout(ctx).RolloutCreate(*rollout).Execute()
	step("rollout", ok(err), created.State == "proposed")

	started, _, err := client.RolloutsAPI.ChangeRollout(ctx, "story", "start").Execute()
	step("rollout-start", ok(err), started.Stages[0].State == "started")

	// With the default of limit.
	revisions, _, err := client.HistoryAPI.ListRevisions(ctx).After(strconv.FormatInt(before, 10)).Wait("1s").Limit(100).Execute()
	step("watch", ok(err), revisions[0].Revision == before+1)
}

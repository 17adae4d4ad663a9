"""The story with openapi-python-client."""

import sys

from flux_resourceset_client import AuthenticatedClient
from flux_resourceset_client.api.changes import apply_batch, plan
from flux_resourceset_client.api.clusters import assign_platform_component, create_cluster, get_cluster, list_clusters, patch_cluster
from flux_resourceset_client.api.flux import poll_platform_components
from flux_resourceset_client.api.history import list_revisions
from flux_resourceset_client.api.rollouts import change_rollout, create_rollout
from flux_resourceset_client.api.service import who_am_i
from flux_resourceset_client import models

base, token = sys.argv[1:]
api = AuthenticatedClient(base_url=base, token=token)
ID, DNS = "story-01", "story-01.example.com"


def step(name: str, *checks: bool) -> None:
    """Print the step if all its checks hold."""
    if not all(checks):
        sys.exit(f"step {name} failed: {checks}")
    print(f"step {name} ok")


def new(id: str, dns: str, environment: str, **fields) -> models.ClusterCreate:
    return models.ClusterCreate(id=id, cluster_dns=dns, environment=environment, **fields)


r = who_am_i.sync_detailed(client=api)
step("whoami", r.parsed.role == "admin")

r = list_clusters.sync_detailed(client=api, environment="dev")
step("list", [c.id for c in r.parsed] == ["demo-cluster-01"], r.headers["X-Total-Count"] == "1")

cluster = new(
    ID, DNS, "dev", cluster_name="story",
    labels=models.ClusterCreateLabelsType0.from_dict({"team": "web", "tier": "one"}),
    platform_components=[models.ComponentAssignmentInput(id="podinfo")],
    patches=models.ClusterCreatePatchesType0.from_dict({"podinfo": {"ui.color": "red"}}),
)
r = create_cluster.sync_detailed(client=api, body=cluster)
step("create", r.status_code == 201, r.parsed.platform_components[0].enabled is True)

r = create_cluster.sync_detailed(client=api, body=new(ID, DNS, "dev"))
step("create-again", r.status_code == 409, r.parsed.error == "conflict")

r = create_cluster.sync_detailed(client=api, body=new("story-02", "story-02.example.com", "mars"))
step("invalid", r.status_code == 400, r.parsed.errors[0].pointer == "/environment")

r = get_cluster.sync_detailed(ID, client=api)
etag, before = r.headers["ETag"], r.parsed.revision
step("get", r.parsed.cluster_name == "story")

r = get_cluster.sync_detailed(ID, client=api, if_none_match=etag)
step("not-modified", r.status_code == 304)

r = get_cluster.sync_detailed("story-99", client=api)
step("not-found", r.status_code == 404, r.parsed.error == "not_found")

r = patch_cluster.sync_detailed(ID, client=api, if_match=etag, body=models.ClusterPatch(cluster_name="renamed"))
step("patch", r.parsed.cluster_name == "renamed")

r = patch_cluster.sync_detailed(ID, client=api, if_match=etag, body=models.ClusterPatch(cluster_name="again"))
step("stale", r.status_code == 412, r.parsed.error == "stale")

r = patch_cluster.sync_detailed(ID, client=api, body=models.ClusterPatch.from_dict({"labels": {"tier": None}}))
step("null", r.parsed.labels.to_dict() == {"team": "web"})

r = assign_platform_component.sync_detailed(ID, "podinfo", client=api, body=models.AssignmentSettings(oci_tag="6.0.0"))
step("override", r.parsed.platform_components[0].oci_tag == "6.0.0")

r = assign_platform_component.sync_detailed(ID, "podinfo", client=api, body=models.AssignmentSettings(oci_tag=None))
step("null-override", "oci_tag" not in r.parsed.platform_components[0].to_dict())

r = poll_platform_components.sync_detailed(DNS, client=api)
tag = r.headers["ETag"]
step("poll", r.parsed.inputs[0].patches.to_dict()["ui.color"] == "red")

r = poll_platform_components.sync_detailed(DNS, client=api, if_none_match=tag)
step("poll-unchanged", r.status_code == 304)

operations = [models.Operation.from_dict({
    "op": "patch", "kind": "cluster", "id": ID, "patch": {"patches": {"podinfo": {"ui.color": None, "replicaCount": "3"}}},
})]
r = plan.sync_detailed(client=api, body=models.PlanRequest(operations=operations))
plan_hash = r.parsed.plan_hash
step("plan", r.parsed.totals.changed == 1)

r = apply_batch.sync_detailed(client=api, body=models.BatchRequest(operations=operations, plan_hash=plan_hash, reason="story"))
patches = get_cluster.sync_detailed(ID, client=api).parsed.patches.to_dict()
step("batch", len(r.parsed.changes) == 1, patches == {"podinfo": {"replicaCount": "3"}})

r = apply_batch.sync_detailed(client=api, body=models.BatchRequest(operations=operations, plan_hash=plan_hash))
step("changed-plan", r.status_code == 412)


def rollout(operation: dict) -> models.RolloutCreate:
    stages = [models.RolloutStage(name="dev", selector="environment=dev")]
    return models.RolloutCreate(id="story", stages=stages, operations=[models.Operation.from_dict(operation)])


r = create_rollout.sync_detailed(client=api, body=rollout({"op": "create", "kind": "namespace", "document": {"id": "story"}}))
step("not-stageable", r.status_code == 422, r.parsed.error == "not_stageable")

change = {"op": "patch", "kind": "platform_component", "id": "podinfo", "patch": {"component_version": "6.9.0"}}
r = create_rollout.sync_detailed(client=api, body=rollout(change))
step("rollout", r.parsed.state == "proposed")

r = change_rollout.sync_detailed("story", models.ChangeRolloutAction.START, client=api)
step("rollout-start", r.parsed.stages[0].state == "started")

r = list_revisions.sync_detailed(client=api, after=str(before), wait="1s")  # and the default of limit
step("watch", r.parsed[0].revision == before + 1)

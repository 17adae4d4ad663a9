// The story with openapi-typescript and openapi-fetch.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

const [base, token] = process.argv.slice(2) as [string, string];
const api = createClient<paths>({ baseUrl: base, headers: { Authorization: `Bearer ${token}` } });
const id = "story-01";

async function step(name: string, run: () => Promise<void>) {
  await run();
  console.log(`step ${name} ok`);
}

let etag = "", pollTag = "", hash = "", before = 0;
const operations: components["schemas"]["Operation"][] = [
  { op: "patch", kind: "cluster", id, patch: { patches: { podinfo: { "ui.color": null, replicaCount: "3" } } } },
];

async function main() {
  await step("whoami", async () => {
    const { data } = await api.GET("/whoami");
    assert.equal(data?.role, "admin");
  });
  await step("list", async () => {
    const { data, response } = await api.GET("/clusters", { params: { query: { environment: "dev", limit: 100, offset: 0 } } });
    assert.deepEqual(data?.map((cluster) => cluster.id), ["demo-cluster-01"]);
    assert.equal(response.headers.get("X-Total-Count"), "1");
  });
  await step("create", async () => {
    const { data, response } = await api.POST("/clusters", {
      body: {
        id, cluster_name: "story", cluster_dns: "story-01.example.com", environment: "dev", labels: { team: "web", tier: "one" },
        platform_components: [{ id: "podinfo" }], patches: { podinfo: { "ui.color": "red" } },
      },
    });
    assert.equal(response.status, 201);
    assert.equal(data?.platform_components[0]?.enabled, true);
  });
  await step("create-again", async () => {
    const { error, response } = await api.POST("/clusters", { body: { id, cluster_dns: "story-01.example.com", environment: "dev" } });
    assert.equal(response.status, 409);
    assert.equal(error?.error, "conflict");
  });
  await step("invalid", async () => {
    const { error, response } = await api.POST("/clusters", { body: { id: "story-02", cluster_dns: "story-02.example.com", environment: "mars" } });
    assert.equal(response.status, 400);
    assert.equal(error?.errors?.[0]?.pointer, "/environment");
  });
  await step("get", async () => {
    const { data, response } = await api.GET("/clusters/{id}", { params: { path: { id } } });
    etag = response.headers.get("ETag") ?? "";
    before = data?.revision ?? 0;
    assert.ok(etag && before);
  });
  await step("not-modified", async () => {
    const { response } = await api.GET("/clusters/{id}", { params: { path: { id }, header: { "If-None-Match": etag } } });
    assert.equal(response.status, 304);
  });
  await step("not-found", async () => {
    const { error, response } = await api.GET("/clusters/{id}", { params: { path: { id: "story-99" } } });
    assert.equal(response.status, 404);
    assert.equal(error?.error, "not_found");
  });
  await step("patch", async () => {
    const { data } = await api.PATCH("/clusters/{id}", {
      params: { path: { id }, header: { "If-Match": etag } }, body: { cluster_name: "renamed" },
    });
    assert.equal(data?.cluster_name, "renamed");
  });
  await step("stale", async () => {
    const { error, response } = await api.PATCH("/clusters/{id}", {
      params: { path: { id }, header: { "If-Match": etag } }, body: { cluster_name: "again" },
    });
    assert.equal(response.status, 412);
    assert.equal(error?.error, "stale");
  });
  await step("null", async () => {
    const { data } = await api.PATCH("/clusters/{id}", { params: { path: { id } }, body: { labels: { tier: null } } });
    assert.deepEqual(data?.labels, { team: "web" });
  });
  await step("override", async () => {
    const { data } = await api.PUT("/clusters/{id}/platform_components/{component_id}", {
      params: { path: { id, component_id: "podinfo" } }, body: { oci_tag: "6.0.0" },
    });
    assert.equal(data?.platform_components[0]?.oci_tag, "6.0.0");
  });
  await step("null-override", async () => {
    const { data } = await api.PUT("/clusters/{id}/platform_components/{component_id}", {
      params: { path: { id, component_id: "podinfo" } }, body: { oci_tag: null },
    });
    assert.equal(data?.platform_components[0]?.oci_tag, undefined);
  });
  const poll = { path: { cluster_dns: "story-01.example.com" } };
  await step("poll", async () => {
    const { data, response } = await api.GET("/api/v2/flux/clusters/{cluster_dns}/platform-components", { params: poll });
    assert.equal(data?.inputs[0]?.patches?.["ui.color"], "red");
    pollTag = response.headers.get("ETag") ?? "";
  });
  await step("poll-unchanged", async () => {
    const { response } = await api.GET("/api/v2/flux/clusters/{cluster_dns}/platform-components", {
      params: { ...poll, header: { "If-None-Match": pollTag } },
    });
    assert.equal(response.status, 304);
  });
  await step("plan", async () => {
    const { data } = await api.POST("/plan", { body: { operations } });
    assert.equal(data?.totals.changed, 1);
    hash = data?.plan_hash ?? "";
  });
  await step("batch", async () => {
    const { data } = await api.POST("/batch", { body: { operations, plan_hash: hash, reason: "story" } });
    assert.equal(data?.changes.length, 1);
    const { data: cluster } = await api.GET("/clusters/{id}", { params: { path: { id } } });
    assert.deepEqual(cluster?.patches, { podinfo: { replicaCount: "3" } });
  });
  await step("changed-plan", async () => {
    const { response } = await api.POST("/batch", { body: { operations, plan_hash: hash } });
    assert.equal(response.status, 412);
  });
  const stages = [{ name: "dev", selector: "environment=dev" }];
  await step("not-stageable", async () => {
    const { error, response } = await api.POST("/rollouts", {
      body: { id: "story", stages, operations: [{ op: "create", kind: "namespace", document: { id: "story" } }] },
    });
    assert.equal(response.status, 422);
    assert.equal(error?.error, "not_stageable");
  });
  await step("rollout", async () => {
    const { data } = await api.POST("/rollouts", {
      body: { id: "story", stages, operations: [{ op: "patch", kind: "platform_component", id: "podinfo", patch: { component_version: "6.9.0" } }] },
    });
    assert.equal(data?.state, "proposed");
  });
  await step("rollout-start", async () => {
    const { data } = await api.POST("/rollouts/{id}/{action}", { params: { path: { id: "story", action: "start" } } });
    assert.equal(data?.stages[0]?.state, "started");
  });
  await step("watch", async () => {
    // With the defaults of the spec, which some generators send.
    const { data } = await api.GET("/revisions", { params: { query: { after: String(before), wait: "1s", limit: 100 } } });
    assert.ok(Array.isArray(data)); // openapi-fetch cannot know that it is no event stream
    assert.equal(data[0]?.revision, before + 1);
  });
}

main();

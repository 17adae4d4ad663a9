package cli

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/charts"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

var namespaces = documentKind{
	kind: "namespace", name: "namespace", plural: "namespaces", title: "namespace", list: "namespaces",
	aliases: []string{"namespaces", "ns"}, usage: "Namespaces, and their assignments to clusters",
	example: "namespace create team-sandbox --label team=sandbox --annotation owner=platform --cluster demo-cluster-01",
	fields: []field{
		mapField("label", "labels", "label `KEY=VALUE`; repeat for more; replaces all labels"),
		mapField("annotation", "annotations", "annotation `KEY=VALUE`; repeat for more; replaces all annotations"),
		textField("deletion-policy", "deletion_policy", "`POLICY` when it is unassigned from a cluster: delete it with everything in it, or orphan it"),
	},
	view: view{
		header: []string{"ID", "DELETION", "LABELS", "REVISION", "ANNOTATIONS", "UPDATED"},
		narrow: 4,
		row: rowOf(func(d api.Namespace) []string {
			return []string{d.ID, d.DeletionPolicy, formatLabels(d.Labels), strconv.FormatInt(d.Revision, 10), formatLabels(d.Annotations), formatTime(d.UpdatedAt)}
		}),
	},
	assignable: &assignable{
		word: "namespace", removed: "the namespace with everything in it, unless its deletion policy is orphan", unconfirmedInScripts: true,
		inputs: inputType{
			name:     "namespaces",
			template: charts.Namespaces,
			poll: func(ctx context.Context, c client, dns string) (*http.Response, error) {
				return c.PollNamespaces(ctx, dns, nil)
			},
			view: view{
				header: []string{"ID", "DELETION", "LABELS", "ANNOTATIONS"},
				narrow: 3,
				row: rowOf(func(d api.FluxNamespace) []string {
					return []string{d.ID, d.DeletionPolicy, formatLabels(d.Labels), formatLabels(d.Annotations)}
				}),
			},
		},
	},
	api: calls{
		list: func(ctx context.Context, c client, e ...edit) (*http.Response, error) {
			return c.ListNamespaces(ctx, nil, e...)
		},
		get: func(ctx context.Context, c client, id string, e ...edit) (*http.Response, error) {
			return c.GetNamespace(ctx, id, nil, e...)
		},
		history: func(ctx context.Context, c client, id string, e ...edit) (*http.Response, error) {
			return c.GetNamespaceHistory(ctx, id, nil, e...)
		},
		create: func(ctx context.Context, c client, body []byte, e ...edit) (*http.Response, error) {
			return c.CreateNamespaceWithBody(ctx, nil, contentJSON, bytes.NewReader(body), e...)
		},
		update: func(ctx context.Context, c client, id string, body []byte, e ...edit) (*http.Response, error) {
			return c.UpdateNamespaceWithBody(ctx, id, nil, contentJSON, bytes.NewReader(body), e...)
		},
		patch: func(ctx context.Context, c client, id string, body []byte, e ...edit) (*http.Response, error) {
			return c.PatchNamespaceWithBody(ctx, id, nil, contentMergePatch, bytes.NewReader(body), e...)
		},
		delete: func(ctx context.Context, c client, id string, e ...edit) (*http.Response, error) {
			return c.DeleteNamespace(ctx, id, nil, e...)
		},
		assign: func(ctx context.Context, c client, cluster, id string, _ []byte, e ...edit) (*http.Response, error) {
			return c.AssignNamespace(ctx, cluster, id, nil, e...)
		},
		unassign: func(ctx context.Context, c client, cluster, id string, e ...edit) (*http.Response, error) {
			return c.UnassignNamespace(ctx, cluster, id, nil, e...)
		},
	},
}

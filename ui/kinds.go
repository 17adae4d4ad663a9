package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// kind describes a kind of document. Links, titles, definitions and the search follow from it.
type kind struct {
	name        string // in the API, such as rolebinding
	list        string // the polled list, which is also the address of its definitions; empty: none
	title       string // of the list
	section     string // the section with a page for each document; empty: the page of definitions
	get         func(ctx context.Context, fleet *client.Client, id string, revision *int64) (*http.Response, error)
	listAll     func(ctx context.Context, fleet *client.Client) (*http.Response, error) // nil unless the page of definitions lists it
	serviceOnly bool                                                                    // only the service uses it: clusters do not poll it, and the page does not delete it
	admin       bool                                                                    // only administrators may read it
	columns     []column                                                                // of its table; none: the page of definitions shows only ids
	sortedBy    string                                                                  // field of the column that the table is sorted by at first, descending with "-"; empty: by the name
}

// column is a column of a table of documents: a field of the API's document.
type column struct{ Title, Field string }

// componentList is the list of components that clusters poll.
const componentList = "platform-components"

// policyList is the list of policies.
const policyList = "change-policies"

// maxListedTokens is the number of tokens that are listed and searched: each cluster may have one.
const maxListedTokens = 1000

// expirySoon is the number of days before the end of a token in which the page points to it.
const expirySoon = 30

// kinds are all kinds except resources, which have one kind for each resource type: resourceKind.
var kinds = []kind{
	{
		name: client.KindCluster, section: "clusters",
		get: func(ctx context.Context, fleet *client.Client, id string, revision *int64) (*http.Response, error) {
			return fleet.GetCluster(ctx, id, &api.GetClusterParams{Revision: revision})
		},
	},
	{
		name: client.KindPlatformComponent, list: componentList, title: "Components", section: "components",
		get: func(ctx context.Context, fleet *client.Client, id string, revision *int64) (*http.Response, error) {
			return fleet.GetPlatformComponent(ctx, id, &api.GetPlatformComponentParams{Revision: revision})
		},
	},
	{
		name: client.KindLayer, section: "layers",
		get: func(ctx context.Context, fleet *client.Client, id string, revision *int64) (*http.Response, error) {
			return fleet.GetLayer(ctx, id, &api.GetLayerParams{Revision: revision})
		},
	},
	{
		name: client.KindNamespace, list: "namespaces", title: "Namespaces",
		get: func(ctx context.Context, fleet *client.Client, id string, revision *int64) (*http.Response, error) {
			return fleet.GetNamespace(ctx, id, &api.GetNamespaceParams{Revision: revision})
		},
		listAll: func(ctx context.Context, fleet *client.Client) (*http.Response, error) {
			return fleet.ListNamespaces(ctx, nil)
		},
	},
	{
		name: client.KindRoleBinding, list: "rolebindings", title: "Role bindings",
		get: func(ctx context.Context, fleet *client.Client, id string, revision *int64) (*http.Response, error) {
			return fleet.GetRoleBinding(ctx, id, &api.GetRoleBindingParams{Revision: revision})
		},
		listAll: func(ctx context.Context, fleet *client.Client) (*http.Response, error) {
			return fleet.ListRoleBindings(ctx, nil)
		},
	},
	{
		name: client.KindResourceType, list: "resource-types", title: "Resource types",
		get: func(ctx context.Context, fleet *client.Client, id string, revision *int64) (*http.Response, error) {
			return fleet.GetResourceType(ctx, id, &api.GetResourceTypeParams{Revision: revision})
		},
		listAll: func(ctx context.Context, fleet *client.Client) (*http.Response, error) {
			return fleet.ListResourceTypes(ctx, nil)
		},
	},
	{
		name: kindFreeze, list: "freezes", title: "Freezes", serviceOnly: true,
		columns: []column{{"State", "state"}, {"Clusters", "selector"}, {"Frozen now", "frozen"}, {"Until", "until"}, {"Reason", "reason"}}, sortedBy: "state",
		get: func(ctx context.Context, fleet *client.Client, id string, _ *int64) (*http.Response, error) {
			return fleet.GetFreeze(ctx, id, nil)
		},
		listAll: func(ctx context.Context, fleet *client.Client) (*http.Response, error) {
			return fleet.ListFreezes(ctx, nil)
		},
	},
	{
		name: "strategy", list: "strategies", title: "Strategies", serviceOnly: true,
		columns: []column{{"Description", "description"}, {"Changed", "updated_at"}},
		get: func(ctx context.Context, fleet *client.Client, id string, _ *int64) (*http.Response, error) {
			return fleet.GetStrategy(ctx, id, nil)
		},
		listAll: func(ctx context.Context, fleet *client.Client) (*http.Response, error) {
			return fleet.ListStrategies(ctx, nil)
		},
	},
	{
		name: client.KindPolicy, list: policyList, title: "Policies", serviceOnly: true,
		columns: []column{{"Action", "action"}, {"Suspended", "suspended"}, {"Description", "description"}, {"Changed", "updated_at"}},
		get: func(ctx context.Context, fleet *client.Client, id string, _ *int64) (*http.Response, error) {
			return fleet.GetPolicy(ctx, id, nil)
		},
		listAll: func(ctx context.Context, fleet *client.Client) (*http.Response, error) {
			return fleet.ListPolicies(ctx, nil)
		},
	},
	{
		name: "access", list: "access", title: "Access", serviceOnly: true, admin: true,
		columns: []column{{"Subjects", "subjects"}, {"May", "may"}, {"On", "on"}, {"Expires", "expires_at"}, {"Description", "description"}},
		get: func(ctx context.Context, fleet *client.Client, id string, _ *int64) (*http.Response, error) {
			return fleet.GetAccess(ctx, id, nil)
		},
		listAll: func(ctx context.Context, fleet *client.Client) (*http.Response, error) {
			return fleet.ListAccess(ctx, nil)
		},
	},
	{
		name: "webhook", list: "webhooks", title: "Webhooks", serviceOnly: true, admin: true,
		get: func(ctx context.Context, fleet *client.Client, id string, _ *int64) (*http.Response, error) {
			return fleet.GetWebhook(ctx, id, nil)
		},
		listAll: func(ctx context.Context, fleet *client.Client) (*http.Response, error) {
			return fleet.ListWebhooks(ctx, nil)
		},
	},
	{
		name: client.KindSource, list: "sources", title: "Sources", serviceOnly: true, admin: true,
		get: func(ctx context.Context, fleet *client.Client, id string, _ *int64) (*http.Response, error) {
			return fleet.GetSource(ctx, id, nil)
		},
		listAll: func(ctx context.Context, fleet *client.Client) (*http.Response, error) {
			return fleet.ListSources(ctx, nil)
		},
	},
	{
		name: kindToken, list: "tokens", title: "Tokens", serviceOnly: true, admin: true,
		columns: []column{{"Role", "role"}, {"Cluster", "cluster_id"}, {"Expires", "expires_at"}, {"Last use", "last_used_at"}, {"Created", "created_at"}, {"Description", "description"}}, sortedBy: "expires_at",
		get: func(ctx context.Context, fleet *client.Client, id string, _ *int64) (*http.Response, error) {
			return fleet.GetToken(ctx, id, nil)
		},
		listAll: func(ctx context.Context, fleet *client.Client) (*http.Response, error) {
			return fleet.ListTokens(ctx, &api.ListTokensParams{Limit: new(maxListedTokens)})
		},
	},
}

// resourceKind returns the kind of the resources of a resource type. Its list has the name of the type.
func resourceKind(typeID string) kind {
	return kind{
		name: client.KindResource + "/" + typeID, list: typeID, title: strings.ToUpper(typeID[:min(1, len(typeID))]) + strings.ReplaceAll(typeID[min(1, len(typeID)):], "-", " "),
		get: func(ctx context.Context, fleet *client.Client, id string, revision *int64) (*http.Response, error) {
			return fleet.GetResource(ctx, typeID, id, &api.GetResourceParams{Revision: revision})
		},
		listAll: func(ctx context.Context, fleet *client.Client) (*http.Response, error) {
			return fleet.ListResources(ctx, typeID, nil)
		},
	}
}

// kindNamed returns the kind with a name of the API; false for kinds without pages, such as tokens.
func kindNamed(name string) (kind, bool) {
	for _, k := range kinds {
		if k.name == name {
			return k, true
		}
	}
	typeID, ok := strings.CutPrefix(name, client.KindResource+"/")
	return resourceKind(typeID), ok
}

// kindOfList returns the kind of the definitions in a list.
func kindOfList(list string) kind {
	for _, k := range kinds {
		if k.list == list {
			return k
		}
	}
	return resourceKind(list)
}

// page returns the address of a document's page, without the base path.
func (k kind) page(id string) string {
	if k.section == "" {
		return link("definitions", k.list, id)
	}
	return link(k.section, id)
}

// namedID is the id of a document, and for tokens its name.
type namedID struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Text returns the name, or else the id.
func (n namedID) Text() string { return cmp.Or(n.Name, n.ID) }

// ids returns the ids of all documents of the kind, in the order of the API: sorted.
func (k kind) ids(ctx context.Context, fleet *client.Client) (ids []namedID, err error) {
	rsp, err := k.listAll(ctx, fleet)
	if err != nil {
		return nil, err
	}
	defer rsp.Body.Close()
	return ids, json.NewDecoder(rsp.Body).Decode(&ids)
}

// linkTo returns the page of a document, or its history for kinds without pages.
func linkTo(name, id string) string {
	if name == kindRollout {
		return link("rollouts", id)
	}
	if k, ok := kindNamed(name); ok {
		return k.page(id)
	}
	return historyLink(name, id)
}

// listTitle returns the title of a list that clusters poll.
func listTitle(list string) string { return kindOfList(list).title }

// kindFreeze is the kind of freezes in the API.
const kindFreeze = "freeze"

// kindToken is the kind of tokens in the API.
const kindToken = "token"

// kindRollout is the kind of rollouts in the API.
const kindRollout = "rollout"

// freezeAll is the name of the freeze of all clusters, as the command line names it.
const freezeAll = "all"

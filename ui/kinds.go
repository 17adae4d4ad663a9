package ui

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
)

// kind describes a kind of document. Links, titles, definitions and the search follow from it.
type kind struct {
	name        string   // in the API, such as rolebinding
	path        string   // of its documents in the API
	query       string   // of the request for all documents
	list        string   // the polled list, which is also the address of its definitions; empty: none
	title       string   // of the list
	section     string   // the section with a page for each document; empty: the page of definitions, which lists it
	serviceOnly bool     // only the service uses it: clusters do not poll it, it cannot be read at a revision, and the page does not delete it
	admin       bool     // only administrators may read it
	columns     []column // of its table; none: the page of definitions shows only ids
	sortedBy    string   // field of the column that the table is sorted by at first, descending with "-"; empty: by the name
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
	{name: client.KindCluster, path: "/clusters", section: "clusters"},
	{name: client.KindPlatformComponent, path: "/platform_components", list: componentList, title: "Components", section: "components"},
	{name: client.KindLayer, path: "/layers", section: "layers"},
	{name: client.KindNamespace, path: "/namespaces", list: "namespaces", title: "Namespaces"},
	{name: client.KindRoleBinding, path: "/rolebindings", list: "rolebindings", title: "Role bindings"},
	{name: client.KindResourceType, path: "/resource_types", list: "resource-types", title: "Resource types"},
	{
		name: client.KindFreeze, path: "/freezes", list: "freezes", title: "Freezes", serviceOnly: true, sortedBy: "state",
		columns: []column{{"State", "state"}, {"Clusters", "selector"}, {"Frozen now", "frozen"}, {"Until", "until"}, {"Reason", "reason"}},
	},
	{
		name: client.KindStrategy, path: "/strategies", list: "strategies", title: "Strategies", serviceOnly: true,
		columns: []column{{"Description", "description"}, {"Changed", "updated_at"}},
	},
	{
		name: client.KindPolicy, path: "/policies", list: policyList, title: "Policies", serviceOnly: true,
		columns: []column{{"Action", "action"}, {"Suspended", "suspended"}, {"Description", "description"}, {"Changed", "updated_at"}},
	},
	{
		name: client.KindAccess, path: "/access", list: "access", title: "Access", serviceOnly: true, admin: true,
		columns: []column{{"Subjects", "subjects"}, {"May", "may"}, {"On", "on"}, {"Expires", "expires_at"}, {"Description", "description"}},
	},
	{name: client.KindWebhook, path: "/webhooks", list: "webhooks", title: "Webhooks", serviceOnly: true, admin: true},
	{name: client.KindSource, path: "/sources", list: "sources", title: "Sources", serviceOnly: true, admin: true},
	{
		name: kindToken, path: "/tokens", query: "limit=" + strconv.Itoa(maxListedTokens), list: "tokens", title: "Tokens", serviceOnly: true, admin: true, sortedBy: "expires_at",
		columns: []column{{"Role", "role"}, {"Cluster", "cluster_id"}, {"Expires", "expires_at"}, {"Last use", "last_used_at"}, {"Created", "created_at"}, {"Description", "description"}},
	},
}

// resourceKind returns the kind of the resources of a resource type. Its list has the name of the type.
func resourceKind(typeID string) kind {
	first, rest := typeID[:min(1, len(typeID))], typeID[min(1, len(typeID)):]
	return kind{name: client.KindResource + "/" + typeID, path: "/resources/" + url.PathEscape(typeID), list: typeID, title: strings.ToUpper(first) + strings.ReplaceAll(rest, "-", " ")}
}

// kindNamed returns the kind with a name of the API; false for kinds without pages, such as tokens.
func kindNamed(name string) (kind, bool) {
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name }); i >= 0 {
		return kinds[i], true
	}
	typeID, ok := strings.CutPrefix(name, client.KindResource+"/")
	return resourceKind(typeID), ok
}

// kindOfList returns the kind of the definitions in a list.
func kindOfList(list string) kind {
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.list == list }); i >= 0 {
		return kinds[i]
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

// crumbs returns the links to the section and to the page of a document.
func (k kind) crumbs(id string) []pageLink {
	section := cmp.Or(k.section, "definitions")
	return []pageLink{{strings.ToUpper(section[:1]) + section[1:], link(section)}, {id, k.page(id)}}
}

// namedID is the id of a document, and for tokens its name.
type namedID struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Text returns the name, or else the id.
func (n namedID) Text() string { return cmp.Or(n.Name, n.ID) }

// readAll decodes all documents of the kind, with numbers as they are written, in the order of the API: sorted.
func (k kind) readAll(req *pageRequest, to any) error {
	rsp, err := req.get(k.path, k.query)
	if err != nil {
		return err
	}
	defer rsp.Body.Close()
	decoder := json.NewDecoder(rsp.Body)
	decoder.UseNumber()
	return decoder.Decode(to)
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

// Kinds of the API that the client does not name.
const (
	kindToken   = "token"
	kindRollout = "rollout"
)

// freezeAll is the name of the freeze of all clusters, as the command line names it.
const freezeAll = "all"

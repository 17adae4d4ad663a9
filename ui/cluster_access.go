package ui

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// clusterAccessView shows who may change a cluster.
type clusterAccessView struct {
	frame
	Cluster string
	// Direct are the access documents that permit changes of the cluster's own document, Through those that permit changes of what it is
	// served by other documents: layers, components and definitions.
	Direct, Through []documentRow
	Columns         []column
	Tokens          []documentRow // of roles that may change everything
	Command         string
}

// permitsServed reports whether limits include documents other than clusters that determine what clusters are served.
func permitsServed(on *api.AccessScope) bool {
	return client.InLimits(on, client.KindResource, "") || client.InLimits(on, kindRollout, "") || slices.ContainsFunc(kinds, func(k kind) bool {
		return !k.serviceOnly && k.name != client.KindCluster && client.InLimits(on, k.name, "")
	})
}

// showClusterAccess shows the access documents whose rights and limits permit changes of a cluster, and the tokens of roles that may change
// everything. The API decides about each change: see the command on the page.
func showClusterAccess(req *pageRequest) error {
	if !req.may("admin") {
		return errNotAdmin
	}
	id := req.r.PathValue("id")
	if _, err := req.fleet.GetClusterWithResponse(req.r.Context(), id, nil); err != nil {
		return err
	}
	k, _ := kindNamed("access")
	rows, err := k.documents(req)
	if err != nil {
		return err
	}
	list, err := req.fleet.ListAccessWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	view := clusterAccessView{Cluster: id, Columns: k.columns, Command: "frs auth can-i write cluster/" + summarize.ShellWord(id) + " --as token:NAME"}
	selected := map[string]bool{"": true}
	for _, a := range *list.JSON200 {
		at := slices.IndexFunc(rows, func(r documentRow) bool { return r.ID == a.ID })
		if at < 0 || a.ExpiresAt != nil && !a.ExpiresAt.After(req.page.cfg.Now()) || !slices.ContainsFunc(a.May, func(right api.Right) bool { return right == "admin" || slices.Contains(changing, right) }) {
			continue
		}
		if a.On != nil {
			if _, known := selected[a.On.Selector]; !known {
				selected[a.On.Selector], _ = req.selected(a.On.Selector, id)
			}
			if !selected[a.On.Selector] {
				continue
			}
		}
		switch {
		case client.InLimits(a.On, client.KindCluster, id):
			view.Direct = append(view.Direct, rows[at])
		case permitsServed(a.On):
			view.Through = append(view.Through, rows[at])
		}
	}
	tokens, _ := kindNamed("token")
	if rows, err = tokens.documents(req); err != nil {
		return err
	}
	role := slices.IndexFunc(tokens.columns, func(c column) bool { return c.Field == "role" })
	for _, row := range rows {
		if slices.Contains([]string{"write", "admin"}, row.Cells[role].Text) {
			view.Tokens = append(view.Tokens, row)
		}
	}
	return req.show("cluster_access", "Who may change "+id, "clusters", &view)
}

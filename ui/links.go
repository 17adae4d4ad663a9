package ui

import (
	"net/url"
	"strconv"
	"strings"
)

// address returns the address of a page with the parameters that are not empty.
func address(path string, query map[string]string) string {
	return strings.TrimSuffix(path+"?"+parameters(query).Encode(), "?")
}

// parameters returns the query of the values that are not empty.
func parameters(values map[string]string) url.Values {
	out := url.Values{}
	for name, value := range values {
		if value != "" {
			out.Set(name, value)
		}
	}
	return out
}

// addressWith returns the address of this page with a parameter.
func (req *pageRequest) addressWith(name, value string) string {
	page, query := *req.r.URL, req.r.URL.Query()
	query.Set(name, value)
	page.RawQuery = query.Encode()
	return page.RequestURI()
}

// stopLink returns the address of the form that stops an environment; empty: all clusters.
func stopLink(environment string) string {
	return address(prefix+"/freezes/create-all", map[string]string{"environment": environment})
}

type pageLink struct{ Text, Link string }

// historyLink returns the address of the list of revisions of a document.
func historyLink(kind, id string) string {
	return address(prefix+"/changes", map[string]string{"kind": kind, "id": id})
}

// anyLayer stands for all layers of a cluster and the catalog.
const anyLayer = "*"

// compareLink returns the address of the comparison of a cluster with a layer, or of the form if layer is empty.
func compareLink(cluster, layer string) string {
	return address(prefix+"/compare", map[string]string{"left": cluster, "layer": layer})
}

// compareRevisionLink returns the address of the comparison of a cluster before a revision with after it.
func compareRevisionLink(cluster string, revision int64) string {
	return address(prefix+"/compare", map[string]string{
		"left": cluster, "left_revision": strconv.FormatInt(revision-1, 10), "right_revision": strconv.FormatInt(revision, 10),
	})
}

package ui

import (
	"net/url"
	"strconv"
)

// stopLink returns the address of the form that stops an environment; empty: all clusters.
func stopLink(environment string) string {
	if environment == "" {
		return prefix + "/freezes/create-all"
	}
	return prefix + "/freezes/create-all?" + url.Values{"environment": {environment}}.Encode()
}

type pageLink struct{ Text, Link string }

// historyLink returns the address of the list of revisions of a document.
func historyLink(kind, id string) string {
	return prefix + "/changes?" + url.Values{"kind": {kind}, "id": {id}}.Encode()
}

// anyLayer stands for all layers of a cluster and the catalog.
const anyLayer = "*"

// compareLink returns the address of the comparison of a cluster with a layer, or of the form if layer is empty.
func compareLink(cluster, layer string) string {
	query := url.Values{"left": {cluster}}
	if layer != "" {
		query.Set("layer", layer)
	}
	return prefix + "/compare?" + query.Encode()
}

// compareRevisionLink returns the address of the comparison of a cluster before a revision with after it.
func compareRevisionLink(cluster string, revision int64) string {
	return prefix + "/compare?" + url.Values{
		"left": {cluster}, "left_revision": {strconv.FormatInt(revision-1, 10)}, "right_revision": {strconv.FormatInt(revision, 10)},
	}.Encode()
}

// Package charts embeds what every cluster applies, so that the service renders exactly what is shipped, and the CLI prints it.
package charts

import "embed"

//go:embed flux-resourceset-cluster/files/*.yaml
var files embed.FS

// ResourceSet returns the ResourceSet of chart flux-resourceset-cluster for a polled list, as YAML; empty if the chart has none for it.
func ResourceSet(list string) string {
	text, err := files.ReadFile("flux-resourceset-cluster/files/" + list + ".yaml")
	if err != nil { // fs.ErrNotExist: nothing else can fail in embedded files
		return ""
	}
	return string(text)
}

// Receipt is the template that those begin with, for the ResourceSets of resource types: it makes a receipt.
//
//go:embed flux-resourceset-cluster/files/receipt.tpl
var Receipt string

// Manifests are what chart flux-resourceset-cluster installs, without Helm, for a cluster whose names are still the
// placeholders ${CLUSTER_DNS} and ${INTERNAL_API_URL}.
//
//go:embed manifests/cluster.yaml
var Manifests string

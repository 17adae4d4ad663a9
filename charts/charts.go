// Package charts embeds what every cluster applies, so that the CLI renders exactly what is shipped.
package charts

import _ "embed"

// The ResourceSets of chart flux-resourceset-cluster, one YAML document each.
var (
	//go:embed flux-resourceset-cluster/files/platform-components.yaml
	PlatformComponents string
	//go:embed flux-resourceset-cluster/files/namespaces.yaml
	Namespaces string
	//go:embed flux-resourceset-cluster/files/rolebindings.yaml
	RoleBindings string
)

// Receipt is the template that those begin with, for the ResourceSets of resource types: it makes a receipt.
//
//go:embed flux-resourceset-cluster/files/receipt.tpl
var Receipt string

// Manifests are what chart flux-resourceset-cluster installs, without Helm, for a cluster whose names are still the
// placeholders ${CLUSTER_DNS} and ${INTERNAL_API_URL}.
//
//go:embed manifests/cluster.yaml
var Manifests string

// Package fleetview formats what the API returns about the fleet: the description of a cluster, the states of clusters, inputs and
// versions, the sources and managers of values, and the usage of components.
//
// Input are models of the API, output are texts and tables. It sends no requests, and knows kinds by their names only:
//
//	api.ClusterSummary, InputStatus, VersionStatus, ComponentVariant --> render.View --> rows
//	api.Explanation, OwnedPatches ---------------------------------> render.Output
//	api.Cluster, Explanation, RevisionSummary --> Description ------> text
package fleetview

// KindName returns the command line's name of a kind of the API, such as component for platform_component.
type KindName func(kind string) string

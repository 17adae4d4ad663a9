// Package history answers where the inputs of a cluster come from, and when they changed. It reads former versions of documents from
// the log, and compares them with the functions that answer polls.
//
//   - explain.go: the document that sets a value of an input, and those that it overrides. blame.go: the revision that set it.
//   - served.go: the revisions that changed what clusters are served, in pages. cluster.go and component.go walk back through them for
//     a cluster, and for a component on all clusters.
package history

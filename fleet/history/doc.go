// Package history finds the documents and revisions that set the inputs of a cluster, and the revisions that changed these inputs. It
// reads former versions of documents from the log, and compares the inputs that the functions for polls compute from them.
//
//   - explain.go: the document that sets a value of an input, and those that it overrides. blame.go: the revision that set it.
//   - served.go: the revisions that changed what clusters are served, in pages. cluster.go and component.go walk back through them for
//     a cluster, and for a component on all clusters.
package history

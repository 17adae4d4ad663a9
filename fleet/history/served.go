package history

import (
	"context"
	"fmt"
	"runtime"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// ServedRevision is a revision that changed a document, or inputs of clusters that depend on it.
type ServedRevision struct {
	Revision fleet.Revision
	// Effect on the polls of the cluster, or on the input of the component, by list, as in a plan; empty: none. The input of
	// a component may change in several ways; only the first of them are included, see [fleet.ServedEffect].
	Effect map[string]api.EndpointEffect
	// Clusters is the number of clusters on which the input of the component changed; 0 in the history of a cluster.
	Clusters int
}

// Page is a page of such revisions, newest first.
type Page struct {
	Revisions []ServedRevision
	Next      fleet.Revision // the next page has the revisions before this one; 0: this is the last page
}

const (
	servedBatch    = 100      // revisions that are read from the log at once
	servedScan     = 1000     // revisions that are compared for one page
	servedLog      = 16 << 20 // bytes of documents that are read from the log for one page
	servedClusters = 100_000  // inputs of clusters that are compared for one page
	servedBytes    = 4 << 20  // bytes of differences in one page
)

// servedPast walks back through the changes of the documents that some inputs depend on.
type servedPast interface {
	// documents returns the documents whose changes must be read. It may return more of them after a step.
	documents() []fleet.DocumentName
	// stepBack reverses the changes of one revision, and returns their effect.
	stepBack(changes []fleet.DocumentChange) (servedStep, error)
}

// servedStep is the effect of one revision.
type servedStep struct {
	fleet.ServedEffect
	own bool // the document itself changed
}

// Served lists the revisions before a given one that changed a document or inputs that depend on it. For a cluster
// these are all its inputs: they change with its own document, layers, definitions and resource types. For a platform
// component it is its input on any cluster: it changes with its own document, those that it depends on, layers and clusters.
// Other kinds have no such history.
//
// It walks back through the changes of the documents that the inputs depend on, and computes the inputs before and after
// each. A page ends early at the limits above, so it may even be empty and have a next one. It ends with ctx.
func Served(ctx context.Context, st *fleet.State, of fleet.DocumentName, before fleet.Revision, limit int, from fleet.DocumentHistory) (Page, error) {
	var out Page
	past, err := newServedPast(ctx, st, of, before-1, from)
	if err != nil {
		return out, err
	}
	scanned, read, compared, size := 0, 0, 0, 0
	for {
		documents := past.documents()
		log, err := from.DocumentLog(fleet.DocumentLogQuery{Documents: documents, Before: before, Limit: servedBatch})
		if err != nil || len(log.Changes) == 0 {
			return out, err
		}
		for _, changes := range revisions(log) {
			runtime.Gosched() // polls go first
			if err := context.Cause(ctx); err != nil {
				return out, err
			}
			step, err := past.stepBack(changes)
			if err != nil {
				return out, err
			}
			for _, ch := range changes {
				read += len(ch.Before) + len(ch.After)
			}
			before, scanned, compared, size = changes[0].Revision, scanned+1, compared+step.Compared, size+step.Size
			if step.own || len(step.Effect) > 0 {
				out.Revisions = append(out.Revisions, ServedRevision{before, step.Effect, step.Clusters})
			}
			if len(out.Revisions) == limit || scanned == servedScan || read > servedLog || compared > servedClusters || size > servedBytes {
				if before > log.Oldest {
					out.Next = before
				}
				return out, nil
			}
			if len(past.documents()) > len(documents) {
				break // the log has changes of more documents
			}
		}
	}
}

// newServedPast returns the past of a document, starting after revision at. CodeInvalid for kinds without one.
func newServedPast(ctx context.Context, st *fleet.State, of fleet.DocumentName, at fleet.Revision, log fleet.DocumentHistory) (servedPast, error) {
	switch of.Kind { //nolint:exhaustive // the other kinds have no such history
	case fleet.KindCluster:
		p := &clusterPast{newest: st, log: log, cluster: of.ID, watched: map[fleet.DocumentName]bool{}, comparison: fleet.NewComparison(ctx)}
		return p, p.start(at)
	case fleet.KindComponent:
		p := &componentPast{component: of.ID, view: st, pending: fleet.Documents{}, comparison: fleet.NewComparison(ctx)}
		return p, p.start(at, log)
	}
	return nil, &fleet.Error{Code: fleet.CodeInvalid, Detail: fmt.Sprintf("a %s has no history of served inputs", of.Kind)}
}

// revisions groups the changes of a page by revision, in the order of the page.
func revisions(log fleet.DocumentLog) (all [][]fleet.DocumentChange) {
	begin := 0
	for i := range log.Changes {
		if end := i + 1; end == len(log.Changes) || log.Changes[end].Revision != log.Changes[i].Revision {
			all, begin = append(all, log.Changes[begin:end]), end
		}
	}
	return all
}

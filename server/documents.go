package server

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// The operations that all kinds of documents have in common. The handlers of a kind only name the kind.

func listDocuments(c echo.Context, docs []*fleet.Document, limit, offset *int) error {
	return listViews(c, docs, limit, offset, (*fleet.Document).View)
}

// listViews answers with a page of documents, each converted by view.
func listViews(c echo.Context, docs []*fleet.Document, limit, offset *int, view func(*fleet.Document) any) error {
	docs = response.Page(c, docs, limit, offset)
	return streamList(c, response.List{N: len(docs), Item: func(i int) any { return view(docs[i]) }})
}

// listKind answers with a page of all documents of a kind.
func (s *Server) listKind(c echo.Context, kind fleet.Kind, limit, offset *int) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	return listViews(c, st.All(kind), limit, offset, func(d *fleet.Document) any { return s.viewOf(st, d) })
}

// find returns a document, and the State for a read.
func (s *Server) find(c echo.Context, kind fleet.Kind, id string) (*fleet.State, *fleet.Document, error) {
	st, err := s.state(c)
	if err != nil {
		return nil, nil, err
	}
	doc, err := st.Find(kind, id)
	return st, doc, err
}

// getViewed answers with a document whose view depends on more than the document.
func (s *Server) getViewed(c echo.Context, kind fleet.Kind, id string) error {
	st, doc, err := s.find(c, kind, id)
	if err != nil {
		return err
	}
	c.Response().Header().Set(response.HeaderETag, doc.ETag())
	return response.WriteJSON(c, http.StatusOK, s.viewOf(st, doc))
}

func (s *Server) getDocument(c echo.Context, kind fleet.Kind, id string, p readParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	if p.revision != nil {
		return s.asOf(c, kind, id, *p.revision)
	}
	doc, err := st.Find(kind, id)
	if err != nil {
		return err
	}
	nameManager(c, st, doc)
	return writeUnlessMatch(c, p.ifNoneMatch, doc.ETag(), doc.View)
}

// readParams are the parameters of all reads of a document.
type readParams struct {
	ifNoneMatch *string
	revision    *int64 // read the document at this revision
}

// writeParams are the parameters of all writes.
type writeParams struct {
	ifMatch  *string
	dryRun   *bool
	reason   *string
	planHash *string
}

// update commits a change of one document and answers with the new document.
func (s *Server) update(c echo.Context, kind fleet.Kind, id string, p writeParams, change func(*fleet.Tx) error) error {
	res, err := s.commit(c, kind, id, p, change)
	if err != nil {
		return err
	}
	doc, err := res.State.Find(kind, id)
	if err != nil {
		return err
	}
	c.Response().Header().Set(response.HeaderETag, doc.ETag())
	return response.WriteJSON(c, http.StatusOK, s.viewOf(res.State, doc))
}

// viewOf returns a document as the API shows it. Views of freezes and rollouts count clusters of the State.
func (s *Server) viewOf(st *fleet.State, doc *fleet.Document) any {
	switch doc.Kind {
	case fleet.KindFreeze:
		return st.FreezeView(doc, s.cfg.Now())
	case fleet.KindRollout:
		return st.RolloutView(doc)
	case fleet.KindWebhook:
		return s.webhookView(st, doc)
	case fleet.KindSource:
		return s.sourceView(st, doc)
	default:
		return doc.View()
	}
}

// changeMeta returns the part of a request that is kept in the log.
func changeMeta(c echo.Context, reason string, dryRun *bool) store.Meta {
	return store.Meta{
		Author: c.Request().Header.Get(response.HeaderChangeAuthor), Reason: reason,
		RequestID: requestID(c), DryRun: value(dryRun),
	}
}

// guardOf returns the removals that a request allows, and the freezes, sources and policies that it overrides.
func guardOf(c echo.Context, planHash string) fleet.Guard {
	g := fleet.Guard{PlanHash: planHash}
	lines, given := c.Request().Header[response.HeaderRemovesFrom]
	g.Careful = given
	g.RemovesFrom = splitNames(lines)
	g.OverrideFreezes = splitNames(c.Request().Header[response.HeaderOverrideFreeze])
	g.OverrideSources = splitNames(c.Request().Header[response.HeaderOverrideSource])
	g.OverridePolicies = splitNames(c.Request().Header[response.HeaderOverridePolicy])
	return g
}

// splitNames returns the names in the lines of a header.
func splitNames(lines []string) (names []string) {
	for name := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

// commit commits a change under If-Match and sets the headers of every write.
func (s *Server) commit(c echo.Context, kind fleet.Kind, id string, p writeParams, change func(*fleet.Tx) error) (fleet.Result, error) {
	if err := rejectEmptyIfMatch(c); err != nil {
		return fleet.Result{}, err
	}
	meta := changeMeta(c, value(p.reason), p.dryRun)
	meta.Urgent = kind == fleet.KindFreeze
	res, err := s.transact(c, meta, func(tx *fleet.Tx) error {
		tx.Guard(guardOf(c, value(p.planHash)))
		tx.UseContext(requestOf(c).job.Context())
		if err := tx.Match(kind, id, value(p.ifMatch)); err != nil {
			return err
		}
		return change(tx)
	})
	if err != nil {
		return res, err
	}
	revision := res.State.Revision()
	if meta.DryRun && len(res.Commit.Changes) > 0 {
		revision-- // a dry run leaves the fleet at its revision
	}
	c.Response().Header().Set(response.HeaderRevision, response.FormatRevision(revision))
	s.metrics.stored.Add(float64(res.Stored))
	response.AddWarnings(c, res.Warnings)
	return res, nil
}

func (s *Server) createDocument(c echo.Context, kind fleet.Kind, p writeParams) error {
	body, err := requestOf(c).body.Object()
	if err != nil {
		return err
	}
	return s.createDocumentBy(c, kind, p, func(tx *fleet.Tx) (*fleet.Document, error) { return tx.CreateObject(kind, body) })
}

// createDocumentBy commits the creation of a document and answers with it.
func (s *Server) createDocumentBy(c echo.Context, kind fleet.Kind, p writeParams, create func(*fleet.Tx) (*fleet.Document, error)) error {
	var id string
	res, err := s.commit(c, kind, "", p, func(tx *fleet.Tx) error {
		doc, err := create(tx)
		if err == nil {
			id = doc.ID
		}
		return err
	})
	if err != nil {
		return err
	}
	doc, err := res.State.Find(kind, id)
	if err != nil {
		return err
	}
	if value(p.dryRun) {
		return response.WriteJSON(c, http.StatusOK, s.viewOf(res.State, doc))
	}
	c.Response().Header().Set(response.HeaderETag, doc.ETag())
	c.Response().Header().Set(echo.HeaderLocation, "/"+kind.Collection()+"/"+id)
	return response.WriteJSON(c, http.StatusCreated, s.viewOf(res.State, doc))
}

func (s *Server) putDocument(c echo.Context, kind fleet.Kind, id string, p writeParams, force bool) error {
	body, err := requestOf(c).body.Object()
	if err != nil {
		return err
	}
	return s.update(c, kind, id, p, func(tx *fleet.Tx) error {
		tx.Force(force)
		_, err := tx.PutObject(kind, id, body)
		return err
	})
}

func (s *Server) patchDocument(c echo.Context, kind fleet.Kind, id string, p writeParams, force bool) error {
	body, err := requestOf(c).body.Object()
	if err != nil {
		return err
	}
	return s.update(c, kind, id, p, func(tx *fleet.Tx) error {
		tx.Force(force)
		_, err := tx.PatchObject(kind, id, body)
		return err
	})
}

func (s *Server) deleteDocument(c echo.Context, kind fleet.Kind, id string, p writeParams, opt fleet.DeleteOptions) error {
	var deleted *fleet.Document
	res, err := s.commit(c, kind, id, p, func(tx *fleet.Tx) error {
		var err error
		deleted, err = tx.Delete(kind, id, opt)
		return err
	})
	if err != nil {
		return err
	}
	return response.WriteJSON(c, http.StatusOK, s.viewOf(res.State, deleted))
}

// assign and unassign change one entry in one of a cluster's lists.
func (s *Server) assign(c echo.Context, cluster string, kind fleet.Kind, id string, p writeParams) error {
	return s.update(c, fleet.KindCluster, cluster, p, func(tx *fleet.Tx) error {
		_, err := tx.Assign(cluster, kind, id, requestBody(c))
		return err
	})
}

func (s *Server) unassign(c echo.Context, cluster string, kind fleet.Kind, id string, p writeParams) error {
	return s.update(c, fleet.KindCluster, cluster, p, func(tx *fleet.Tx) error {
		_, err := tx.Unassign(cluster, kind, id)
		return err
	})
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

const (
	maxDriftedShown = 100
	maxHeaderFile   = 512 // bytes of the name of a file, which its publisher chooses, in a header
)

var (
	errNoArtifactReader = &fleet.Error{Code: fleet.CodeConflict, Detail: "this server reads no artifacts"}
	errSuspendedSource  = &fleet.Error{Code: fleet.CodeConflict, Detail: "the source is suspended: resume it first"}
)

var descSourceStopped = desc("source_stopped", "1 while an artifact of a source is held, or cannot be read by this process; absent while it is suspended.", "source")

// collectSources reports the sources whose artifacts are not applied.
func (s *Server) collectSources(st *fleet.State, gauge func(*prometheus.Desc, float64, ...string)) {
	for _, doc := range st.All(fleet.KindSource) {
		check, stopped := s.sources.check(doc.ID), 0.0
		check.mu.Lock()
		record := st.SourceState(doc.ID)
		open := st.OpenRollout(record)
		if record.Held != nil || check.failed != "" || open != nil && fleet.PauseReason(open) != "" {
			stopped = 1
		}
		check.mu.Unlock()
		if !doc.Source().Suspended {
			gauge(descSourceStopped, stopped, doc.ID)
		}
	}
}

func (s *Server) ListSources(c echo.Context, p api.ListSourcesParams) error {
	return s.listKind(c, fleet.KindSource, p.Limit, p.Offset)
}

func (s *Server) GetSource(c echo.Context, id string, _ api.GetSourceParams) error {
	return s.getViewed(c, fleet.KindSource, id)
}

func (s *Server) CreateSource(c echo.Context, p api.CreateSourceParams) error {
	return s.createDocument(c, fleet.KindSource, writeParams{nil, p.DryRun, p.XChangeReason, nil})
}

func (s *Server) PatchSource(c echo.Context, id string, p api.PatchSourceParams) error {
	return s.patchDocument(c, fleet.KindSource, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, false)
}

func (s *Server) DeleteSource(c echo.Context, id string, p api.DeleteSourceParams) error {
	return s.deleteDocument(c, fleet.KindSource, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, fleet.DeleteOptions{})
}

func (s *Server) ApproveSource(c echo.Context, id string, p api.ApproveSourceParams) error {
	approval, err := decodeBody[api.SourceApproval](c)
	if err != nil {
		return err
	}
	return s.update(c, fleet.KindSource, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx) error {
		return tx.ApproveArtifact(id, approval.PlanHash, actor(c), s.commitTime())
	})
}

func (s *Server) ReconcileSource(c echo.Context, id string, _ api.ReconcileSourceParams) error {
	_, doc, err := s.find(c, fleet.KindSource, id)
	if err != nil {
		return err
	}
	switch wait := s.statusWait(); {
	case s.cfg.ArtifactReader == nil:
		return errNoArtifactReader
	case wait != "":
		return &fleet.Error{Code: fleet.CodeConflict, Detail: wait}
	case doc.Source().Suspended:
		return errSuspendedSource
	}
	check, ctx := s.sources.check(id), requestOf(c).job.Context()
	select {
	case check.running <- struct{}{}:
		defer func() { <-check.running }()
	case <-ctx.Done(): // the client is gone, or its time is over
		return ctx.Err()
	}
	err = s.followSource(ctx, id, check, true)
	st := s.cfg.Replica.State()
	if err != nil && st.SourceState(id).Held == nil && !check.isFailed() { // the status does not have it
		if refusal, ok := errors.AsType[*fleet.Error](err); ok {
			return &fleet.Error{Code: fleet.CodeConflict, Detail: "the artifact is not applied again: " + artifactMessage(refusal)}
		}
		return err
	}
	if doc, err = st.Find(fleet.KindSource, id); err != nil {
		return err
	}
	c.Response().Header().Set(response.HeaderRevision, response.FormatRevision(st.Revision()))
	c.Response().Header().Set(response.HeaderETag, doc.ETag())
	return response.WriteJSON(c, http.StatusOK, s.viewOf(st, doc))
}

// nameManager sets the header that names the source which manages a document.
func nameManager(c echo.Context, st *fleet.State, doc *fleet.Document) {
	source, file, managed := st.Manager(doc.Kind, doc.ID)
	if !managed {
		return
	}
	by := url.Values{"source": {source}, "file": {cut(file, maxHeaderFile)}}
	if st.IsDrifted(doc.Kind, doc.ID) {
		by.Set("drifted", "true")
	}
	c.Response().Header().Set(response.HeaderManagedBy, by.Encode())
}

// sourceView returns a source as the API shows it, with its status.
func (s *Server) sourceView(st *fleet.State, doc *fleet.Document) any {
	view := doc.View().(*api.Source)
	record, managed := st.SourceState(doc.ID), st.ManagedBy(doc.ID)
	status := api.SourceStatus{
		Digest: record.Digest, Tag: record.Tag, ArtifactRevision: record.Revision, ArtifactSource: record.Origin, AppliedAt: record.AppliedAt,
		Documents: len(managed), Drifted: []api.SourceDocument{},
	}
	for _, d := range managed {
		if d.Drifted && len(status.Drifted) < maxDriftedShown {
			status.Drifted = append(status.Drifted, api.SourceDocument{Kind: string(d.Kind), ID: d.ID, File: d.File})
		}
	}
	if held := record.Held; held != nil {
		status.Held = &api.HeldArtifact{
			Digest: held.Digest, ArtifactRevision: held.Revision, Code: string(held.Code), Message: s.masker.Tokens(held.Message), At: held.At, Approved: record.Approval != nil,
		}
		if held.Code == fleet.CodeConfirm || held.Code == fleet.CodePolicy {
			status.Held.PlanHash = held.PlanHash
		}
	}
	check := s.sources.check(doc.ID)
	check.mu.Lock()
	defer check.mu.Unlock()
	if !check.checkedAt.IsZero() {
		status.CheckedAt = new(check.checkedAt.UTC())
	}
	paused := ""
	if open := st.OpenRollout(record); open != nil {
		r := record.Rollout
		status.Rollout, paused = &api.SourceRollout{ID: r.ID, Digest: r.Digest, ArtifactRevision: r.Revision, Waiting: check.waiting}, fleet.PauseReason(open)
	}
	status.State, status.Message = sourceState(doc.Source(), status, check.failed, s.masker.Tokens(paused))
	view.Status = status
	return view
}

// sourceState returns the state of a source in one word, and its message. paused is why its rollout is paused.
func sourceState(source *fleet.Source, status api.SourceStatus, failed, paused string) (state, message string) {
	switch {
	case source.Suspended:
		return "suspended", ""
	case failed != "":
		return "failed", failed
	case status.Held != nil:
		return "held", status.Held.Message
	case paused != "":
		return "held", fmt.Sprintf("its rollout %q is paused: %s", status.Rollout.ID, paused)
	case status.Rollout != nil && status.Rollout.Waiting != "":
		return "progressing", fmt.Sprintf("the artifact %s waits until its rollout %q is completed or aborted", status.Rollout.Waiting, status.Rollout.ID)
	case status.Rollout != nil:
		return "progressing", ""
	case status.Digest == "":
		return "pending", ""
	}
	return "ready", ""
}

package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/access"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

func (s *Server) GetComponentVersions(c echo.Context, id string, _ api.GetComponentVersionsParams) error {
	return s.writeComponentVersions(c, http.StatusOK, id)
}

// writeComponentVersions answers with what is known of a component's versions.
func (s *Server) writeComponentVersions(c echo.Context, status int, id string) error {
	st, doc, err := s.find(c, fleet.KindComponent, id)
	if err != nil {
		return err
	}
	return response.WriteJSON(c, status, s.componentVersions(st, doc))
}

func (s *Server) PushComponentVersion(c echo.Context, id string, _ api.PushComponentVersionParams) error {
	body, err := decodeBody[api.PushedVersion](c)
	if err != nil {
		return err
	}
	st, doc, err := s.componentToPush(c, id)
	if err != nil {
		return err
	}
	src, err := sourceOfImage(doc, body.Image)
	if err != nil {
		return err
	}
	pushed := knownversions.Observation{Version: body.Version, Digest: body.Digest}
	if body.CreatedAt != nil {
		if pushed.Created = *body.CreatedAt; pushed.Created.Before(time.Unix(0, 0)) {
			return fleet.Invalid([]fleet.Problem{{Pointer: "/created_at", Detail: "must not be before 1970"}})
		}
	}
	now := s.observationTime(st)
	if s.versions.IsNew(src, pushed) {
		if err := s.pushes.take(id, now); err != nil {
			return err
		}
		s.cfg.Logger.LogAttrs(c.Request().Context(), slog.LevelInfo, "version pushed", slog.String("component", id), slog.String("image", src.Image),
			slog.String("version", body.Version), slog.String("digest", body.Digest), slog.String("actor", actor(c)), slog.String("request_id", requestID(c)))
	}
	s.versions.Push(src, now, pushed)
	return s.writeComponentVersions(c, http.StatusAccepted, id)
}

// componentToPush returns a component whose versions the principal may announce.
func (s *Server) componentToPush(c echo.Context, id string) (*fleet.State, *fleet.Document, error) {
	st, doc, err := s.find(c, fleet.KindComponent, id)
	if err != nil {
		return nil, nil, err
	}
	r := requestOf(c)
	if r.principal.Subject == nil {
		return st, doc, nil
	}
	rights := st.Whole().Rights(r.principal.Subject, s.cfg.Now())
	check := access.Check{Context: r.job.Context(), Rights: &rights}
	if permitted, err := check.MayAnnounce(st.Whole(), id); err != nil || permitted {
		return st, doc, err
	}
	detail := fmt.Sprintf("no access document of yours permits to announce versions of platform component %q: it requires push_version or write on it", id)
	return nil, nil, &fleet.Error{Code: fleet.CodeOutOfScope, Detail: detail, Problems: []fleet.Problem{{Kind: fleet.KindComponent, ID: id, Detail: detail}}}
}

// observationTime returns the time of an observation. A clock that is behind must not make a version old, so it is not before the last
// commit.
func (s *Server) observationTime(st *fleet.State) time.Time {
	if now := s.cfg.Now(); now.After(st.At()) {
		return now
	}
	return st.At()
}

// sourceOfImage returns the source of versions of a component, or of the image that a request names.
func sourceOfImage(doc *fleet.Document, image string) (knownversions.Source, error) {
	for _, p := range doc.Component().ImagePolicies {
		if image != "" && p.Name == image {
			image = p.Image
			break
		}
	}
	for _, src := range versionSources(doc) {
		if src.Image == image {
			return src, nil
		}
	}
	return knownversions.Source{}, fleet.Invalid([]fleet.Problem{{Pointer: "/image", Detail: "no image policy of the component has this name or image"}})
}

// versionSources returns the sources of the versions of a component: first its own, then the images of its policies.
func versionSources(doc *fleet.Document) []knownversions.Source {
	p := doc.Component()
	path := ""
	if p.Type == "helm" {
		path = p.ComponentPath
	}
	created := fmt.Sprint(doc.CreatedAt.UnixMicro())
	out := []knownversions.Source{{Component: doc.ID, Identity: identityOf(created, p.Type, p.OCIURL, path)}}
	for _, policy := range p.ImagePolicies {
		i := slices.IndexFunc(out, func(src knownversions.Source) bool { return src.Image == policy.Image })
		if i < 0 {
			i = len(out)
			out = append(out, knownversions.Source{Component: doc.ID, Image: policy.Image, Identity: identityOf(created, policy.Image)})
		}
		if policy.Track.Tag != "" {
			out[i].Tracked = append(out[i].Tracked, policy.Track.Tag)
		}
	}
	return out
}

// identityOf returns a short text that differs for different parts.
func identityOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// knownVersions returns the known versions of the components of a State.
func (s *Server) knownVersions(st *fleet.State) fleet.KnownVersions {
	return func(component string) (out []fleet.KnownVersion) {
		doc, ok := st.Get(fleet.KindComponent, component)
		if !ok {
			return nil
		}
		for _, src := range versionSources(doc) {
			versions, scan := s.versions.Known(src)
			for _, v := range versions {
				out = append(out, knownVersion(src.Image, v, scan))
			}
		}
		return out
	}
}

// knownVersion converts a known version for its evaluation.
func knownVersion(image string, v knownversions.Version, scan knownversions.Scan) fleet.KnownVersion {
	out := fleet.KnownVersion{
		Image: image, Version: v.Version, FirstSeen: time.UnixMilli(v.FirstSeen).UTC(), CreatedAt: timeOf(v.Created), Withdrawn: v.Listed > 0 && v.Listed < scan.Complete,
	}
	if len(v.Digests) > 0 {
		out.Digest = v.Digests[0].Digest
	}
	if len(v.Digests) > 1 { // the tag was moved: its age is that of what it refers to now
		out.FirstSeen, out.CreatedAt = time.UnixMilli(v.Digests[0].FirstSeen).UTC(), timeOf(v.Digests[0].Created)
	}
	return out
}

// timeOf returns the time of milliseconds since 1970; the zero time for 0.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// componentVersions returns what is known of a component's versions, as the API shows it. The State limits the documents that it names.
func (s *Server) componentVersions(st *fleet.State, doc *fleet.Document) api.ComponentVersions {
	known, sources := s.knownVersions(st)(doc.ID), versionSources(doc)
	out := api.ComponentVersions{ID: doc.ID, Sources: []api.VersionSource{}, Holds: []api.VersionHold{}, Pins: []api.VersionPin{}}
	for _, target := range fleet.VersionTargets(st, doc.Component()) {
		report := fleet.EvaluateVersions(st, doc.ID, target, known, s.cfg.Now())
		chart := fleet.VersionEvaluation{Problem: noRange}
		if report.Chart != nil {
			chart = *report.Chart
		}
		pins, warning := fleet.VersionPins(st, &report)
		chart.Warning = cmp.Or(chart.Warning, warning)
		refusal := s.versionRefusal(st, report.Move)
		for _, e := range append([]fleet.VersionEvaluation{chart}, report.Images...) {
			i := slices.IndexFunc(sources, func(src knownversions.Source) bool { return src.Image == e.Image })
			if i < 0 {
				continue
			}
			if e.Problem == "" && e.Candidate != nil {
				e.Problem = refusal
			}
			source := s.versionSource(sources[i], e)
			source.Target, source.Rollout = target, report.Rollout
			out.Sources = append(out.Sources, source)
		}
		for _, p := range pins {
			if st.Has(p.Kind, p.ID) {
				out.Pins = append(out.Pins, api.VersionPin{Kind: string(p.Kind), ID: p.ID, Version: p.Version, Target: target})
			}
		}
	}
	if len(out.Sources) == 0 {
		out.Sources = append(out.Sources, s.versionSource(sources[0], fleet.VersionEvaluation{Problem: noRange}))
	}
	for _, h := range fleet.VersionHolds(st, doc.ID) {
		out.Holds = append(out.Holds, api.VersionHold{Image: h.Image, Version: h.Version, Digest: h.Digest, At: h.At, By: s.masker.Tokens(h.By), Reason: s.masker.Tokens(h.Reason)})
	}
	return out
}

const noRange = "there is no version policy with a range"

// versionRefusal returns why a move was not made; empty: it was not refused. A refusal may name documents that the reader of the State may
// not read.
func (s *Server) versionRefusal(st *fleet.State, move string) string {
	refusal := s.versionRefusals.get(move)
	if refusal == "" || st == st.Whole() || refusal == fleet.ErrVersionWaits.Error() {
		return refusal
	}
	return "the last move was refused, and you may not read the reason: ask a principal that may read everything"
}

// versionSource returns a source, and what a policy makes of its versions.
func (s *Server) versionSource(src knownversions.Source, e fleet.VersionEvaluation) api.VersionSource {
	versions, scan := s.versions.Known(src)
	knownversions.SortHighestFirst(versions)
	out := api.VersionSource{
		Image: src.Image, Policy: e.Policy, Stored: e.Stored, StoredDigest: e.StoredDigest, Problem: s.masker.Tokens(e.Problem), Warning: s.masker.Tokens(e.Warning), Versions: []api.KnownVersion{},
	}
	if e.Candidate != nil {
		out.Candidate, out.CandidateDigest = e.Candidate.Version, e.Candidate.Digest
	}
	if scan != (knownversions.Scan{}) {
		out.Scan = &api.VersionScan{At: timePointer(timeOf(scan.At)), NextAt: timePointer(timeOf(scan.Next)), Failures: scan.Attempts, Error: s.masker.Tokens(scan.Error)}
	}
	reasons := map[string]string{}
	for _, r := range e.Reasons {
		reasons[r.Version] = r.Reason
	}
	for _, v := range versions {
		k := knownVersion(src.Image, v, scan)
		view := api.KnownVersion{
			Version: k.Version, Digest: k.Digest, CreatedAt: timePointer(k.CreatedAt), FirstSeenAt: k.FirstSeen, Withdrawn: k.Withdrawn, Reason: s.masker.Tokens(reasons[k.Version]),
		}
		if len(v.Digests) > 1 {
			view.PreviousDigest = v.Digests[1].Digest
		}
		out.Versions = append(out.Versions, view)
	}
	return out
}

func (s *Server) RefreshComponentVersions(c echo.Context, id string, _ api.RefreshComponentVersionsParams) error {
	_, doc, err := s.componentToPush(c, id)
	if err != nil {
		return err
	}
	if s.cfg.VersionScanner == nil {
		return &fleet.Error{Code: fleet.CodeConflict, Detail: "this server does not scan registries: VERSION_SCAN is not true"}
	}
	s.refreshVersions(c.Request().Context(), doc)
	return s.writeComponentVersions(c, http.StatusAccepted, id)
}

func (s *Server) HoldComponentVersion(c echo.Context, id string, p api.HoldComponentVersionParams) error {
	body, err := decodeBody[api.VersionHoldCreate](c)
	if err != nil {
		return err
	}
	hold := fleet.VersionHold{Version: body.Version, Digest: body.Digest, At: s.commitTime(), By: actor(c), Reason: body.Reason}
	return s.changeHolds(c, id, body.Image, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx, image string) error {
		hold.Image = image
		return tx.HoldVersion(id, hold)
	})
}

func (s *Server) ReleaseComponentVersion(c echo.Context, id string, p api.ReleaseComponentVersionParams) error {
	return s.changeHolds(c, id, value(p.Image), writeParams{p.IfMatch, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx, image string) error {
		return tx.ReleaseVersion(id, image, p.Version)
	})
}

// changeHolds commits a change of the held versions of a component or of an image, and answers with what is known of its versions.
func (s *Server) changeHolds(c echo.Context, id, image string, p writeParams, change func(tx *fleet.Tx, image string) error) error {
	res, err := s.commit(c, fleet.KindComponent, id, p, func(tx *fleet.Tx) error {
		doc, err := tx.Base().Find(fleet.KindComponent, id)
		if err != nil {
			return err
		}
		return change(tx, imageOfName(doc, image))
	})
	if err != nil {
		return err
	}
	r, st := requestOf(c), res.State
	if r.principal.Subject != nil {
		st = s.visible.get(st, st.Rights(r.principal.Subject, s.cfg.Now()))
	}
	doc, err := st.Find(fleet.KindComponent, id)
	if err != nil {
		return err
	}
	return response.WriteJSON(c, http.StatusOK, s.componentVersions(st, doc))
}

// imageOfName returns the image of the policy with a name; other text is an image itself, whose policy may be gone.
func imageOfName(doc *fleet.Document, name string) string {
	for _, p := range doc.Component().ImagePolicies {
		if p.Name == name {
			return p.Image
		}
	}
	return name
}

package fleet

import (
	"slices"
	"time"
)

// maxAppliedDigests limits the digests of a source that are kept, to recognize an old artifact under a moved tag.
const maxAppliedDigests = 100

// SourceState is the value of the document that records, by source, which artifact is applied and which one is held.
type SourceState struct {
	ID string `json:"id"`
	SourceArtifact
	AppliedAt *time.Time `json:"applied_at,omitempty"`
	// URL and Path are those of the source when it was applied: with others, the same artifact is applied again.
	URL  string `json:"url,omitempty"`
	Path string `json:"path,omitempty"`
	// Applied are the digests that were applied, or whose rollout was begun, the newest last.
	Applied []string      `json:"applied,omitempty"`
	Held    *HeldArtifact `json:"held,omitempty"`
	// Rollout is the last one of an artifact; nil: it completed, or another artifact was applied since.
	Rollout *SourceRollout `json:"rollout,omitempty"`
	// Failed is why the artifact could not be read, as a process found last; nil: it could.
	Failed   *SourceFailure  `json:"failed,omitempty"`
	Approval *SourceApproval `json:"approval,omitempty"`

	// At is the revision of the last change of the record.
	At Revision `json:"-"`
}

// HeldArtifact is an artifact that the server does not apply, and the reason.
type HeldArtifact struct {
	SourceArtifact
	PlanHash string    `json:"plan_hash,omitempty"` // of its change; empty: no approval admits it
	Code     Code      `json:"code"`
	Message  string    `json:"message"`
	At       time.Time `json:"at"`
}

// SourceRollout is a rollout that delivers an artifact, and the URL and path of the source when it was created.
type SourceRollout struct {
	SourceArtifact
	ID   string `json:"id"`
	URL  string `json:"url"`
	Path string `json:"path,omitempty"`
}

// SourceFailure is the reason why an artifact cannot be read, in one word.
type SourceFailure struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// SourceApproval admits one effect of a held artifact, once.
type SourceApproval struct {
	Digest   string    `json:"digest"`
	PlanHash string    `json:"plan_hash"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
}

// sourceDocuments is the value of the document that records, by source, the documents that it manages. It is apart from the state,
// since it may be large and rarely changes.
type sourceDocuments struct {
	ID        string            `json:"id"`
	Documents []ManagedDocument `json:"documents"` // sorted by kind and id
	// Next are those that it manages after the completion of its open rollout.
	Next []ManagedDocument `json:"next,omitempty"`
}

var sourceStateKind = recordKind(KindSourceState, "state of a source", func() any { return new(SourceState) })

var sourceDocumentsKind = recordKind(KindSourceDocuments, "list of managed documents", func() any { return new(sourceDocuments) })

// SourceState returns what is recorded of a source; an empty record if there is none.
func (s *State) SourceState(id string) *SourceState {
	if d := s.docs[KindSourceState][id]; d != nil {
		r := *d.value.(*SourceState)
		r.At = d.Revision
		return &r
	}
	return &SourceState{ID: id}
}

// HasApplied reports whether an artifact is applied as a source has it now.
func (r *SourceState) HasApplied(source *Source, digest string) bool {
	return r.Digest == digest && r.URL == source.URL && r.Path == source.Path
}

// apply records an artifact as applied.
func (r *SourceState) apply(a SourceArtifact, url, path string, at time.Time) {
	r.SourceArtifact, r.URL, r.Path, r.AppliedAt = a, url, path, &at
	r.Held, r.Approval, r.Rollout = nil, nil, nil
	r.remember(a.Digest)
}

// remember adds a digest to those that need an approval after another one.
func (r *SourceState) remember(digest string) {
	r.Applied = append(slices.DeleteFunc(r.Applied, func(known string) bool { return known == digest }), digest)
	r.Applied = r.Applied[max(0, len(r.Applied)-maxAppliedDigests):]
}

// ManagedBy returns the documents that a source manages, sorted by kind and id. They must not be changed.
func (s *State) ManagedBy(source string) []ManagedDocument {
	if d := s.docs[KindSourceDocuments][source]; d != nil {
		return d.value.(*sourceDocuments).Documents
	}
	return nil
}

// Manager returns the source that manages a document, and its file there; not ok if none does.
func (s *State) Manager(kind Kind, id string) (source, file string, ok bool) {
	m, ok := s.managed[docKey{kind, id}]
	if !ok {
		return "", "", false
	}
	return m.source, m.File, true
}

// IsDrifted reports whether others have changed a managed document since its source wrote it.
func (s *State) IsDrifted(kind Kind, id string) bool {
	m, ok := s.managed[docKey{kind, id}]
	return ok && m.Drifted
}

// indexManaged builds the index of managed documents.
func (s *State) indexManaged() {
	if s.managed = nil; len(s.docs[KindSourceDocuments]) == 0 {
		return
	}
	s.managed = map[docKey]manager{}
	for id, d := range s.docs[KindSourceDocuments] {
		list := d.value.(*sourceDocuments).Documents
		for i := range list {
			s.managed[docKey{list[i].Kind, list[i].ID}] = manager{id, &list[i]}
		}
	}
}

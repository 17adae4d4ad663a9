package server

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/flux-resourceset/flux-resourceset/versions"
)

// Registry downloads artifacts: see [versions.Scanner].
type Registry interface {
	ResolveArtifact(ctx context.Context, ref versions.ArtifactRef) (digest string, err *versions.Error)
	PullArtifact(ctx context.Context, ref versions.ArtifactRef, digest string) (versions.Artifact, error)
}

var _ Registry = (*versions.Scanner)(nil)

// registryReader reads artifacts from registries.
type registryReader struct{ registry Registry }

// NewArtifactReader returns a reader of artifacts in registries.
func NewArtifactReader(registry Registry) ArtifactReader { return registryReader{registry} }

func (r registryReader) Resolve(ctx context.Context, source *fleet.Source) (string, error) {
	digest, err := r.registry.ResolveArtifact(ctx, artifactRef(source))
	if err != nil {
		return "", err
	}
	return digest, nil
}

func (r registryReader) Read(ctx context.Context, source *fleet.Source, digest string) (fleet.FollowedArtifact, error) {
	a, err := r.registry.PullArtifact(ctx, artifactRef(source), digest)
	if err != nil {
		return fleet.FollowedArtifact{}, err
	}
	out := fleet.FollowedArtifact{SourceArtifact: fleet.SourceArtifact{Digest: digest, Tag: a.Tag, Revision: a.Revision, Origin: a.Source}}
	out.Documents, err = readDocuments(a.Files)
	return out, err
}

func artifactRef(source *fleet.Source) versions.ArtifactRef {
	ref := versions.ArtifactRef{URL: source.URL, Tag: source.Tag, Range: source.Range, Digest: source.Digest, Path: source.Path}
	if source.Verify != nil {
		ref.Keys = source.Verify.Keys
	}
	return ref
}

// readDocuments returns the documents in files, as apply reads them. The error is a *fleet.Error with all problems.
func readDocuments(files []versions.File) ([]fleet.FileDocument, error) {
	r := documents.Untrusted(documents.All())
	for _, f := range files {
		if documents.IsFile(f.Path) {
			r.Add(f.Data, f.Path)
		}
	}
	found, err := r.Documents()
	if err != nil {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Detail: err.Error()}
	}
	out := make([]fleet.FileDocument, len(found))
	for i, d := range found {
		if d.Limited {
			return nil, &fleet.Error{Code: fleet.CodeInvalid, Detail: fmt.Sprintf("%s is an export by an identity with limits, so documents may be missing", d.Source)}
		}
		fields, err := json.Marshal(d.Fields)
		if err != nil {
			return nil, err
		}
		out[i] = fleet.FileDocument{Kind: fleet.Kind(d.Kind.Kind), ID: d.ID, File: fileOf(d.Source), Fields: fields}
	}
	return out, nil
}

// fileOf returns the file of a place in it, such as clusters.yaml of "clusters.yaml, document 2".
func fileOf(place string) string {
	file, _, _ := strings.Cut(place, ", ")
	return path.Clean(file)
}

package versions

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/Masterminds/semver/v3"
)

// ArtifactRef selects an artifact in a repository, by a digest, a tag or a range of versions.
type ArtifactRef struct {
	URL    string // oci://
	Digest string // sha256:…; the others then do not count
	Tag    string
	// Range is a constraint of semantic versions, as that of a version policy; it selects the highest tag in it.
	Range string
	// Path is the directory whose files are unpacked; empty: all.
	Path string
	// Keys are public keys in PEM, one of which must have signed the artifact; none: signatures do not count.
	Keys []string
}

// Artifact is a downloaded artifact of files, such as `flux push artifact` makes them.
type Artifact struct {
	Digest string // of the manifest: sha256:…
	Tag    string // that selects it; empty: a digest, or another tag of the range by now
	// Revision and Source are what the publisher states of the origin: the annotations of OCI with these names. Credentials in the URL of the
	// source are removed.
	Revision, Source string
	// Files are the regular files below the path, in the order of their paths.
	Files []File
}

// File is a file of an artifact.
type File struct {
	Path string // in the archive, with slashes, without "." and ".."
	Data []byte
}

// Annotations of the specification of OCI.
const (
	revisionAnnotation = "org.opencontainers.image.revision"
	sourceAnnotation   = "org.opencontainers.image.source"
)

// archiveTypes are the media types of layers that are archives: those of Flux, of images, and of images of Docker.
var archiveTypes = map[string]bool{
	"application/vnd.cncf.flux.content.v1.tar+gzip":     true,
	"application/vnd.oci.image.layer.v1.tar+gzip":       true,
	"application/vnd.docker.image.rootfs.diff.tar.gzip": true,
}

// ResolveArtifact returns the digest that a reference selects now. It requests the digest of one manifest, for a range also the list of
// tags, for a digest nothing. Failures do not delay later requests, except by Retry-After of the host: the caller decides when to try again.
func (s *Scanner) ResolveArtifact(ctx context.Context, ref ArtifactRef) (digest string, err *Error) {
	if ref.Digest != "" {
		return ref.Digest, s.checkArtifact(ref)
	}
	failed := s.withArtifact(ctx, ref, func(ctx context.Context, r *repository) error {
		_, selected, err := r.selectArtifact(ctx, ref)
		digest = selected
		return err
	})
	return digest, failed
}

// PullArtifact downloads, verifies and unpacks an artifact with a digest of ResolveArtifact. Nothing is unpacked, and for a reference with keys
// no archive is downloaded, before all digests and the signature are verified. The error is an [*Error].
func (s *Scanner) PullArtifact(ctx context.Context, ref ArtifactRef, digest string) (Artifact, error) {
	var out Artifact
	check := ref
	check.Digest = digest
	if err := s.checkArtifact(check); err != nil {
		return out, err
	}
	failed := s.withArtifact(ctx, ref, func(ctx context.Context, r *repository) (err error) {
		out, err = r.pull(ctx, ref, digest)
		return err
	})
	if failed != nil {
		return Artifact{}, failed
	}
	return out, nil
}

// checkArtifact returns the reason why a reference cannot be followed; nil: there is none.
func (s *Scanner) checkArtifact(ref ArtifactRef) *Error {
	_, err := s.parse(Source{Kind: OCIArtifact, URL: ref.URL})
	switch {
	case err != nil:
		return err
	case ref.Digest != "" && !validDigest(ref.Digest):
		return newError(Invalid, "", "the digest of the artifact is not valid: it is sha256: and 64 hexadecimal digits")
	case ref.Digest == "" && ref.Tag == "" && ref.Range == "":
		return newError(Invalid, "", "the artifact has neither a tag nor a range nor a digest")
	case ref.Digest == "" && ref.Tag != "" && !tagForm.MatchString(ref.Tag):
		return newError(Invalid, "", "the tag of the artifact is not valid")
	}
	if _, ok := entryPath(ref.Path); !ok {
		return newError(Invalid, "", "the path is not a directory in the artifact: it is relative, without \"..\"")
	}
	return nil
}

// withArtifact calls a function with the repository of a reference, within the time for one source.
func (s *Scanner) withArtifact(ctx context.Context, ref ArtifactRef, use func(ctx context.Context, r *repository) error) (failed *Error) {
	if err := s.checkArtifact(ref); err != nil {
		return err
	}
	at, invalid := s.parse(Source{Kind: OCIArtifact, URL: ref.URL})
	if invalid != nil {
		return invalid
	}
	auth, err := readCredentials(s.cfg.AuthFile)
	if err != nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "the file of credentials cannot be read", slog.Any("error", err))
		return newError(Invalid, "", "the file of REGISTRY_AUTH_FILE cannot be read; the log of the server has the cause")
	}
	ctx, cancel := context.WithTimeoutCause(withOptions(ctx, requestOptions{ignoreBackoff: true}), s.cfg.Limits.Source, errSlow)
	defer cancel()
	defer s.hosts.prune(s.cfg.Now())
	defer func() {
		if caught := recover(); caught != nil {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "an artifact cannot be decoded", slog.String("host", at.host), slog.String("stack", string(debug.Stack())))
			failed = newError(Invalid, at.host, "the artifact cannot be decoded")
		}
	}()
	r, err := s.open(ctx, auth, at)
	if err == nil {
		err = use(ctx, r)
	}
	if err != nil {
		failed = scanError(at.host, err)
		if failed.RetryAt.IsZero() && (failed.Class == Unreachable || failed.Class == Limited) {
			failed.RetryAt = s.hosts.get(at.host).wait(s.cfg.Now(), true)
		}
		return failed
	}
	s.hosts.get(at.host).succeed()
	return nil
}

// selectArtifact returns the digest that a tag, or the highest version in a range, has now, and the tag.
func (r *repository) selectArtifact(ctx context.Context, ref ArtifactRef) (tag, digest string, err error) {
	if tag = ref.Tag; tag == "" {
		if tag, err = r.highest(ctx, ref.Range); err != nil {
			return "", "", err
		}
	}
	resp, err := r.get(ctx, http.MethodHead, r.url("manifests/"+tag), manifestTypes)
	if err != nil {
		return "", "", r.missing(err, "the artifact has no tag %q", tag)
	}
	_ = resp.Body.Close()
	if digest = resp.Header.Get("Docker-Content-Digest"); !validDigest(digest) {
		if _, digest, err = r.content(ctx, "manifests/"+tag, manifestTypes, ""); err != nil {
			return "", "", err
		}
	}
	return tag, digest, nil
}

// highest returns the highest tag in a range of versions.
func (r *repository) highest(ctx context.Context, versionRange string) (string, error) {
	constraint, err := semver.NewConstraint(versionRange)
	if err != nil {
		return "", newError(Invalid, r.host, "the range of versions is not valid")
	}
	tags, err := r.tags(ctx)
	if err != nil {
		return "", r.missing(err, "the repository does not exist, or has no tags")
	}
	n := newNewest(Source{}, 1, func(version string) bool {
		v, err := semver.NewVersion(version)
		return err == nil && constraint.Check(v)
	})
	for _, tag := range tags.tags {
		n.add(Version{Version: tag, Tag: tag})
	}
	switch found := n.list(); {
	case tags.truncated:
		return "", newError(TooLarge, r.host, "the repository has more than %d tags, so the highest version is unknown: use a tag", r.limits.Tags)
	case len(found) == 0:
		return "", newError(NotFound, r.host, "no tag of the repository is in the range of versions")
	default:
		return found[0].Tag, nil
	}
}

// missing returns an error with a message if err is that of something that does not exist.
func (r *repository) missing(err error, format string, args ...any) error {
	if failed := scanError(r.host, err); failed.Class == NotFound {
		return newError(NotFound, r.host, format, args...)
	}
	return err
}

// artifactManifest is the manifest of an artifact, or the index of several.
type artifactManifest struct {
	Annotations map[string]string    `json:"annotations"`
	Layers      []artifactDescriptor `json:"layers"`
	Manifests   []artifactDescriptor `json:"manifests"`
}

// artifactDescriptor refers to a layer, or to a manifest.
type artifactDescriptor struct {
	MediaType    string            `json:"mediaType"`
	ArtifactType string            `json:"artifactType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	Annotations  map[string]string `json:"annotations"`
}

// pull downloads, verifies and unpacks the artifact with a digest.
func (r *repository) pull(ctx context.Context, ref ArtifactRef, digest string) (Artifact, error) {
	keys, err := parseKeys(ref.Keys)
	if err != nil {
		return Artifact{}, newError(Invalid, "", "%s", err)
	}
	m, err := r.artifactManifest(ctx, digest)
	if err != nil {
		return Artifact{}, r.missing(err, "the artifact with the digest %s does not exist any more", digest)
	}
	if len(m.Layers) != 1 || !archiveTypes[m.Layers[0].MediaType] {
		return Artifact{}, newError(Invalid, r.host, "the artifact is not one archive of files, as flux push artifact makes it: it needs one layer of the type tar+gzip")
	}
	if len(keys) > 0 {
		if err := r.verify(ctx, digest, keys); err != nil {
			return Artifact{}, err
		}
	}
	packed, err := r.layer(ctx, m.Layers[0])
	if err != nil {
		return Artifact{}, err
	}
	files, err := unpack(packed, r.limits, r.host, ref.Path)
	if err != nil {
		return Artifact{}, err
	}
	out := Artifact{
		Digest: digest, Tag: ref.Tag, Files: files,
		Revision: annotation(m.Annotations[revisionAnnotation]), Source: withoutCredentials(annotation(m.Annotations[sourceAnnotation])),
	}
	switch {
	case ref.Digest != "":
		out.Tag = ""
	case ref.Tag == "":
		if tag, selected, err := r.selectArtifact(ctx, ref); err == nil && selected == digest {
			out.Tag = tag
		}
	}
	return out, nil
}

// artifactManifest reads the manifest with a digest.
func (r *repository) artifactManifest(ctx context.Context, digest string) (m artifactManifest, err error) {
	text, _, err := r.content(ctx, "manifests/"+digest, manifestTypes, digest)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, newError(Invalid, r.host, "a manifest is not valid JSON")
	}
	return m, nil
}

// layer downloads the archive of an artifact.
func (r *repository) layer(ctx context.Context, d artifactDescriptor) ([]byte, error) {
	tooLarge := newError(TooLarge, r.host, "the archive is too large: the limit is %d bytes", r.limits.Packed)
	switch {
	case !validDigest(d.Digest):
		return nil, newError(Invalid, r.host, "the digest of the archive is not valid")
	case d.Size > r.limits.Packed:
		return nil, tooLarge
	}
	ctx = withOptions(ctx, requestOptions{bytes: r.limits.Packed, ignoreBackoff: true})
	packed, _, err := r.content(ctx, "blobs/"+d.Digest, "", d.Digest)
	if err != nil {
		if failed := scanError(r.host, err); failed.Class == TooLarge {
			return nil, tooLarge
		}
		return nil, r.missing(err, "the archive of the artifact does not exist")
	}
	return packed, nil
}

// annotation returns an annotation that may be shown; empty if it may not.
func annotation(text string) string {
	if len(text) > 1024 || !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return ""
	}
	return text
}

// withoutCredentials returns the URL of a repository without a user and a password, which URLs of a pipeline's clone have.
func withoutCredentials(text string) string {
	if !strings.Contains(text, "://") {
		return text // also of SSH: git@github.com:org/fleet
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// entryPath returns the path of an entry of an archive; false: it is not one that may be unpacked, or shown.
func entryPath(name string) (string, bool) {
	unsafe := func(c rune) bool { return c == '\\' || !unicode.IsPrint(c) }
	if len(name) > maxEntryPath || !utf8.ValidString(name) || strings.HasPrefix(name, "/") || strings.ContainsFunc(name, unsafe) {
		return "", false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", false
		}
	}
	return path.Clean(name), true
}

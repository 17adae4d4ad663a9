package versions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const (
	pageSize  = 1000 // the number of tags that a page is requested with
	smallPage = 100  // the same of a registry that refuses such pages
)

// Media types of manifests.
const (
	ociManifest    = "application/vnd.oci.image.manifest.v1+json"
	ociIndex       = "application/vnd.oci.image.index.v1+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	ociConfig      = "application/vnd.oci.image.config.v1+json"
	dockerConfig   = "application/vnd.docker.container.image.v1+json"
)

// repository reads a repository in a registry.
type repository struct {
	name   name.Repository
	host   string
	client *http.Client
	limits Limits
	// manifests has those that were requested in this scan, by tag.
	manifests map[string]manifest
}

// manifest is what a scan needs to know of a manifest.
type manifest struct {
	digest    string
	createdAt time.Time
}

// scanRepository reads the tags of a repository, and the digests of those that the sources of a list want.
func (s *Scanner) scanRepository(ctx context.Context, auth credentials, l *list) ([]Result, *Error) {
	r, err := s.open(ctx, auth, l.location)
	if err != nil {
		return nil, scanError(l.host, err)
	}
	var tags tagList
	if slices.ContainsFunc(l.sources, func(n numbered) bool { return n.Wants != nil }) {
		if tags, err = r.tags(ctx); err != nil {
			return nil, scanError(l.host, err)
		}
	}
	results := make([]Result, len(l.sources))
	for i, n := range l.sources {
		results[i] = r.result(ctx, n.Source, &tags)
	}
	return results, nil
}

// open returns a repository after the registry has accepted the credentials, or has sent a token.
func (s *Scanner) open(ctx context.Context, auth credentials, at location) (*repository, error) {
	authenticator, invalid := auth.authenticator(at.host, at.repository.RepositoryStr())
	if invalid != nil {
		return nil, invalid
	}
	t, err := transport.NewWithContext(ctx, at.repository.Registry, authenticator, s.transport, []string{at.repository.Scope(transport.PullScope)})
	if err != nil {
		return nil, err
	}
	return &repository{name: at.repository, host: at.host, client: client(t), limits: s.cfg.Limits, manifests: map[string]manifest{}}, nil
}

// tagList has the tags of a repository.
type tagList struct {
	limit     int
	seen      map[string]struct{}
	tags      []string
	listed    int
	invalid   int
	truncated bool
}

// errPages is the error of a list of tags that does not end.
var errPages = errors.New("the list of tags has too many pages, or pages without new tags")

// tags reads all pages of the list of tags. After a full page without a link it asks for more by itself.
func (r *repository) tags(ctx context.Context) (tagList, error) {
	out := tagList{limit: r.limits.Tags, seen: map[string]struct{}{}}
	size, last, guessed := pageSize, "", false
	next := r.tagsURL(size, last)
	for page := 0; next != nil; page++ {
		if page == r.limits.Pages {
			return tagList{}, newError(Invalid, r.host, "%s", errPages)
		}
		before, onPage := out.listed, 0
		resp, err := r.get(ctx, http.MethodGet, next, "application/json")
		if known, is := errors.AsType[*Error](err); is && page == 0 && known.Class == Invalid && size == pageSize {
			size = smallPage
			if resp, err = r.get(ctx, http.MethodGet, r.tagsURL(size, ""), "application/json"); err != nil {
				return tagList{}, known
			}
		}
		if err == nil {
			err = decodeTags(resp.Body, func(tag string) bool {
				onPage, last = onPage+1, tag
				return out.add(tag)
			})
			_ = resp.Body.Close()
		}
		if guessed && (err != nil || onPage > 0 && out.listed == before) { // the registry cannot be asked for more
			out.truncated = true
		} else if err != nil {
			return tagList{}, err
		}
		if out.truncated {
			return out, nil
		}
		if next, err = r.nextPage(resp); err != nil {
			return tagList{}, err
		}
		if next != nil && out.listed == before {
			return tagList{}, newError(Invalid, r.host, "%s", errPages)
		}
		if guessed = next == nil && onPage == size; guessed {
			next = r.tagsURL(size, last)
		}
	}
	return out, nil
}

// add adds a tag that is not there yet; false: there are too many.
func (l *tagList) add(tag string) bool {
	if _, ok := l.seen[tag]; ok {
		return true
	}
	if l.listed == l.limit {
		l.truncated = true
		return false
	}
	l.listed++
	if !tagForm.MatchString(tag) {
		l.invalid++
		return true
	}
	l.seen[tag] = struct{}{}
	l.tags = append(l.tags, tag)
	return true
}

// tagsURL returns the URL of a page of tags, after the last one of the page before.
func (r *repository) tagsURL(size int, last string) *url.URL {
	u := r.url("tags/list")
	u.RawQuery = "n=" + strconv.Itoa(size)
	if last != "" {
		u.RawQuery += "&last=" + url.QueryEscape(last)
	}
	return u
}

// decodeTags reads a page, and passes each tag on until add returns false.
func decodeTags(body io.Reader, add func(tag string) bool) error {
	dec := json.NewDecoder(body)
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return tagsError(err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return tagsError(err)
		}
		if key != "tags" {
			var ignored json.RawMessage
			if err := dec.Decode(&ignored); err != nil {
				return tagsError(err)
			}
			continue
		}
		start, err := dec.Token()
		if err != nil || start != nil && start != json.Delim('[') {
			return tagsError(err)
		}
		for start != nil && dec.More() {
			tag, err := dec.Token()
			text, ok := tag.(string)
			if err != nil || !ok {
				return tagsError(err)
			}
			if !add(text) {
				return nil
			}
		}
		if start != nil {
			if _, err := dec.Token(); err != nil {
				return tagsError(err)
			}
		}
	}
	_, err := dec.Token()
	if err != nil {
		return tagsError(err)
	}
	return nil
}

// tagsError returns the error of a page that is not a list of tags; err is that of reading it, if there is one.
func tagsError(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	return errors.New("the answer is not a list of tags")
}

var (
	linkForm = regexp.MustCompile(`^\s*<([^>]*)>((?:[^,"]|"[^"]*")*),?`)
	relForm  = regexp.MustCompile(`(?i);\s*rel\s*=\s*"?([^";]*)`)
)

// nextPage returns the URL of the next page; nil: there is none. A link to another host is refused. Proxies change scheme and port
// in links, so those of the page stay.
func (r *repository) nextPage(resp *http.Response) (*url.URL, error) {
	for links := strings.Join(resp.Header.Values("Link"), ","); strings.TrimSpace(links) != ""; {
		link := linkForm.FindStringSubmatch(links)
		if link == nil {
			return nil, newError(Invalid, r.host, "the link to the next page is not valid")
		}
		links = links[len(link[0]):]
		if rel := relForm.FindStringSubmatch(link[2]); rel != nil && !slices.Contains(strings.Fields(strings.ToLower(rel[1])), "next") {
			continue
		}
		target, err := url.Parse(link[1])
		if err != nil {
			return nil, newError(Invalid, r.host, "the link to the next page is not valid")
		}
		from := resp.Request.URL
		target = from.ResolveReference(target)
		if !strings.EqualFold(target.Hostname(), from.Hostname()) || target.User != nil {
			return nil, newError(Refused, r.host, "the link to the next page leads to another host")
		}
		target.Scheme, target.Host = from.Scheme, from.Host
		return target, nil
	}
	return nil, nil
}

// result returns the versions of a source, with the digests of those that it wants.
func (r *repository) result(ctx context.Context, source Source, tags *tagList) Result {
	n := newNewest(source, r.limits.Keep, source.Wants)
	for _, tag := range tags.tags {
		n.add(Version{Version: versionOf(source.Kind, tag), Tag: tag})
	}
	out := Result{Versions: n.list(), Truncated: tags.truncated}
	if source.Wants != nil {
		out.Listed, out.Invalid = tags.listed, tags.invalid
		if !tags.truncated {
			out.Present = n.present(out.Versions)
		}
	}
	known := map[string]Version{}
	for _, v := range source.Known {
		known[tagOf(source.Kind, v.Version)] = v
	}
	for i := range out.Versions {
		v := &out.Versions[i]
		v.Digest, v.CreatedAt = known[v.Tag].Digest, known[v.Tag].CreatedAt
	}
	tracked := map[string]bool{}
	for _, text := range source.Track {
		tag := tagOf(source.Kind, text)
		if tracked[tag] || !tagForm.MatchString(tag) {
			continue
		}
		tracked[tag] = true
		at := slices.IndexFunc(out.Versions, func(v Version) bool { return v.Tag == tag })
		m, err := r.trackedManifest(ctx, tag, known[tag])
		if err != nil {
			if failed := scanError(r.host, err); failed.Class != NotFound {
				out.Err = failed
				return out
			}
			continue // the tag does not exist
		}
		if at < 0 {
			at = len(out.Versions)
			out.Versions = append(out.Versions, Version{Version: versionOf(source.Kind, tag), Tag: tag})
		}
		out.Versions[at].Digest, out.Versions[at].CreatedAt = m.digest, m.createdAt
	}
	requested := 0
	for i := range out.Versions {
		v := &out.Versions[i]
		if v.Digest != "" || requested >= r.limits.Resolve {
			continue
		}
		requested++
		m, err := r.manifest(ctx, v.Tag)
		if err != nil {
			failed := scanError(r.host, err)
			if out.Err == nil && failed.Class != NotFound {
				out.Err = failed
			}
			if failed.Class != NotFound && failed.Class != Invalid && failed.Class != TooLarge {
				return out // the next request would fail as well
			}
			continue
		}
		v.Digest, v.CreatedAt = m.digest, m.createdAt
	}
	return out
}

// versionOf returns the version of a tag: Helm writes "_" for "+", which a tag cannot have.
func versionOf(kind Kind, tag string) string {
	if kind == Chart {
		return strings.ReplaceAll(tag, "_", "+")
	}
	return tag
}

func tagOf(kind Kind, version string) string {
	if kind == Chart {
		return strings.ReplaceAll(version, "+", "_")
	}
	return version
}

// trackedManifest returns the manifest of a tag that may have moved. Its time is requested only if the digest is not the known one.
func (r *repository) trackedManifest(ctx context.Context, tag string, known Version) (manifest, error) {
	if m, ok := r.manifests[tag]; ok {
		return m, nil
	}
	if known.Digest == "" {
		return r.manifest(ctx, tag)
	}
	resp, err := r.get(ctx, http.MethodHead, r.url("manifests/"+tag), manifestTypes)
	if err != nil {
		return manifest{}, err
	}
	_ = resp.Body.Close()
	if resp.Header.Get("Docker-Content-Digest") == known.Digest {
		return manifest{known.Digest, known.CreatedAt}, nil
	}
	return r.manifest(ctx, tag) // also if the header is missing
}

const manifestTypes = ociIndex + ", " + ociManifest + ", " + dockerList + ", " + dockerManifest

// descriptor refers to a blob or a manifest.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Platform  struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// createdAnnotation is that of the specification of OCI.
const createdAnnotation = "org.opencontainers.image.created"

// manifest returns the digest of a tag, and when it was created: by an annotation, else by the configuration of an image.
func (r *repository) manifest(ctx context.Context, tag string) (manifest, error) {
	if m, ok := r.manifests[tag]; ok {
		return m, nil
	}
	text, digest, err := r.content(ctx, "manifests/"+tag, manifestTypes, "")
	if err != nil {
		return manifest{}, err
	}
	createdAt, err := r.createdAt(ctx, text, true)
	if err != nil {
		return manifest{}, err
	}
	m := manifest{digest, createdAt}
	r.manifests[tag] = m
	return m, nil
}

// createdAt returns the time of a manifest; zero: it is unknown.
func (r *repository) createdAt(ctx context.Context, text []byte, nested bool) (time.Time, error) {
	var m struct {
		Annotations map[string]string `json:"annotations"`
		Config      descriptor        `json:"config"`
		Manifests   []descriptor      `json:"manifests"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return time.Time{}, newError(Invalid, r.host, "a manifest is not valid JSON")
	}
	if nested && m.Config.Digest == "" && len(m.Manifests) == 0 { // such as the answer of a proxy: its digest is that of no image
		return time.Time{}, newError(Invalid, r.host, "the answer is not a manifest: it has neither a configuration nor manifests")
	}
	if at := publishedAt(m.Annotations[createdAnnotation]); !at.IsZero() {
		return at, nil
	}
	if len(m.Manifests) > 0 && nested {
		one := m.Manifests[0]
		if i := slices.IndexFunc(m.Manifests, func(d descriptor) bool { return d.Platform.OS == "linux" && d.Platform.Architecture == "amd64" }); i >= 0 {
			one = m.Manifests[i]
		}
		if !validDigest(one.Digest) {
			return time.Time{}, nil
		}
		text, _, err := r.content(ctx, "manifests/"+one.Digest, manifestTypes, one.Digest)
		if err != nil {
			return time.Time{}, err
		}
		return r.createdAt(ctx, text, false)
	}
	if m.Config.MediaType != ociConfig && m.Config.MediaType != dockerConfig || !validDigest(m.Config.Digest) {
		return time.Time{}, nil
	}
	text, _, err := r.content(ctx, "blobs/"+m.Config.Digest, "", m.Config.Digest)
	if err != nil {
		return time.Time{}, err
	}
	var config struct {
		Created string `json:"created"`
	}
	_ = json.Unmarshal(text, &config) // if it is not valid, the time is unknown
	return publishedAt(config.Created), nil
}

// content reads a manifest or a blob and returns its digest, which must be want unless that is empty.
func (r *repository) content(ctx context.Context, path, accept, want string) (text []byte, digest string, err error) {
	resp, err := r.get(ctx, http.MethodGet, r.url(path), accept)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(text)
	digest = "sha256:" + hex.EncodeToString(sum[:])
	if header := resp.Header.Get("Docker-Content-Digest"); want == "" && strings.HasPrefix(header, "sha256:") {
		want = header
	}
	if want != "" && want != digest {
		return nil, "", newError(Invalid, r.host, "the digest of a manifest or a blob is not that of its content")
	}
	return text, digest, nil
}

// validDigest reports whether a digest may be a part of a URL, and can be verified.
func validDigest(digest string) bool {
	return strings.HasPrefix(digest, "sha256:") && indexDigest(digest) != ""
}

// url returns the URL of a resource of the repository.
func (r *repository) url(path string) *url.URL {
	return &url.URL{Scheme: r.name.Scheme(), Host: r.name.RegistryStr(), Path: "/v2/" + r.name.RepositoryStr() + "/" + path}
}

// get sends a request and returns the answer if it is a success. Its body must be closed.
func (r *repository) get(ctx context.Context, method string, u *url.URL, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, newError(Invalid, r.host, "the name of the repository is not valid")
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, statusError(hostName(resp.Request.URL), resp.StatusCode)
	}
	return resp, nil
}

package versions

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
)

const fluxArchive = "application/vnd.cncf.flux.content.v1.tar+gzip"

// entry is an entry of an archive that a test makes; the zero header is that of a file.
type archiveEntry struct {
	tar.Header

	data string
}

func fileEntry(path, data string) archiveEntry {
	return archiveEntry{tar.Header{Name: path}, data}
}

// archiveOf makes an archive.
func archiveOf(t testing.TB, entries ...archiveEntry) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for _, e := range entries {
		if e.Typeflag == 0 {
			e.Typeflag = tar.TypeReg
		}
		if e.Typeflag != tar.TypeXGlobalHeader {
			e.Mode, e.Size = 0o644, int64(len(e.data))
		}
		require.NoError(t, w.WriteHeader(&e.Header))
		if e.data != "" {
			_, err := w.Write([]byte(e.data))
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	require.NoError(t, zipped.Close())
	return out.Bytes()
}

// fluxImage makes the manifest that flux push artifact pushes.
func fluxImage(t testing.TB, archive []byte, mediaType string, annotations map[string]string) v1.Image {
	t.Helper()
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.flux.config.v1+json")
	img = mutate.Annotations(img, annotations).(v1.Image) //nolint:forcetypeassert // it returns what it receives
	img, err := mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(archive, types.MediaType(mediaType))})
	require.NoError(t, err)
	return img
}

// pushImage pushes to a tag or a digest, and returns the digest.
func (s *server) pushImage(t *testing.T, reference string, img v1.Image) string {
	t.Helper()
	ref, err := name.ParseReference(s.host() + "/" + reference)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img, remote.WithTransport(s.Client().Transport)))
	digest, err := img.Digest()
	require.NoError(t, err)
	return digest.String()
}

// pushArchive pushes an artifact of Flux, and returns its digest.
func (s *server) pushArchive(t *testing.T, reference string, archive []byte) string {
	t.Helper()
	return s.pushImage(t, reference, fluxImage(t, archive, fluxArchive, nil))
}

func (s *server) artifact(ref ArtifactRef) ArtifactRef {
	ref.URL = "oci://" + s.host() + "/fleet"
	return ref
}

// pull resolves and pulls an artifact.
func pull(t *testing.T, s *Scanner, ref ArtifactRef) (Artifact, error) {
	t.Helper()
	digest, failed := s.ResolveArtifact(t.Context(), ref)
	if failed != nil {
		return Artifact{}, failed
	}
	return s.PullArtifact(t.Context(), ref, digest)
}

// requireClass requires an Error of a class whose text contains another.
func requireClass(t *testing.T, err error, class Class, text string) {
	t.Helper()
	var failed *Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, class, failed.Class, "%s", failed)
	require.Contains(t, failed.Error(), text)
}

// TestArtifact: an artifact of flux push artifact, by tag, range and digest, with a path.
func TestArtifact(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	archive := archiveOf(
		t, archiveEntry{Header: tar.Header{Name: "fleet/", Typeflag: tar.TypeDir}}, fileEntry("fleet/layers/eu.yaml", "id: eu"), fileEntry("./fleet/clusters.yaml", "clusters"),
		fileEntry("README.md", "read me"), fileEntry("fleet.yaml", "not below"), fileEntry("fleet/empty", ""),
	)
	digest := r.pushImage(t, "fleet:prod", fluxImage(t, archive, fluxArchive, map[string]string{
		"org.opencontainers.image.revision": "main@sha1:0123", "org.opencontainers.image.source": "https://ci:SECRET@git.example.com/fleet?token=SECRET",
	}))
	s := newScanner(t, []*server{r})
	want := Artifact{
		Digest: digest, Tag: "prod", Revision: "main@sha1:0123", Source: "https://git.example.com/fleet",
		Files: []File{{"fleet/clusters.yaml", []byte("clusters")}, {"fleet/empty", []byte{}}, {"fleet/layers/eu.yaml", []byte("id: eu")}},
	}
	for _, path := range []string{"fleet", "fleet/", "./fleet//"} {
		got, err := pull(t, s, r.artifact(ArtifactRef{Tag: "prod", Path: path}))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := pull(t, s, r.artifact(ArtifactRef{Digest: digest}))
	require.NoError(t, err)
	require.Len(t, got.Files, 5)
	require.Empty(t, got.Tag)

	for _, mediaType := range []string{"application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.docker.image.rootfs.diff.tar.gzip"} {
		r.pushImage(t, "fleet:other", fluxImage(t, archive, mediaType, nil))
		got, err = pull(t, s, r.artifact(ArtifactRef{Tag: "other"}))
		require.NoError(t, err)
		require.Len(t, got.Files, 5)
	}

	for _, tag := range []string{"1.9.0", "1.10.0", "2.0.0", "1.11.0-rc.1"} {
		r.pushArchive(t, "fleet:"+tag, archiveOf(t, fileEntry("version", tag)))
	}
	got, err = pull(t, s, r.artifact(ArtifactRef{Range: ">=1.0.0 <2"}))
	require.NoError(t, err)
	require.Equal(t, "1.10.0", got.Tag)
	require.Equal(t, []File{{"version", []byte("1.10.0")}}, got.Files)
	_, err = pull(t, s, r.artifact(ArtifactRef{Range: ">=3"}))
	requireClass(t, err, NotFound, "no tag of the repository is in the range")
}

// TestIdleArtifact: finding out that nothing changed takes one request for the manifest, without its content.
func TestIdleArtifact(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	digest := r.pushArchive(t, "fleet:prod", archiveOf(t, fileEntry("a", "b")))
	s := newScanner(t, []*server{r})
	before := r.count("")
	got, err := s.ResolveArtifact(t.Context(), r.artifact(ArtifactRef{Tag: "prod"}))
	require.Nil(t, err)
	require.Equal(t, digest, got)
	require.Equal(t, before+2, r.count(""), "the version of the API, and the manifest")

	noHeader := newRegistry(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			next.ServeHTTP(hideDigest{w, q.Method == http.MethodHead || q.Method == http.MethodGet}, q)
		})
	})
	digest = noHeader.pushArchive(t, "fleet:prod", archiveOf(t, fileEntry("a", "b")))
	got, err = newScanner(t, []*server{noHeader}).ResolveArtifact(t.Context(), noHeader.artifact(ArtifactRef{Tag: "prod"}))
	require.Nil(t, err)
	require.Equal(t, digest, got, "a registry without the header")
}

// hideDigest removes the header with the digest.
type hideDigest struct {
	http.ResponseWriter

	hide bool
}

func (w hideDigest) WriteHeader(status int) {
	if w.hide {
		w.Header().Del("Docker-Content-Digest")
	}
	w.ResponseWriter.WriteHeader(status)
}

// TestBadArchives: an archive that may not be unpacked is refused as a whole, with the reason.
func TestBadArchives(t *testing.T) {
	t.Parallel()
	link := func(kind byte, path, to string) archiveEntry {
		return archiveEntry{Header: tar.Header{Name: path, Linkname: to, Typeflag: kind}}
	}
	zipped := func(text string) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return out.Bytes()
	}
	many := make([]archiveEntry, 51)
	for i := range many {
		many[i] = fileEntry(fmt.Sprint("f", i), "")
	}
	good := archiveOf(t, fileEntry("a.yaml", "kind: cluster"))
	for name, test := range map[string]struct {
		archive []byte
		class   Class
		text    string
	}{
		"too large packed":   {bytes.Repeat([]byte("x"), 1<<16+1), TooLarge, "the archive is too large: the limit is 65536 bytes"},
		"too large unpacked": {archiveOf(t, fileEntry("a", strings.Repeat("x", 1<<20+1))), TooLarge, "the unpacked archive is too large: the limit is 1048576 bytes"},
		"bomb of two files":  {archiveOf(t, fileEntry("a", strings.Repeat("x", 600_000)), fileEntry("b", strings.Repeat("x", 600_000))), TooLarge, "unpacked"},
		"bomb of headers":    {zipped(strings.Repeat("\x00", 511) + strings.Repeat("g", 4<<20)), Invalid, "damaged"},
		"bomb behind a file": {append(zipped(strings.Repeat("\x00", 0)), archiveOf(t, fileEntry("a", strings.Repeat("\x00", 4<<20)))...), TooLarge, "unpacked"},
		"too many files":     {archiveOf(t, many...), TooLarge, "too many files: the limit is 50"},
		"symbolic link":      {archiveOf(t, link(tar.TypeSymlink, "a.yaml", "/etc/passwd")), Invalid, `a link, "a.yaml"`},
		"hard link":          {archiveOf(t, fileEntry("a", "x"), link(tar.TypeLink, "b", "a")), Invalid, `a link, "b"`},
		"device":             {archiveOf(t, link(tar.TypeChar, "null", "")), Invalid, "neither a file nor a directory"},
		"pipe":               {archiveOf(t, link(tar.TypeFifo, "pipe", "")), Invalid, "neither a file nor a directory"},
		"absolute path":      {archiveOf(t, fileEntry("/etc/fleet.yaml", "x")), Invalid, `"/etc/fleet.yaml"`},
		"path outside":       {archiveOf(t, fileEntry("fleet/../../x", "x")), Invalid, `"fleet/../../x"`},
		"path outside below": {archiveOf(t, fileEntry("a/..", "x")), Invalid, `"a/.."`},
		"backslash":          {archiveOf(t, fileEntry(`a\..\b`, "x")), Invalid, "backslashes"},
		"control character":  {archiveOf(t, fileEntry("a\x1b[31m", "x")), Invalid, "control characters"},
		"long path":          {archiveOf(t, fileEntry(strings.Repeat("d/", 128)+"f", "x")), Invalid, "of at most 255 bytes"},
		"the same path":      {archiveOf(t, fileEntry("a", "x"), fileEntry("./a", "y")), Invalid, `the path "a" twice`},
		"file and directory": {archiveOf(t, archiveEntry{Header: tar.Header{Name: "a/", Typeflag: tar.TypeDir}}, fileEntry("a", "y")), Invalid, `the path "a" twice`},
		"no archive":         {zipped("kind: cluster\nid: a\n"), Invalid, "not a tar archive"},
		"not compressed":     {[]byte("kind: cluster\nid: a\n"), Invalid, "not compressed with gzip"},
		"empty":              {[]byte{}, Invalid, "not compressed with gzip"},
		"cut off":            {good[:len(good)-20], Invalid, "damaged"},
		"nothing below":      {good, Invalid, "no file below the path fleet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.pushArchive(t, "fleet:prod", test.archive)
			s := newScanner(t, []*server{r}, func(c *Config) { c.Limits.Packed, c.Limits.Unpacked, c.Limits.Files = 1<<16, 1<<20, 50 })
			ref := r.artifact(ArtifactRef{Tag: "prod"})
			if name == "nothing below" {
				ref.Path = "fleet"
			}
			got, err := pull(t, s, ref)
			require.Empty(t, got)
			requireClass(t, err, test.class, test.text)
		})
	}
}

// TestBadManifests: what is no artifact of one archive is refused.
func TestBadManifests(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	s := newScanner(t, []*server{r})
	two, err := mutate.Append(fluxImage(t, archiveOf(t), fluxArchive, nil), mutate.Addendum{Layer: static.NewLayer(archiveOf(t), fluxArchive)})
	require.NoError(t, err)
	for name, img := range map[string]v1.Image{
		"two layers": two, "no layers": empty.Image, "another type": fluxImage(t, archiveOf(t), "application/vnd.cncf.helm.chart.content.v1.tar+gzip", nil),
	} {
		r.pushImage(t, "fleet:prod", img)
		_, err := pull(t, s, r.artifact(ArtifactRef{Tag: "prod"}))
		requireClass(t, err, Invalid, "is not one archive of files")
		require.NotContains(t, err.Error(), "helm", name)
	}
	ref, err := name.ParseReference(r.host() + "/fleet:index")
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(ref, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: empty.Image}), remote.WithTransport(r.Client().Transport)))
	_, err = pull(t, s, r.artifact(ArtifactRef{Tag: "index"}))
	requireClass(t, err, Invalid, "is not one archive of files")
	_, err = pull(t, s, r.artifact(ArtifactRef{Tag: "missing"}))
	requireClass(t, err, NotFound, `no tag "missing"`)
	_, err = s.PullArtifact(t.Context(), r.artifact(ArtifactRef{Tag: "prod"}), "sha256:"+strings.Repeat("0", 64))
	requireClass(t, err, NotFound, "does not exist any more")
	for text, ref := range map[string]ArtifactRef{
		"neither a tag":            {},
		"the tag of the artifact":  {Tag: "a/b"},
		"the digest":               {Digest: "sha256:1"},
		"the path is not":          {Tag: "prod", Path: "../x"},
		"the range of versions is": {Range: "no range"},
	} {
		_, err := pull(t, s, r.artifact(ref))
		requireClass(t, err, Invalid, text)
	}
}

// TestArtifactAnnotations: what a publisher states is short, printable text without credentials.
func TestArtifactAnnotations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"git@github.com:org/fleet.git": "git@github.com:org/fleet.git", "https://github.com/org/fleet": "https://github.com/org/fleet",
		"https://x-token:SECRET@git/a": "https://git/a", "ssh://git@host/a": "ssh://host/a", "https://%zz@x": "", "https://a\nb": "", "main@sha1:1": "main@sha1:1",
		strings.Repeat("x", 1025): "", "a\xff": "", "https://a/b#SECRET": "https://a/b", "a\u202eb": "",
	} {
		require.Equal(t, want, withoutCredentials(annotation(text)), "%q", text)
	}
}

// TestArtifactChangesDuringDownload: a tag that moves, or content that is not that of its digest, is never a part of an artifact.
func TestArtifactChangesDuringDownload(t *testing.T) {
	t.Parallel()
	other := archiveOf(t, fileEntry("evil.yaml", "evil"))
	var replace string // the part of a path whose content is replaced
	r := newRegistry(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if replace != "" && q.Method == http.MethodGet && strings.Contains(q.URL.Path, replace) {
				_, _ = w.Write(other)
				return
			}
			next.ServeHTTP(w, q)
		})
	})
	s := newScanner(t, []*server{r})
	ref := r.artifact(ArtifactRef{Tag: "prod"})
	first := r.pushArchive(t, "fleet:prod", archiveOf(t, fileEntry("a.yaml", "first")))
	digest, failed := s.ResolveArtifact(t.Context(), ref)
	require.Nil(t, failed)
	r.pushArchive(t, "fleet:prod", other)
	got, err := s.PullArtifact(t.Context(), ref, digest)
	require.NoError(t, err)
	require.Equal(t, first, got.Digest)
	require.Equal(t, []File{{"a.yaml", []byte("first")}}, got.Files, "the tag moved")
	for _, replace = range []string{"/manifests/sha256:", "/blobs/"} {
		_, err = s.PullArtifact(t.Context(), ref, digest)
		requireClass(t, err, Invalid, "is not that of its content")
	}
}

// TestArtifactFailures: a registry that is down, limits requests or leads elsewhere is an Error without secrets, and the next attempt is made
// when the caller wants it.
func TestArtifactFailures(t *testing.T) {
	t.Parallel()
	var answer func(w http.ResponseWriter, q *http.Request)
	store := registry.New(registry.Logger(quiet))
	r := newServer(t, func(w http.ResponseWriter, q *http.Request) {
		if answer != nil && q.Method != http.MethodHead {
			answer(w, q)
			return
		}
		store.ServeHTTP(w, q)
	})
	digest := r.pushArchive(t, "fleet:prod", archiveOf(t, fileEntry("a", "b")))
	s := newScanner(t, []*server{r}, func(c *Config) {
		c.AuthFile = authFile(t, `{"auths":{"`+r.host()+`":{"username":"u","password":"SECRET"}}}`)
	})
	ref := r.artifact(ArtifactRef{Tag: "prod"})
	status := func(status int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		class  Class
	}{
		"down":                     {status(http.StatusBadGateway), Unreachable},
		"unauthorized":             {status(http.StatusForbidden), Unauthorized},
		"redirect to metadata":     {redirect("https://169.254.169.254/SECRET"), Refused},
		"redirect without TLS":     {redirect("http://example.com/SECRET"), Refused},
		"connection is cut":        {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Unreachable},
		"compressed":               {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "gzip") }, Invalid},
		"too large for a manifest": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 5<<20)) }, TooLarge},
	} {
		for _, below := range []string{"/v2/fleet/manifests/", "/v2/fleet/blobs/"} {
			if below == "/v2/fleet/blobs/" && name == "too large for a manifest" {
				continue
			}
			answer = func(w http.ResponseWriter, q *http.Request) {
				if strings.HasPrefix(q.URL.Path, below) {
					test.answer(w, q)
					return
				}
				store.ServeHTTP(w, q)
			}
			_, err := s.PullArtifact(t.Context(), ref, digest)
			requireClass(t, err, test.class, r.hostOf(err))
			require.NotContains(t, err.Error(), "SECRET", name)
		}
	}
	answer = nil
	_, err := s.PullArtifact(t.Context(), ref, digest)
	require.NoError(t, err, "no back-off")

	answer = func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/v2/" {
			return
		}
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	var failed *Error
	_, err = s.PullArtifact(t.Context(), ref, digest)
	require.ErrorAs(t, err, &failed)
	require.Equal(t, Limited, failed.Class)
	require.False(t, failed.RetryAt.IsZero())
	answer, before := nil, r.count("")
	_, failed = s.ResolveArtifact(t.Context(), ref)
	require.Equal(t, Limited, failed.Class)
	require.Equal(t, before, r.count(""), "Retry-After is honored")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, failed = newScanner(t, []*server{r}).ResolveArtifact(ctx, ref)
	require.Equal(t, Unreachable, failed.Class)
}

// hostOf returns the host of an error, which is that of a redirect if it refuses one.
func (s *server) hostOf(err error) string {
	failed, _ := err.(*Error) //nolint:errorlint // a test of this type
	if failed != nil && failed.Class == Refused {
		return failed.Host
	}
	return s.host()
}

// TestArtifactOfPrivateAddress: an artifact is subject to the address rules of scans.
func TestArtifactOfPrivateAddress(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	s := newScanner(t, []*server{r}, func(c *Config) { c.AllowPrivate = false })
	_, failed := s.ResolveArtifact(t.Context(), r.artifact(ArtifactRef{Tag: "prod"}))
	require.Equal(t, Refused, failed.Class)
	_, failed = s.ResolveArtifact(t.Context(), ArtifactRef{URL: "https://" + r.host() + "/fleet", Tag: "prod"})
	require.Equal(t, Invalid, failed.Class)
	_, failed = s.ResolveArtifact(t.Context(), ArtifactRef{URL: "oci://user:SECRET@" + r.host() + "/fleet", Tag: "prod"})
	require.Equal(t, Invalid, failed.Class)
	require.NotContains(t, failed.Error(), "SECRET")
	require.Zero(t, r.count(""))
}

// goldenArtifact is the manifest that flux 2.6.4 pushes for a directory with one file, and its layer.
func goldenArtifact(t *testing.T) (manifest, config, layer []byte) {
	t.Helper()
	layer = archiveOf(t, fileEntry("clusters/edge-01.yaml", "kind: cluster\nid: edge-01\n"))
	digest := func(data []byte) string { sum := sha256.Sum256(data); return "sha256:" + hex.EncodeToString(sum[:]) }
	config = []byte(`{"architecture":"","created":"0001-01-01T00:00:00Z","history":[{"created":"0001-01-01T00:00:00Z"}],"os":"","rootfs":{"type":"layers","diff_ids":["sha256:` + strings.Repeat("1", 64) + `"]},"config":{}}`)
	manifest = fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.cncf.flux.config.v1+json","size":%d,"digest":%q},`+
		`"layers":[{"mediaType":"application/vnd.cncf.flux.content.v1.tar+gzip","size":%d,"digest":%q}],`+
		`"annotations":{"org.opencontainers.image.created":"2026-11-29T10:00:00Z","org.opencontainers.image.revision":"main@sha1:b3b00fe35424a45d373bf4c7214178bc36fd7872","org.opencontainers.image.source":"https://github.com/example/fleet"}}`,
		len(config), digest(config), len(layer), digest(layer))
	require.True(t, json.Valid(manifest))
	return manifest, config, layer
}

// TestGoldenArtifact: the bytes of a manifest of flux, behind a server that is not the library's registry.
func TestGoldenArtifact(t *testing.T) {
	t.Parallel()
	manifest, _, layer := goldenArtifact(t)
	sum := sha256.Sum256(manifest)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	layerSum := sha256.Sum256(layer)
	content := map[string][]byte{
		"/v2/": nil, "/v2/fleet/manifests/prod": manifest, "/v2/fleet/manifests/" + digest: manifest,
		"/v2/fleet/blobs/sha256:" + hex.EncodeToString(layerSum[:]): layer,
	}
	r := newServer(t, func(w http.ResponseWriter, q *http.Request) {
		data, ok := content[q.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(data)
	})
	got, err := pull(t, newScanner(t, []*server{r}), r.artifact(ArtifactRef{Tag: "prod"}))
	require.NoError(t, err)
	require.Equal(t, Artifact{
		Digest: digest, Tag: "prod", Revision: "main@sha1:b3b00fe35424a45d373bf4c7214178bc36fd7872", Source: "https://github.com/example/fleet",
		Files: []File{{"clusters/edge-01.yaml", []byte("kind: cluster\nid: edge-01\n")}},
	}, got)
}

// paths returns the paths of files.
func paths(files []File) []string {
	out := map[string]bool{}
	for _, f := range files {
		out[f.Path] = true
	}
	return slices.Sorted(maps.Keys(out))
}

package server_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ociserver "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/versions"
)

// ociRegistry is a registry with TLS.
type ociRegistry struct {
	*httptest.Server

	host string
}

func newOCIRegistry(t testing.TB) *ociRegistry {
	t.Helper()
	r := &ociRegistry{Server: httptest.NewTLSServer(ociserver.New(ociserver.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo))))}
	t.Cleanup(r.Close)
	r.host = strings.TrimPrefix(r.URL, "https://")
	return r
}

func (r *ociRegistry) reader() server.ArtifactReader {
	pool := x509.NewCertPool()
	pool.AddCert(r.Certificate())
	return server.NewArtifactReader(versions.New(versions.Config{AllowPrivate: true, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}))
}

// push pushes files as flux push artifact does.
func (r *ociRegistry) push(t testing.TB, reference string, files map[string]string) {
	t.Helper()
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	entries := tar.NewWriter(zipped)
	for file, text := range files {
		require.NoError(t, entries.WriteHeader(&tar.Header{Name: file, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text))}))
		_, err := entries.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, entries.Close())
	require.NoError(t, zipped.Close())
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.flux.config.v1+json")
	img, err := mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(archive.Bytes(), "application/vnd.cncf.flux.content.v1.tar+gzip")})
	require.NoError(t, err)
	img = mutate.Annotations(img, map[string]string{
		"org.opencontainers.image.revision": "main@sha1:1a2b3c", "org.opencontainers.image.source": "https://git.example.com/platform/fleet",
	}).(v1.Image)
	ref, err := name.ParseReference(r.host + "/" + reference)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img, remote.WithTransport(r.Client().Transport), remote.WithContext(t.Context())))
}

// TestSourceFromRegistry: files as flux push artifact pushes them become documents, as apply reads them.
func TestSourceFromRegistry(t *testing.T) {
	t.Parallel()
	r := newOCIRegistry(t)
	eachStoreWith(t, 1, r.reader(), func(t *testing.T, all []*sourceProcess) {
		t.Helper()
		p, repository := all[0], strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
		r.push(t, repository+":prod", map[string]string{
			"fleet/catalog.yaml":  "kind: ns\nid: shop\n---\nkind: component\nid: podinfo\ncomponent_path: podinfo\noci_url: https://charts.example.com\ncomponent_version: 6.0.0\n",
			"fleet/clusters.json": `{"clusters":[{"_id":"c1","cluster_name":"c1","cluster_dns":"c1.example.com","environment":"dev","namespaces":[{"id":"shop"}]}]}`,
			"fleet/README.md":     "no document", "other/broken.yaml": "kind: [",
		})
		p.must(http.MethodPost, "/access", `{"id":"platform","subjects":[{"source":"platform"}],"may":["write"]}`)
		p.must(http.MethodPost, "/sources", `{"id":"platform","url":"oci://`+r.host+`/`+repository+`","tag":"prod","path":"fleet","prune":true}`)
		source := p.ready()
		require.Equal(t, 3, source.Status.Documents)
		require.Equal(t, "main@sha1:1a2b3c", source.Status.ArtifactRevision)
		require.Equal(t, "https://git.example.com/platform/fleet", source.Status.ArtifactSource)
		_, body := p.do(http.MethodPatch, "/namespaces/shop", `{"labels":{"a":"b"}}`)
		require.Contains(t, body, "fleet/catalog.yaml")

		for message, text := range map[string]string{
			`there is no kind "token"`: "kind: token\nid: mine\n", "neither JSON nor YAML": "kind: [\n", "is in fleet/a.yaml already": "kind: ns\nid: shop\n---\nkind: ns\nid: shop\n",
			"needs an id": "kind: ns\n",
		} {
			r.push(t, repository+":prod", map[string]string{"fleet/a.yaml": text})
			require.Contains(t, p.cycle().Status.Message, strings.TrimSuffix(message, "fleet/a.yaml already"))
			require.Equal(t, "held", p.source().Status.State)
		}
		p.must(http.MethodPatch, "/sources/platform", `{"verify":{"keys":["-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE6koIyGQT0Qy+d4xaqlYD/VLUkA2r\nUnoit19QO9NLEGrjEjzNNaG2u5wZoGVags3YxCUNcoHS23QHR3pbjMOdeQ==\n-----END PUBLIC KEY-----\n"]}}`)
		r.push(t, repository+":prod", map[string]string{"fleet/a.yaml": "kind: ns\nid: shop\n"})
		failed := p.cycle()
		require.Equal(t, "failed", failed.Status.State)
		require.Contains(t, failed.Status.Message, "signature")
		require.Equal(t, 3, failed.Status.Documents)
	})
}

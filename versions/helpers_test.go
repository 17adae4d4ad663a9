package versions

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// quiet discards what libraries log.
var quiet = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)

// server is an HTTPS server that counts its requests.
type server struct {
	*httptest.Server

	mu       sync.Mutex
	requests []*http.Request
	parallel int
	most     int
}

func newServer(t testing.TB, handler http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Clone(context.Background()))
		s.parallel++
		s.most = max(s.most, s.parallel)
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.parallel--
			s.mu.Unlock()
		}()
		handler(w, r)
	}))
	s.Config.ErrorLog = quiet
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// host is the address of the server, as a registry.
func (s *server) host() string { return strings.TrimPrefix(s.URL, "https://") }

// count returns the number of requests whose path contains a text.
func (s *server) count(path string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.Contains(r.URL.Path, path) {
			n++
		}
	}
	return n
}

// headers returns the values of a header in all requests.
func (s *server) headers(key string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		out = append(out, r.Header.Get(key))
	}
	return out
}

// newScanner returns a scanner that may send requests to the servers.
func newScanner(t *testing.T, servers []*server, change ...func(*Config)) *Scanner {
	t.Helper()
	pool := x509.NewCertPool()
	for _, s := range servers {
		pool.AddCert(s.Certificate())
	}
	cfg := Config{AllowPrivate: true, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	for _, f := range change {
		f(&cfg)
	}
	return New(cfg)
}

// authFile writes a config.json of Docker.
func authFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// scanOne scans one source.
func scanOne(t *testing.T, s *Scanner, source Source) (out Result) {
	t.Helper()
	calls := 0
	require.NoError(t, s.Scan(t.Context(), []Source{source}, func(_ int, r Result) { out, calls = r, calls+1 }))
	require.Equal(t, 1, calls)
	return out
}

// scanAll scans sources.
func scanAll(t *testing.T, s *Scanner, sources ...Source) []Result {
	t.Helper()
	out, calls := make([]Result, len(sources)), make([]int, len(sources))
	require.NoError(t, s.Scan(t.Context(), sources, func(i int, r Result) { out[i], calls[i] = r, calls[i]+1 }))
	for i, n := range calls {
		require.Equal(t, 1, n, "source %d", i)
	}
	return out
}

func every(string) bool { return true }

// names returns the versions of a result.
func names(versions []Version) []string {
	out := []string{}
	for _, v := range versions {
		out = append(out, v.Version)
	}
	return out
}

// newRegistry returns the registry of go-containerregistry, after middleware.
func newRegistry(t *testing.T, middleware ...func(http.Handler) http.Handler) *server {
	t.Helper()
	handler := registry.New(registry.Logger(quiet))
	for _, m := range middleware {
		handler = m(handler)
	}
	return newServer(t, handler.ServeHTTP)
}

// push pushes an image that was created at a time, and returns its digest.
func (s *server) push(t *testing.T, reference string, created time.Time, annotations map[string]string) string {
	t.Helper()
	ref, err := name.ParseReference(s.host() + "/" + reference)
	require.NoError(t, err)
	img, err := mutate.CreatedAt(empty.Image, v1.Time{Time: created})
	require.NoError(t, err)
	if annotations != nil {
		img = mutate.Annotations(img, annotations).(v1.Image) //nolint:forcetypeassert // it returns what it receives
	}
	require.NoError(t, remote.Write(ref, img, remote.WithTransport(s.Client().Transport)))
	digest, err := img.Digest()
	require.NoError(t, err)
	s.mu.Lock()
	s.requests = nil
	s.mu.Unlock()
	return digest.String()
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u
}

// check returns the reason why a source cannot be scanned; nil: there is none.
func (s *Scanner) check(source Source) *Error {
	_, err := s.parse(source)
	return err
}

// someManifest is a manifest without a time.
const someManifest = `{"config":{"digest":"x"}}`

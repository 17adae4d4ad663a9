package objectstore_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/objectstore"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

const (
	bucket = "backups"
	key    = "fleet/a.db"
)

func config(endpoint string) objectstore.Config {
	return objectstore.Config{
		Endpoint: endpoint, Timeout: time.Minute,
		Credentials: objectstore.Credentials{AccessKeyID: testrig.S3Key, SecretAccessKey: testrig.S3Secret},
	}
}

func open(t *testing.T, cfg objectstore.Config) *objectstore.Bucket {
	t.Helper()
	b, problems := objectstore.Open(cfg, bucket)
	require.Empty(t, problems)
	return b
}

// file has an odd size, no multiple of a block.
func file(t *testing.T, first byte) (*os.File, []byte) {
	t.Helper()
	content := bytes.Repeat([]byte{first, 2, 3}, 300_007)
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f, content
}

// between is a proxy whose handler may interfere with a request.
func between(t *testing.T, server *testrig.S3, handle func(pass http.Handler) http.HandlerFunc) string {
	t.Helper()
	target, err := url.Parse(server.Endpoint)
	require.NoError(t, err)
	// The signature covers the host that the client requested, so the server must see that host.
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host }}
	pass.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	proxy := httptest.NewServer(handle(pass))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

func TestPutAndGet(t *testing.T) {
	t.Parallel()
	server := testrig.StartS3(t, bucket)
	b := open(t, config(server.Endpoint))
	f, content := file(t, 1)
	require.NoError(t, b.CheckVacant(t.Context(), key))
	require.NoError(t, b.Put(t.Context(), key, f, map[string]string{"revision": "2:x"}))
	require.ErrorIs(t, b.CheckVacant(t.Context(), key), objectstore.ErrExists)
	var got bytes.Buffer
	require.NoError(t, b.Get(t.Context(), key, &got))
	require.True(t, bytes.Equal(content, got.Bytes()))

	other, _ := file(t, 7)
	require.ErrorIs(t, b.Put(t.Context(), key, other, nil), objectstore.ErrExists)
	got.Reset()
	require.NoError(t, b.Get(t.Context(), key, &got))
	require.True(t, bytes.Equal(content, got.Bytes()), "it was replaced")
	require.ErrorIs(t, b.Get(t.Context(), "fleet/b.db", io.Discard), objectstore.ErrMissing)
}

// TestConcurrentPutsOfOneName: exactly one of several concurrent writers succeeds, and its file is stored.
func TestConcurrentPutsOfOneName(t *testing.T) {
	t.Parallel()
	server := testrig.StartS3(t, bucket)
	b := open(t, config(server.Endpoint))
	var won atomic.Int32
	var winner atomic.Pointer[[]byte]
	var all sync.WaitGroup
	for i := range 6 {
		f, content := file(t, byte(10+i))
		all.Go(func() {
			if err := b.Put(t.Context(), key, f, nil); err == nil {
				won.Add(1)
				winner.Store(&content)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, won.Load())
	var got bytes.Buffer
	require.NoError(t, b.Get(t.Context(), key, &got))
	require.True(t, bytes.Equal(*winner.Load(), got.Bytes()))
}

// TestInterruptedUpload: an upload ended by the network, the timeout or the caller leaves no object.
func TestInterruptedUpload(t *testing.T) {
	t.Parallel()
	server := testrig.StartS3(t, bucket)
	nothing := func(t *testing.T, says string, err error) {
		t.Helper()
		require.Error(t, err)
		require.Contains(t, err.Error(), says)
		require.NotContains(t, err.Error(), testrig.S3Secret)
		require.NoError(t, open(t, config(server.Endpoint)).CheckVacant(context.Background(), key))
		left, err := filepath.Glob(filepath.Join(server.Objects, bucket, "*"))
		require.NoError(t, err)
		for _, dir := range left {
			entries, err := filepath.Glob(filepath.Join(dir, "*.db"))
			require.NoError(t, err)
			require.Empty(t, entries)
		}
	}
	cut := func(cancel func()) string {
		return between(t, server, func(pass http.Handler) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPut {
					pass.ServeHTTP(w, r)
					return
				}
				r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, 200_000), failing{cancel, r.Context()}))
				pass.ServeHTTP(w, r)
			}
		})
	}
	f, _ := file(t, 1)
	t.Run("network", func(t *testing.T) {
		nothing(t, "502", open(t, config(cut(func() {}))).Put(t.Context(), key, f, nil))
	})
	t.Run("caller", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		nothing(t, "canceled", open(t, config(cut(cancel))).Put(ctx, key, f, nil))
	})
	t.Run("time", func(t *testing.T) {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // takes connections and never answers
		require.NoError(t, err)
		defer l.Close()
		cfg := config("http://" + l.Addr().String())
		cfg.Timeout = 200 * time.Millisecond
		nothing(t, "not done within 200ms", open(t, cfg).Put(t.Context(), key, f, nil))
		require.ErrorContains(t, open(t, cfg).Get(t.Context(), key, io.Discard), "not done within 200ms")
		require.ErrorContains(t, open(t, cfg).CheckVacant(t.Context(), key), "not done within 200ms")
	})
}

// failing is a body that ends with an error.
type failing struct {
	first func()
	ctx   context.Context // of the request whose body it is
}

func (f failing) Read([]byte) (int, error) {
	f.first()
	if f.ctx.Err() != nil {
		<-f.ctx.Done()
	}
	return 0, io.ErrUnexpectedEOF
}

// TestLostAnswer: the upload succeeds but its answer is lost, and the retry is answered that the object exists.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	server := testrig.StartS3(t, bucket)
	var puts atomic.Int32
	b := open(t, config(between(t, server, func(pass http.Handler) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && puts.Add(1) == 1 {
				pass.ServeHTTP(httptest.NewRecorder(), r)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			pass.ServeHTTP(w, r)
		}
	})))
	f, content := file(t, 1)
	require.NoError(t, b.Put(t.Context(), key, f, nil))
	require.Greater(t, puts.Load(), int32(1))
	var got bytes.Buffer
	require.NoError(t, b.Get(t.Context(), key, &got))
	require.True(t, bytes.Equal(content, got.Bytes()))
}

// TestServerWithoutConditions: if the server rejects conditional requests, Put looks for the object before the upload.
func TestServerWithoutConditions(t *testing.T) {
	t.Parallel()
	server := testrig.StartS3(t, bucket)
	var blind atomic.Bool // the credential may only write
	b := open(t, config(between(t, server, func(pass http.Handler) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Header.Get("If-None-Match") != "":
				w.WriteHeader(http.StatusNotImplemented)
			case r.Method == http.MethodHead && blind.Load():
				w.WriteHeader(http.StatusForbidden)
			default:
				pass.ServeHTTP(w, r)
			}
		}
	})))
	f, content := file(t, 1)
	require.NoError(t, b.Put(t.Context(), key, f, nil))
	other, _ := file(t, 7)
	require.ErrorIs(t, b.Put(t.Context(), key, other, nil), objectstore.ErrExists)
	blind.Store(true)
	require.ErrorContains(t, b.Put(t.Context(), key, other, nil), "nothing was uploaded", "whoever may only write does not know what is there")
	var got bytes.Buffer
	require.NoError(t, b.Get(t.Context(), key, &got))
	require.True(t, bytes.Equal(content, got.Bytes()))
}

// TestDamage in transit, in either direction, and on the server is reported.
func TestDamage(t *testing.T) {
	t.Parallel()
	server := testrig.StartS3(t, bucket)
	damaging := between(t, server, func(pass http.Handler) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				r.Body = io.NopCloser(&flipping{r.Body})
			}
			pass.ServeHTTP(w, r)
		}
	})
	f, _ := file(t, 1)
	require.ErrorContains(t, open(t, config(damaging)).Put(t.Context(), key, f, nil), "400")
	b := open(t, config(server.Endpoint))
	require.NoError(t, b.CheckVacant(t.Context(), key))

	require.NoError(t, b.Put(t.Context(), key, f, nil))
	stored := filepath.Join(server.Objects, bucket, key)
	content, err := os.ReadFile(stored)
	require.NoError(t, err)
	content[1000]++
	require.NoError(t, os.WriteFile(stored, content, 0o600))
	require.ErrorIs(t, b.Get(t.Context(), key, io.Discard), objectstore.ErrDamaged)
}

// flipping inverts the first byte of each read.
type flipping struct{ io.Reader }

func (f *flipping) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if n > 0 {
		p[0]++
	}
	return n, err
}

// TestRefusals: errors name the server's code, and never the secret.
func TestRefusals(t *testing.T) {
	t.Parallel()
	server := testrig.StartS3(t, bucket)
	f, _ := file(t, 1)
	wrong := config(server.Endpoint)
	wrong.SecretAccessKey += "x"
	err := open(t, wrong).Put(t.Context(), key, f, nil)
	require.ErrorContains(t, err, "SignatureDoesNotMatch, 403")
	require.NotContains(t, err.Error(), testrig.S3Secret)
	require.ErrorContains(t, open(t, wrong).Get(t.Context(), key, io.Discard), "SignatureDoesNotMatch, 403")

	other, problems := objectstore.Open(config(server.Endpoint), "elsewhere")
	require.Empty(t, problems)
	require.ErrorContains(t, other.Put(t.Context(), key, f, nil), "NoSuchBucket, 404")
	require.ErrorContains(t, other.Get(t.Context(), key, io.Discard), "NoSuchBucket, 404")

	tls := strings.Replace(server.Endpoint, "http:", "https:", 1)
	require.ErrorContains(t, open(t, config(tls)).Put(t.Context(), key, f, nil), "HTTP response to HTTPS client")
}

// TestRoles: credentials of a role from a web identity and from an agent.
func TestRoles(t *testing.T) {
	t.Parallel()
	const answer = `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>` +
		`<AccessKeyId>` + testrig.S3Key + `</AccessKeyId><SecretAccessKey>` + testrig.S3Secret + `</SecretAccessKey><Expiration>2099-01-01T00:00:00Z</Expiration>` +
		`</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`
	server := testrig.StartS3(t, bucket)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("signed-by-the-cluster"), 0o600))
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.FormValue("WebIdentityToken") == "signed-by-the-cluster" && r.FormValue("RoleArn") == "arn:aws:iam::1:role/backup":
			_, _ = io.WriteString(w, answer)
		case r.Header.Get("Authorization") == "signed-by-the-cluster" && r.URL.Path == "/agent":
			_, _ = io.WriteString(w, `{"AccessKeyId": "`+testrig.S3Key+`", "SecretAccessKey": "`+testrig.S3Secret+`", "Expiration": "2099-01-01T00:00:00Z"}`)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(agent.Close)
	f, _ := file(t, 1)
	for name, credentials := range map[string]objectstore.Credentials{
		"web-identity": {WebIdentityTokenFile: token, RoleARN: "arn:aws:iam::1:role/backup", STSEndpoint: agent.URL},
		"agent":        {ContainerURI: agent.URL + "/agent", ContainerTokenFile: token},
	} {
		cfg := config(server.Endpoint)
		cfg.Credentials = credentials
		require.NoError(t, open(t, cfg).Put(t.Context(), name, f, nil), name)
	}
	cfg := config(server.Endpoint)
	cfg.Credentials = objectstore.Credentials{WebIdentityTokenFile: token, RoleARN: "arn:aws:iam::1:role/other", STSEndpoint: agent.URL}
	err := open(t, cfg).Put(t.Context(), "refused", f, nil)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "signed-by-the-cluster")
}

// TestTrust: a certificate of a CA that only AWS_CA_BUNDLE contains.
func TestTrust(t *testing.T) {
	t.Parallel()
	server := testrig.StartS3(t, bucket)
	target, err := url.Parse(server.Endpoint)
	require.NoError(t, err)
	front := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", target.Host }})
	front.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	front.StartTLS()
	t.Cleanup(front.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pemOf(front), 0o600))
	f, content := file(t, 1)
	cfg := config(front.URL)
	require.ErrorContains(t, open(t, cfg).Put(t.Context(), key, f, nil), "unknown authority")
	cfg.CAFile = ca
	require.NoError(t, open(t, cfg).Put(t.Context(), key, f, nil))
	var got bytes.Buffer
	require.NoError(t, open(t, cfg).Get(t.Context(), key, &got))
	require.True(t, bytes.Equal(content, got.Bytes()))
}

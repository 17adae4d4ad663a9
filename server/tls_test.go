package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
)

// authority is a certificate authority of a test.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{t, cert, key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue makes a certificate with DNS names; serial tells certificates apart.
func (a *authority) issue(serial int64, names ...string) (cert, key []byte) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: demoDNS}, DNSNames: names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	require.NoError(a.t, err)
	encoded, err := x509.MarshalECPrivateKey(private)
	require.NoError(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func (a *authority) client(serial int64, names ...string) tls.Certificate {
	a.t.Helper()
	cert, key := a.issue(serial, names...)
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(a.t, err)
	return pair
}

// tlsWorld is a world behind server.Serve with TLS.
type tlsWorld struct {
	*world
	files server.TLSFiles
	ca    *authority
	url   string
}

func setupTLS(t *testing.T, clientCA *authority, more ...func(*server.Config)) *tlsWorld {
	t.Helper()
	dir := t.TempDir()
	tw := &tlsWorld{world: &world{t: t}, ca: newAuthority(t, "server"), files: server.TLSFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}}
	tw.install(1)
	if clientCA != nil {
		tw.files.ClientCA = filepath.Join(dir, "ca.crt")
		tw.write(tw.files.ClientCA, clientCA.pem(), 1)
	}
	var identity *server.TLS
	var logger *slog.Logger
	tw.world = setupWith(t, options{configure: func(c *server.Config) {
		var err error
		logger = c.Logger
		identity, err = server.NewTLS(tw.files, c.Logger, c.Now)
		require.NoError(t, err)
		c.TLS = identity
		for _, configure := range more {
			configure(c)
		}
	}})
	config := identity.Config()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, ln, tw.http.Config.Handler, config, logger) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-served) })
	tw.url = "https://" + ln.Addr().String()
	return tw
}

// install replaces the server certificate, with a date that makes the change visible on every file system.
func (tw *tlsWorld) install(serial int64) {
	tw.t.Helper()
	cert, key := tw.ca.issue(serial, "localhost")
	tw.write(tw.files.Key, key, serial)
	tw.write(tw.files.Cert, cert, serial)
}

func (tw *tlsWorld) write(path string, data []byte, serial int64) {
	tw.t.Helper()
	require.NoError(tw.t, os.WriteFile(path, data, 0o600))
	at := start.Add(time.Duration(serial) * time.Second)
	require.NoError(tw.t, os.Chtimes(path, at, at))
}

// ask sends a request over a connection of its own, and returns the status and the server certificate's serial number.
func (tw *tlsWorld) ask(path, token string, with ...tls.Certificate) (int, int64, error) {
	config := &tls.Config{RootCAs: tw.ca.pool(), MinVersion: tls.VersionTLS12}
	if len(with) > 0 { // regardless of the authorities that the server names
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &with[0], nil }
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}
	req, err := http.NewRequestWithContext(tw.t.Context(), http.MethodGet, tw.url+path, nil)
	if err != nil {
		return 0, 0, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err == nil {
		err = res.Body.Close()
	}
	return res.StatusCode, res.TLS.PeerCertificates[0].SerialNumber.Int64(), err
}

func (tw *tlsWorld) serial() int64 {
	tw.t.Helper()
	status, serial, err := tw.ask("/health", "")
	require.NoError(tw.t, err)
	require.Equal(tw.t, 200, status)
	return serial
}

// Certificates are replaced while polls go on, and none of them fails.
func TestTLSReload(t *testing.T) {
	t.Parallel()
	tw := setupTLS(t, nil)
	require.EqualValues(t, 1, tw.serial())

	stop, polled := make(chan struct{}), make(chan error, 1)
	var polls atomic.Int64
	go func() {
		for {
			select {
			case <-stop:
				polled <- nil
				return
			default:
			}
			status, _, err := tw.ask(demoPolls+"/namespaces", readToken)
			if err != nil || status != 200 {
				polled <- errors.Join(err, fmt.Errorf("a poll was answered %d", status))
				return
			}
			polls.Add(1)
		}
	}()
	tw.install(2)
	require.EqualValues(t, 1, tw.serial(), "looked at no more than once a second")
	tw.clock.advance(time.Second)
	require.EqualValues(t, 2, tw.serial())

	// A renewal that is half written, or not a certificate, or gone, keeps the one before.
	for i, broken := range []func(){
		func() { tw.write(tw.files.Cert, []byte("-----BEGIN CERTIFICATE-----\nMIIB"), 3) },
		func() { cert, _ := tw.ca.issue(4, "localhost"); tw.write(tw.files.Cert, cert, 4) }, // of another key
		func() { tw.write(tw.files.Cert, nil, 5) },
		func() { require.NoError(t, os.Remove(tw.files.Cert)) },
	} {
		broken()
		tw.clock.advance(time.Second)
		require.EqualValues(t, 2, tw.serial(), i)
	}
	failures := func() int {
		return len(tw.logs.lines(t, "the TLS files cannot be loaded; the certificate before stays in use"))
	}
	require.Equal(t, 4, failures(), "each problem once")
	for range 5 {
		tw.clock.advance(time.Second)
		require.EqualValues(t, 2, tw.serial())
	}
	require.Equal(t, 4, failures(), "not again while it lasts")
	tw.install(6)
	tw.clock.advance(time.Second)
	require.EqualValues(t, 6, tw.serial())
	require.Eventually(t, func() bool { return polls.Load() > 10 }, time.Minute, time.Millisecond)
	close(stop)
	require.NoError(t, <-polled)
	require.NotContains(t, tw.logs.String(), "PRIVATE KEY")
}

func TestTLSFilesChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newAuthority(t, "x")
	cert, key := ca.issue(1, "localhost")
	_, other := ca.issue(2, "localhost")
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	good := server.TLSFiles{Cert: write("c", cert), Key: write("k", key)}
	for name, files := range map[string]server.TLSFiles{
		"no certificate":  {Cert: filepath.Join(dir, "none"), Key: good.Key},
		"another key":     {Cert: good.Cert, Key: write("o", other)},
		"no CA":           {Cert: good.Cert, Key: good.Key, ClientCA: filepath.Join(dir, "none")},
		"a CA of nothing": {Cert: good.Cert, Key: good.Key, ClientCA: write("e", []byte("x"))},
	} {
		_, err := server.NewTLS(files, slog.New(slog.DiscardHandler), time.Now)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "PRIVATE")
	}
	_, err := server.NewTLS(good, slog.New(slog.DiscardHandler), time.Now)
	require.NoError(t, err)
}

// A certificate from the client CA identifies its cluster: it is valid for the cluster's own polls only.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	clients := newAuthority(t, "clients")
	tw := setupTLS(t, clients)
	tw.create("/clusters", `{"id":"other","cluster_dns":"other.example.com","environment":"dev"}`)
	own, upper := clients.client(10, demoDNS), clients.client(11, "x.example.com", "DEMO-CLUSTER-01.k8s.example.com")
	nameless, wildcard := clients.client(12), clients.client(13, "*.k8s.example.com")
	const others = "/api/v2/flux/clusters/other.example.com/namespaces"

	for _, tc := range []struct {
		name, path, token string
		cert              []tls.Certificate
		want              int
	}{
		{"its own polls", demoPolls + "/namespaces", "", []tls.Certificate{own}, 200},
		{"its own polls in upper case", "/api/v2/flux/clusters/DEMO-cluster-01.k8s.example.com./rolebindings", "", []tls.Certificate{own}, 200},
		{"a name in upper case", demoPolls + "/platform-components", "", []tls.Certificate{upper}, 200},
		{"another's polls", others, "", []tls.Certificate{own}, 403},
		{"the list of clusters", "/api/v2/flux/clusters", "", []tls.Certificate{own}, 403},
		{"documents", demoCluster, "", []tls.Certificate{own}, 403},
		{"revisions", "/revisions", "", []tls.Certificate{own}, 403},
		{"a wildcard", demoPolls + "/namespaces", "", []tls.Certificate{wildcard}, 403},
		{"the common name alone", demoPolls + "/namespaces", "", []tls.Certificate{nameless}, 401},
		{"no certificate", demoPolls + "/namespaces", "", nil, 401},
		{"no certificate and a token", demoPolls + "/namespaces", readToken, nil, 200},
		{"a certificate and the read token", others, readToken, []tls.Certificate{own}, 200},
		{"a certificate and a wrong token", demoPolls + "/namespaces", "wrong", []tls.Certificate{own}, 401},
		{"probes", "/health", "", []tls.Certificate{own}, 200},
	} {
		status, _, err := tw.ask(tc.path, tc.token, tc.cert...)
		require.NoError(t, err, tc.name)
		require.Equal(t, tc.want, status, tc.name)
	}
	for _, path := range []string{demoPolls + "/namespaces", "/health"} {
		_, _, err := tw.ask(path, readToken, newAuthority(t, "foreign").client(20, demoDNS))
		require.Error(t, err, "a certificate of another authority ends the handshake")
	}
}

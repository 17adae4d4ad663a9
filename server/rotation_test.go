package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
)

// trusting is the configuration of a client with certificates of its own.
func (tw *tlsWorld) trusting(with ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: tw.ca.pool(), MinVersion: tls.VersionTLS12, Certificates: with}
}

// call sends one request over a client's connections, and reports whether it reused one.
func (tw *tlsWorld) call(client *http.Client, path, token string) (status int, reused bool, err error) {
	ctx := httptrace.WithClientTrace(tw.t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, tw.url+path, nil)
	if err != nil {
		return 0, false, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, reused, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, reused, errors.Join(err, res.Body.Close())
}

// pollers are polls that go on while something is changed: some over new connections, some over kept ones.
type pollers struct {
	wg     sync.WaitGroup
	gate   sync.RWMutex // held for reading during a request
	done   chan struct{}
	polls  atomic.Int64
	failed atomic.Int64
	first  atomic.Pointer[error]
}

// startPolls polls with the current identity until stop is called.
func (tw *tlsWorld) startPolls(identity func() (token string, with []tls.Certificate)) *pollers {
	l := &pollers{done: make(chan struct{})}
	for i := range 4 {
		l.wg.Go(func() {
			_, with := identity()
			kept := &http.Client{Transport: &http.Transport{TLSClientConfig: tw.trusting(with...), ForceAttemptHTTP2: i == 1}}
			defer kept.CloseIdleConnections()
			for {
				select {
				case <-l.done:
					return
				default:
				}
				l.gate.RLock()
				token, with := identity()
				client := kept
				if i%2 == 0 { // as a Flux Operator does
					client = &http.Client{Transport: &http.Transport{TLSClientConfig: tw.trusting(with...), DisableKeepAlives: true}}
				}
				status, _, err := tw.call(client, demoPolls+"/namespaces", token)
				l.gate.RUnlock()
				l.polls.Add(1)
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("a poll was answered %d", status)
				}
				if err != nil {
					l.failed.Add(1)
					l.first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	return l
}

// switched returns when no request with the previous identity is in progress.
func (l *pollers) switched() { l.gate.Lock(); defer l.gate.Unlock() }

// more waits for so many more polls.
func (l *pollers) more(t *testing.T, n int64) {
	t.Helper()
	at := l.polls.Load() + n
	require.Eventually(t, func() bool { return l.polls.Load() >= at }, 2*time.Minute, time.Millisecond)
}

func (l *pollers) stop(t *testing.T) {
	t.Helper()
	close(l.done)
	l.wg.Wait()
	if first := l.first.Load(); first != nil {
		require.NoError(t, *first)
	}
	require.Zero(t, l.failed.Load())
	t.Logf("%d polls, %d failed", l.polls.Load(), l.failed.Load())
}

// The token that clusters poll with and the server's certificate are rotated, each several times, and no poll fails.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	tw := setupTLS(t, nil)
	token := tw.issue(pollBody)
	var secret atomic.Pointer[string]
	secret.Store(&token.secret)
	l := tw.startPolls(func() (string, []tls.Certificate) { return *secret.Load(), nil })
	for serial := int64(2); serial < 6; serial++ {
		l.more(t, 20)
		old := *secret.Load()
		next, _ := tw.do("POST", "/tokens/"+token.id+"/rotate", `{"overlap":"1h"}`).want(200).json()["token"].(string)
		tw.install(serial)
		tw.clock.advance(time.Second)
		l.more(t, 20) // with the secret from before
		secret.Store(&next)
		l.switched()
		tw.clock.advance(time.Hour)
		l.more(t, 20)
		require.Equal(t, serial, tw.serial())
		tw.get(demoPolls+"/namespaces", bearer(old)...).want(401)
	}
	l.stop(t)
}

// The authority of client certificates is replaced, with both trusted in between, and no poll fails.
func TestClientCARotationUnderLoad(t *testing.T) {
	t.Parallel()
	old, next := newAuthority(t, "old"), newAuthority(t, "new")
	tw := setupTLS(t, old, func(c *server.Config) { c.RequireClientCert = true })
	certificates := []tls.Certificate{old.client(10, demoDNS), next.client(11, demoDNS)}
	use := func(i int) func() (string, []tls.Certificate) {
		return func() (string, []tls.Certificate) { return "", certificates[i : i+1] }
	}
	before := tw.startPolls(use(0))
	before.more(t, 20)
	tw.write(tw.files.ClientCA, append(old.pem(), next.pem()...), 2)
	tw.clock.advance(time.Second)
	after := tw.startPolls(use(1))
	before.more(t, 20)
	after.more(t, 20)
	before.stop(t)

	kept := &http.Client{Transport: &http.Transport{TLSClientConfig: tw.trusting(certificates[0])}}
	defer kept.CloseIdleConnections()
	status, _, err := tw.call(kept, demoPolls+"/namespaces", "")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	tw.write(tw.files.ClientCA, next.pem(), 3)
	tw.clock.advance(time.Second)
	require.Eventually(t, func() bool { // a poll beside it may be the one that reads the files just now
		status, reused, err := tw.call(kept, demoPolls+"/namespaces", "")
		return err == nil && reused && status == 401
	}, waitFor, tick, "a connection from before the change is no way around it")
	_, _, err = tw.ask(demoPolls+"/namespaces", "", certificates[0])
	require.Error(t, err)
	after.more(t, 20)
	after.stop(t)
}

// A certificate that expires is no identity any more, on a connection that is still open either.
func TestClientCertificateExpires(t *testing.T) {
	t.Parallel()
	clients := newAuthority(t, "clients")
	tw := setupTLS(t, clients)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: tw.trusting(clients.client(10, demoDNS))}}
	defer client.CloseIdleConnections()
	status, _, err := tw.call(client, demoPolls+"/namespaces", "")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	tw.clock.advance(time.Since(start) + 2*time.Hour) // the test's certificates are made for the real time
	status, reused, err := tw.call(client, demoPolls+"/namespaces", "")
	require.NoError(t, err)
	require.True(t, reused)
	require.Equal(t, 401, status)
}

// With REQUIRE_CLIENT_CERT a token is good only beside a certificate; probes need neither.
func TestRequireClientCert(t *testing.T) {
	t.Parallel()
	clients := newAuthority(t, "clients")
	tw := setupTLS(t, clients, func(c *server.Config) { c.RequireClientCert = true })
	own, other, nameless := clients.client(10, demoDNS), clients.client(11, "other.example.com"), clients.client(12)
	token := tw.issueOver(own, pollBody)
	for _, tc := range []struct {
		name, path, token string
		cert              []tls.Certificate
		want              int
	}{
		{"liveness", "/health", "", nil, 200},
		{"readiness", "/ready", "", nil, 200},
		{"metrics", "/metrics", "", nil, 200},
		{"the read token alone", demoPolls + "/namespaces", readToken, nil, 401},
		{"the write token alone", demoCluster, writeToken, nil, 401},
		{"a poll token alone", demoPolls + "/namespaces", token, nil, 401},
		{"nothing", demoPolls + "/namespaces", "", nil, 401},
		{"the cluster's certificate alone", demoPolls + "/namespaces", "", []tls.Certificate{own}, 200},
		{"another's certificate alone", demoPolls + "/namespaces", "", []tls.Certificate{other}, 403},
		{"a poll token and a certificate", demoPolls + "/namespaces", token, []tls.Certificate{nameless}, 200},
		{"the read token and a certificate", demoCluster, readToken, []tls.Certificate{nameless}, 200},
		{"a wrong token and the cluster's certificate", demoPolls + "/namespaces", "wrong", []tls.Certificate{own}, 401},
		{"a certificate without a name", demoPolls + "/namespaces", "", []tls.Certificate{nameless}, 401},
	} {
		status, _, err := tw.ask(tc.path, tc.token, tc.cert...)
		require.NoError(t, err, tc.name)
		require.Equal(t, tc.want, status, tc.name)
	}
	require.NotEmpty(t, tw.logs.lines(t, "request refused"))
	require.Equal(t, "no_certificate", tw.logs.lines(t, "request refused")[0]["reason"])
}

// issueOver creates a token over a connection with a certificate.
func (tw *tlsWorld) issueOver(with tls.Certificate, body string) string {
	tw.t.Helper()
	before := tw.client.Transport
	plain := &http.Transport{TLSClientConfig: tw.trusting(with)}
	defer plain.CloseIdleConnections()
	req := tw.request(http.MethodPost, "/tokens", body)
	req.URL.Scheme, req.URL.Host = "https", strings.TrimPrefix(tw.url, "https://")
	tw.client.Transport = &contractTransport{t: tw.t, next: plain}
	defer func() { tw.client.Transport = before }()
	secret, _ := tw.send(req).want(201).json()["token"].(string)
	return secret
}

// Old versions, suites without forward secrecy or authenticated encryption, and sessions that would skip the certificate are
// refused.
func TestTLSHandshake(t *testing.T) {
	t.Parallel()
	tw := setupTLS(t, newAuthority(t, "clients"))
	addr := strings.TrimPrefix(tw.url, "https://")
	dial := func(change func(*tls.Config)) (tls.ConnectionState, error) {
		config := tw.trusting()
		change(config)
		conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return tls.ConnectionState{}, err
		}
		defer func() { _ = conn.Close() }()
		// A session ticket comes after the handshake of TLS 1.3, with the first bytes.
		if _, err := io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			return tls.ConnectionState{}, err
		}
		if _, err := io.ReadAll(conn); err != nil {
			return tls.ConnectionState{}, err
		}
		return conn.(*tls.Conn).ConnectionState(), nil
	}
	for name, change := range map[string]func(*tls.Config){
		"TLS 1.1": func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
		"CBC": func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}
		},
		"no forward secrecy": func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}
		},
		"another authority": func(c *tls.Config) { c.RootCAs = x509.NewCertPool() },
	} {
		_, err := dial(change)
		require.Error(t, err, name)
	}
	cache := tls.NewLRUClientSessionCache(4)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for range 2 {
			state, err := dial(func(c *tls.Config) { c.MaxVersion, c.ClientSessionCache = version, cache })
			require.NoError(t, err)
			require.Equal(t, version, state.Version)
			require.False(t, state.DidResume)
		}
	}
}

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// TLSFiles are the PEM files of a server's TLS identity. ClientCA is optional: with it, a client may present a certificate,
// which is verified against it.
type TLSFiles struct {
	Cert, Key, ClientCA string
}

// certCheckInterval is the shortest time between two checks of the files.
const certCheckInterval = time.Second

// TLS is a server's TLS identity, which follows its files. If a change cannot be loaded, it is logged and the last valid
// identity stays, so an incomplete renewal never interrupts polls. Open connections stay open.
type TLS struct {
	files  TLSFiles
	logger *slog.Logger
	now    func() time.Time
	// authorities are the client CA's certificates, in DER.
	authorities atomic.Pointer[map[string]bool]
	next        atomic.Int64 // time of the next check, in Unix nanoseconds

	mu     sync.Mutex
	stamps []fileStamp
	config *tls.Config
	failed string // the last error that was logged
}

type fileStamp struct {
	modified time.Time
	size     int64
}

// NewTLS loads the files.
func NewTLS(files TLSFiles, logger *slog.Logger, now func() time.Time) (*TLS, error) {
	t := &TLS{files: files, logger: logger, now: now}
	if err := t.load(); err != nil {
		return nil, err
	}
	return t, nil
}

// Config returns a configuration that follows the files: every handshake uses their content of at most a second ago.
func (t *TLS) Config() *tls.Config {
	t.mu.Lock()
	defer t.mu.Unlock()
	config := t.config.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return t.current(hello.Context()), nil }
	return config
}

// Trusts reports whether the client's certificate is still trusted: a connection may be older than a change of the client CA.
func (t *TLS) Trusts(ctx context.Context, state *tls.ConnectionState) bool {
	now := t.now()
	if now.UnixNano() >= t.next.Load() && t.mu.TryLock() { // another goroutine reads the files otherwise; do not wait for it
		t.follow(ctx, now)
		t.mu.Unlock()
	}
	if now.After(state.PeerCertificates[0].NotAfter) {
		return false
	}
	authorities := *t.authorities.Load()
	for _, chain := range state.VerifiedChains {
		if authorities[string(chain[len(chain)-1].Raw)] {
			return true
		}
	}
	return false
}

func (t *TLS) paths() []string {
	paths := []string{t.files.Cert, t.files.Key}
	if t.files.ClientCA != "" {
		paths = append(paths, t.files.ClientCA)
	}
	return paths
}

func (t *TLS) current(ctx context.Context) *tls.Config {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); now.UnixNano() >= t.next.Load() {
		t.follow(ctx, now)
	}
	return t.config
}

// follow loads the files if they have changed.
func (t *TLS) follow(ctx context.Context, now time.Time) {
	t.next.Store(now.Add(certCheckInterval).UnixNano())
	if stamps, err := t.stat(); err == nil && slices.Equal(stamps, t.stamps) {
		t.failed = "" // the files are again the loaded ones
		return
	}
	err := t.load()
	switch {
	case err == nil:
		t.failed = ""
		t.logger.LogAttrs(ctx, slog.LevelInfo, "TLS files reloaded")
	case err.Error() != t.failed: // otherwise it was logged before
		t.failed = err.Error()
		t.logger.LogAttrs(ctx, slog.LevelError, "the TLS files cannot be loaded; the certificate before stays in use", slog.Any("error", err))
	}
}

func (t *TLS) stat() ([]fileStamp, error) {
	var stamps []fileStamp
	for _, path := range t.paths() {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		stamps = append(stamps, fileStamp{info.ModTime(), info.Size()})
	}
	return stamps, nil
}

func (t *TLS) load() error {
	stamps, err := t.stat()
	if err != nil {
		return err
	}
	cert, err := tls.LoadX509KeyPair(t.files.Cert, t.files.Key)
	if err != nil {
		return fmt.Errorf("certificate and key: %w", err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"},
		MinVersion: tls.VersionTLS12, CipherSuites: cipherSuites,
	}
	authorities := map[string]bool{}
	if t.files.ClientCA != "" {
		if config.ClientCAs, err = readAuthorities(t.files.ClientCA, authorities); err != nil {
			return err
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
		// A resumed session presents no certificate, so it would outlive a change of the CA.
		config.SessionTicketsDisabled = true
	}
	t.config, t.stamps = config, stamps
	t.authorities.Store(&authorities)
	return nil
}

// cipherSuites are those of TLS 1.2 with forward secrecy and authenticated encryption. TLS 1.3 has no others.
var cipherSuites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// readAuthorities reads the certificates of a PEM file, and adds their DER to known.
func readAuthorities(path string, known map[string]bool) (*x509.CertPool, error) {
	rest, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the client CA file: %w", err)
		}
		pool.AddCert(cert)
		known[string(cert.Raw)] = true
	}
	if len(known) == 0 {
		return nil, errors.New("the client CA file holds no certificate")
	}
	return pool, nil
}

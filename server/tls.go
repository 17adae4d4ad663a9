package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// TLSFiles are the PEM files of a server's TLS identity. ClientCA is optional: with it, a client may present a
// certificate, which is verified against it.
type TLSFiles struct {
	Cert, Key, ClientCA string
}

// certCheck is how often, at most, a handshake looks whether the files have changed.
const certCheck = time.Second

// reloader keeps a TLS configuration in step with its files. A change that cannot be loaded is logged and the last
// good configuration stays, so a half-written renewal never interrupts polls.
type reloader struct {
	files  TLSFiles
	logger *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	checked time.Time
	stamps  []fileStamp
	config  *tls.Config
	failed  string // why the files could not be loaded, once that was logged
}

type fileStamp struct {
	modified time.Time
	size     int64
}

// NewTLSConfig loads the files and returns a configuration that follows them when they change.
func NewTLSConfig(files TLSFiles, logger *slog.Logger, now func() time.Time) (*tls.Config, error) {
	r := &reloader{files: files, logger: logger, now: now}
	if err := r.load(); err != nil {
		return nil, err
	}
	config := r.config.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return r.current(hello.Context()), nil }
	return config, nil
}

func (r *reloader) paths() []string {
	paths := []string{r.files.Cert, r.files.Key}
	if r.files.ClientCA != "" {
		paths = append(paths, r.files.ClientCA)
	}
	return paths
}

func (r *reloader) current(ctx context.Context) *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now(); now.Sub(r.checked) >= certCheck {
		r.checked = now
		if stamps, err := r.stat(); err == nil && slices.Equal(stamps, r.stamps) {
			r.failed = "" // the files are again those in use
			return r.config
		}
		err := r.load()
		switch {
		case err == nil:
			r.failed = ""
			r.logger.LogAttrs(ctx, slog.LevelInfo, "TLS files reloaded")
		case err.Error() != r.failed: // else it was logged a second ago
			r.failed = err.Error()
			r.logger.LogAttrs(ctx, slog.LevelError, "the TLS files cannot be loaded; the certificate before stays in use", slog.Any("error", err))
		}
	}
	return r.config
}

func (r *reloader) stat() ([]fileStamp, error) {
	var stamps []fileStamp
	for _, path := range r.paths() {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		stamps = append(stamps, fileStamp{info.ModTime(), info.Size()})
	}
	return stamps, nil
}

func (r *reloader) load() error {
	stamps, err := r.stat()
	if err != nil {
		return err
	}
	cert, err := tls.LoadX509KeyPair(r.files.Cert, r.files.Key)
	if err != nil {
		return fmt.Errorf("certificate and key: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if r.files.ClientCA != "" {
		pem, err := os.ReadFile(r.files.ClientCA)
		if err != nil {
			return err
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return errors.New("the client CA file holds no certificate")
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	r.config, r.stamps = config, stamps
	return nil
}

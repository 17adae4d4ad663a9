package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/versions"
)

// versionScan are the settings of scans of registries.
type versionScan struct {
	enabled bool
	scanner versions.Config
}

// readVersionScan reads the settings of scans of registries.
func (cfg *config) readVersionScan(c *cli.Context) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	v := &cfg.versionScan
	v.scanner.Proxy, problems = readProxy(c, "version-scan-proxy", "VERSION_SCAN_PROXY")
	if v.scanner.AuthFile = c.String("registry-auth-file"); v.scanner.AuthFile != "" {
		if _, err := os.Stat(v.scanner.AuthFile); err != nil {
			problem("REGISTRY_AUTH_FILE: %v", err)
		}
	}
	if file := c.String("registry-ca-file"); file != "" {
		pool, err := readRegistryCA(file)
		if err != nil {
			problem("REGISTRY_CA_FILE: %v", err)
		}
		v.scanner.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return problems
}

// readRegistryCA returns the authorities of the system and of a file.
func readRegistryCA(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificates in PEM format", file)
	}
	return pool, nil
}

// newRegistries returns the scanner of versions and the reader of the artifacts of sources. The scanner is nil if VERSION_SCAN is not true,
// both are if the mode makes no changes.
func newRegistries(cfg config, logger *slog.Logger) (server.VersionScanner, server.ArtifactReader) {
	if cfg.mode != server.ModeCRUD {
		return nil, nil
	}
	c := cfg.versionScan.scanner
	c.Logger = logger
	registries := versions.New(c)
	if !cfg.versionScan.enabled {
		return nil, server.NewArtifactReader(registries)
	}
	return registries, server.NewArtifactReader(registries)
}

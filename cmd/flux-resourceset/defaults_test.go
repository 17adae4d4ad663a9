package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"
)

// settingDefaults returns the program's defaults by environment variable; "": none.
func settingDefaults(t *testing.T) map[string]string {
	t.Helper()
	defaults := map[string]string{}
	for _, f := range flags() {
		text, ok := f.(*cli.StringFlag)
		require.True(t, ok, "%T has a default that this test cannot read", f)
		defaults[text.EnvVars[0]] = text.Value
	}
	return defaults
}

// TestDocumentedDefaults: the table of docs/configuration.md lists every setting, under its flag, with its default.
func TestDocumentedDefaults(t *testing.T) {
	t.Parallel()
	// Descriptions in place of a default.
	words := map[string]string{
		"STORE_BACKEND": "from `DATABASE_URL`", "CRUD_AUTH_TOKEN": "`AUTH_TOKEN`, if nothing else may write", "OPENAPI_FILE": "the built-in document",
		"MAX_STALENESS": "`15s` with Postgres, `2m` with SQLite", "STATE_MAX_AGE": "`MAX_STALENESS`",
		"HISTORY_RETENTION": "for ever", "LOG_LEVEL": "level of `RUST_LOG`, else `info`", "LOG_FORMAT": "`text` on a terminal, else `json`",
	}
	want := map[string]string{}
	for _, f := range flags() {
		env := f.(*cli.StringFlag).EnvVars[0]
		value := "none"
		if text, ok := words[env]; ok {
			value = text
		}
		if text := f.(*cli.StringFlag).Value; text != "" {
			require.NotContains(t, words, env, "it has a default")
			value = "`" + text + "`"
		}
		want[env] = "--" + f.Names()[0] + " " + value
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	require.NoError(t, err)
	got := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| `(--[a-z-]+)` \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		got[row[1]] = row[2] + " " + row[3]
	}
	require.Equal(t, want, got)
}

// TestChartDefaults: every setting has a value in the chart, with the same default as in the program.
func TestChartDefaults(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile(filepath.Join("..", "..", "charts", "flux-resourceset", "values.yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(file, &values))
	at := func(path string) string {
		var v any = values
		for step := range strings.SplitSeq(path, ".") {
			fields, _ := v.(map[string]any)
			require.Contains(t, fields, step, path)
			v = fields[step]
		}
		if list, ok := v.([]any); ok {
			texts := make([]string, len(list))
			for i, each := range list {
				texts[i] = fmt.Sprint(each)
			}
			return strings.Join(texts, ",")
		}
		return fmt.Sprint(v)
	}
	defaults := settingDefaults(t)
	same := map[string]string{
		"ENVIRONMENTS": "config.environments", "PROTECTED_ENVIRONMENTS": "config.protectedEnvironments", "MAX_REMOVALS": "config.maxRemovals", "MAX_STALENESS": "config.maxStaleness",
		"HISTORY_RETENTION": "config.historyRetention", "WATCH_STREAMS": "config.watchStreams", "SEED_ACCEPT": "seed.accept", "STATE_MAX_AGE": "lastGood.maxAge", "REQUIRE_CLIENT_CERT": "tls.requireClientCert", "UI_CHANGES": "page.changes",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "config.otlpEndpoint", "BASE_PATH": "config.basePath", "REQUIRE_SECOND_PERSON": "config.requireSecondPerson", "SECRET_VALUES": "config.secretValues", "OIDC_ISSUERS": "auth.oidcIssuers", "GATES_TRUST_SHARED_TOKEN": "config.gatesTrustSharedToken", "PASSIVE": "config.passive", "AUDIT_OUTPUT": "config.auditOutput",
		"PUBLIC_URL": "config.publicURL", "WEBHOOK_ALLOW_HTTP": "config.webhookAllowHTTP", "WEBHOOK_ALLOW_PRIVATE": "config.webhookAllowPrivate",
		"VERSION_ROLLOUTS": "config.versionRollouts", "VERSION_SCAN": "config.versionScan", "VERSION_SCAN_ALLOW_HTTP": "config.versionScanAllowHTTP", "VERSION_SCAN_ALLOW_PRIVATE": "config.versionScanAllowPrivate",
		"REGISTRY_AUTH_FILE": "config.registryAuthFile", "REGISTRY_CA_FILE": "config.registryCAFile",
	}
	for env, path := range same {
		require.Contains(t, defaults, env)
		require.Equal(t, defaults[env], at(path), "%s, %s", env, path)
	}
	require.Equal(t, rustLevel(""), at("config.logLevel"), "what LOG_LEVEL is when nothing says so")
	require.Equal(t, "json", at("config.logFormat"), "what LOG_FORMAT is where there is no terminal")

	// Settings that the chart sets, and settings that it leaves to the program. A new setting must be added to one list.
	others := []string{
		"API_MODE", "REQUIRE_CLUSTER_TOKEN", "STORE_BACKEND", "DATABASE_URL", "AUTH_TOKEN", "AUTH_TOKEN_PREVIOUS", "CRUD_AUTH_TOKEN", "CRUD_AUTH_TOKEN_PREVIOUS", "SEED_FILE",
		"OPENAPI_FILE", "OFFLINE_AFTER", "START_TIMEOUT", "SHUTDOWN_DELAY", "STATE_DIR", "LISTEN_ADDR", "METRICS_ADDR", "LOG_LEVEL", "LOG_FORMAT", "ALLOW_LOOKALIKE_ENV", "ALLOW_SHORT_TOKENS", "TLS_CERT_FILE",
		"TLS_KEY_FILE", "TLS_CLIENT_CA_FILE", "UI", "SESSION_KEY", "SESSION_KEY_PREVIOUS", "SERVE_STALE_AFTER_RESTART", "WEBHOOK_KEY", "WEBHOOK_PROXY", "VERSION_SCAN_PROXY",
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(defaults)), slices.Concat(others, slices.Collect(maps.Keys(same))))
}

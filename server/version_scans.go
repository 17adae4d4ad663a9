package server

import (
	"context"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/versions"
)

// VersionScanner finds the versions of sources: see [versions.Scanner].
type VersionScanner interface {
	Scan(ctx context.Context, sources []versions.Source, each func(i int, r versions.Result)) error
}

var _ VersionScanner = (*versions.Scanner)(nil)

const (
	scanCheckInterval = 5 * time.Second  // between two checks for due scans
	maxScanBatches    = 4                // that run at the same time
	maxScanBackoff    = 24 * time.Hour   // after failures
	maxNewVersions    = 50               // of one scan; the other known versions are for pushes
	refreshAge        = 10 * time.Second // a younger scan is not repeated
	refreshWait       = 10 * time.Second // of a request for its scans
)

// versionScans are the scans of this process.
type versionScans struct {
	mu         sync.Mutex
	seed       uint64 // differs in every process
	running    map[string]bool
	batches    int
	validators map[string]validator // of indexes, by source
}

// validator is that of an index, and what it was requested for.
type validator struct{ wants, value string }

// policySource is a source of versions, with what the policies want of it.
type policySource struct {
	known    knownversions.Source
	scan     versions.Source
	wants    string // identifies what Wants accepts
	interval time.Duration
	planned  bool // it is scanned without a request
}

func (p *policySource) key() string { return p.known.Component + "\x00" + p.known.Image }

// RunVersionScans scans the sources of policies until ctx ends. Any number of processes may run it: processes know each other's scans,
// and their scans of one source are apart by a random delay.
func (s *Server) RunVersionScans(ctx context.Context) {
	if s.cfg.VersionScanner == nil {
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	s.every(ctx, scanCheckInterval, func() {
		s.survive(ctx, "finding due scans of versions", func() {
			if due := s.dueScans(); len(due) > 0 {
				running.Go(func() { s.survive(ctx, "scanning versions", func() { s.scan(ctx, due) }) })
			}
		})
	})
}

// ScanVersions makes the scans that are due, and waits for them.
func (s *Server) ScanVersions(ctx context.Context) { s.scan(ctx, s.dueScans()) }

// dueScans returns the sources that are due, and marks them as running.
func (s *Server) dueScans() []*policySource {
	st, _, problem := s.cfg.Replica.StateForReads()
	if s.cfg.VersionScanner == nil || st == nil || problem != nil || !s.tracker.Stats().Complete || !s.cfg.Replica.MayAct() {
		return nil
	}
	now, due := s.cfg.Now(), []*policySource{}
	for _, doc := range st.All(fleet.KindComponent) {
		for _, p := range policySources(doc) {
			_, scan := s.versions.Known(p.known)
			if p.planned && !now.Before(s.scans.dueAt(p, scan)) {
				due = append(due, p)
			}
		}
	}
	return s.scans.start(due)
}

// dueAt returns the time at which this process scans a source, unless another one does so before. A source that was never scanned is
// due at once.
func (v *versionScans) dueAt(p *policySource, scan knownversions.Scan) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seed == 0 {
		v.seed = rand.Uint64() | 1
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.key()))
	fraction := float64(rand.New(rand.NewPCG(v.seed, h.Sum64()^uint64(scan.Next))).Uint64N(1000)) / 1000
	return time.UnixMilli(scan.Next).Add(time.Duration(fraction * float64(p.interval) / 10))
}

// start marks sources as running, and returns those that are not running already; none if too many batches run.
func (v *versionScans) start(sources []*policySource) (started []*policySource) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.running == nil {
		v.running, v.validators = map[string]bool{}, map[string]validator{}
	}
	if v.batches >= maxScanBatches {
		return nil
	}
	for _, p := range sources {
		if !v.running[p.key()] {
			v.running[p.key()] = true
			started = append(started, p)
		}
	}
	if len(started) > 0 {
		v.batches++
	}
	return started
}

func (v *versionScans) end(sources []*policySource) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range sources {
		delete(v.running, p.key())
	}
	v.batches--
}

func (v *versionScans) validator(p *policySource) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := v.validators[p.key()]; known.wants == p.wants {
		return known.value
	}
	return ""
}

func (v *versionScans) setValidator(p *policySource, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.validators[p.key()] = (validator{p.wants, value}); value == "" {
		delete(v.validators, p.key())
	}
}

// scan scans sources that start returned, and records the results.
func (s *Server) scan(ctx context.Context, sources []*policySource) {
	if len(sources) == 0 {
		return
	}
	defer s.scans.end(sources)
	requests := make([]versions.Source, len(sources))
	for i, p := range sources {
		requests[i] = p.scan
		requests[i].Validator = s.scans.validator(p)
		known, _ := s.versions.Known(p.known)
		for _, v := range known {
			k := versions.Version{Version: v.Version, CreatedAt: timeOf(v.Created)}
			if len(v.Digests) > 0 {
				k.Digest = v.Digests[0].Digest
			}
			if k.Digest != "" || p.scan.Kind == versions.Index { // the digest of others is requested
				requests[i].Known = append(requests[i].Known, k)
			}
		}
	}
	err := s.cfg.VersionScanner.Scan(ctx, requests, func(i int, r versions.Result) {
		if ctx.Err() == nil {
			s.recordScan(ctx, sources[i], r)
		}
	})
	if err != nil && ctx.Err() == nil {
		for _, p := range sources {
			s.recordScan(ctx, p, versions.Result{Err: &versions.Error{Class: versions.Invalid, Message: "REGISTRY_AUTH_FILE cannot be read"}})
		}
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "registries cannot be scanned", slog.Any("error", err))
	}
}

// recordScan records the result of a scan.
func (s *Server) recordScan(ctx context.Context, p *policySource, r versions.Result) {
	now := s.cfg.Now()
	if st := s.cfg.Replica.State(); st != nil {
		now = s.observationTime(st)
	}
	_, before := s.versions.Known(p.known)
	state := knownversions.Scan{At: now.UnixMilli()}
	wait := p.interval - p.interval/20 // the random delay is up to a tenth of the interval
	if r.Err != nil {
		s.metrics.scanErrors.WithLabelValues(r.Err.Host).Inc()
		state.Error = r.Err.Error()
		if before.Error != state.Error {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a registry cannot be scanned",
				slog.String("component", p.known.Component), slog.String("image", p.known.Image), slog.String("error", state.Error))
		}
	}
	if r.Err != nil && len(r.Versions) == 0 {
		state.Attempts = before.Attempts + 1
		wait = min(wait<<min(state.Attempts-1, 12), maxScanBackoff)
		state.Next = now.Add(wait).UnixMilli()
		if r.Err.RetryAt.After(now.Add(wait)) {
			state.Next = r.Err.RetryAt.UnixMilli()
		}
		s.versions.RecordScan(p.known, now, state, nil, nil)
		return
	}
	s.scans.setValidator(p, r.Validator)
	state.Next = now.Add(wait).UnixMilli()
	var found []knownversions.Observation
	for i, v := range r.Versions {
		o := knownversions.Observation{Version: v.Version, Digest: v.Digest, Created: v.CreatedAt}
		if p.scan.Kind == versions.Index {
			o.Digest = "" // of the archive, which nothing pins
		}
		if o.Created.Before(time.Unix(0, 0)) {
			o.Created = time.Time{}
		}
		if i < maxNewVersions || slices.Contains(p.scan.Track, v.Version) {
			found = append(found, o)
		}
	}
	s.versions.RecordScan(p.known, now, state, found, r.Present)
}

// policySources returns the sources of the versions that the policies of a component want.
func policySources(doc *fleet.Document) (out []*policySource) {
	p := doc.Component()
	known := versionSources(doc)
	suspended := len(p.VersionPolicies) > 0
	for _, target := range slices.Sorted(maps.Keys(p.VersionPolicies)) {
		policy := p.VersionPolicies[target]
		suspended = suspended && policy.Suspended
		source, ok := componentSource(p)
		if !ok || policy.Range == "" {
			continue
		}
		interval, planned := scanInterval(policy.Interval, policy.Suspended)
		if len(out) == 0 {
			out = append(out, &policySource{known: known[0], scan: source, interval: interval})
			if stored := storedTag(p); stored != "" {
				out[0].scan.Track = []string{stored}
			}
		}
		out[0].add(api.ImageTrack{Range: policy.Range, Include: policy.Include, Exclude: policy.Exclude}, interval, planned)
	}
	for _, image := range p.ImagePolicies {
		i := slices.IndexFunc(known, func(src knownversions.Source) bool { return src.Image == image.Image })
		interval, planned := scanInterval(image.Interval, suspended || image.Suspended)
		j := slices.IndexFunc(out, func(src *policySource) bool { return src.known.Image == image.Image })
		if j < 0 {
			j = len(out)
			out = append(out, &policySource{known: known[i], scan: versions.Source{Kind: versions.Image, URL: image.Image}, interval: interval})
		}
		out[j].add(image.Track, interval, planned)
	}
	return out
}

// add adds what a policy wants of a source, and its interval.
func (p *policySource) add(t api.ImageTrack, interval time.Duration, planned bool) {
	if planned && (!p.planned || interval < p.interval) {
		p.planned, p.interval = true, interval
	}
	p.wants += strings.Join([]string{"\x01", t.Tag, t.Range, t.Include, t.Exclude}, "\x00")
	if t.Tag != "" {
		p.scan.Track = append(p.scan.Track, t.Tag)
		return
	}
	before, wants := p.scan.Wants, versionFilter(t.Range, t.Include, t.Exclude)
	p.scan.Wants = func(version string) bool { return before != nil && before(version) || wants(version) }
}

// componentSource returns the source of the versions of a component; not ok if it has none that can be scanned.
func componentSource(p *api.PlatformComponent) (versions.Source, bool) {
	oci := strings.HasPrefix(p.OCIURL, "oci://")
	switch {
	case strings.HasPrefix(p.OCIURL, "git+"):
		return versions.Source{}, false
	case p.Type == "helm" && oci:
		return versions.Source{Kind: versions.Chart, URL: p.OCIURL, Path: p.ComponentPath}, true
	case p.Type == "helm":
		return versions.Source{Kind: versions.Index, URL: p.OCIURL, Path: p.ComponentPath}, true
	case oci:
		return versions.Source{Kind: versions.OCIArtifact, URL: p.OCIURL}, true
	}
	return versions.Source{}, false
}

// storedTag returns the tag of a component in an OCI registry, whose digest a scan compares.
func storedTag(p *api.PlatformComponent) string {
	switch {
	case !strings.HasPrefix(p.OCIURL, "oci://"):
		return ""
	case p.Type == "helm":
		return p.ComponentVersion
	}
	return p.OCITag
}

// scanInterval returns the interval of a policy, and whether scans are planned.
func scanInterval(text string, suspended bool) (time.Duration, bool) {
	interval := fleet.DefaultScanInterval
	if d, err := time.ParseDuration(text); err == nil {
		interval = d
	}
	if interval <= 0 {
		return fleet.DefaultScanInterval, false
	}
	return interval, !suspended
}

// versionFilter returns a function that reports whether a policy may move to a version. The evaluation decides; this only limits what
// is kept.
func versionFilter(versionRange, include, exclude string) func(string) bool {
	constraint, err := semver.NewConstraint(versionRange)
	if err != nil {
		return func(string) bool { return false }
	}
	matches := func(pattern string) func(string) bool {
		e, err := regexp.Compile(pattern)
		return func(text string) bool { return err == nil && e.MatchString(text) }
	}
	included, excluded := matches(include), matches(exclude)
	return func(version string) bool {
		v, err := semver.NewVersion(version)
		return err == nil && constraint.Check(v) && (include == "" || included(version)) && (exclude == "" || !excluded(version))
	}
}

// refreshVersions scans the sources of a component, and waits until that is done or refreshWait is over.
func (s *Server) refreshVersions(ctx context.Context, doc *fleet.Document) {
	now, due := s.cfg.Now(), []*policySource{}
	for _, p := range policySources(doc) {
		if _, scan := s.versions.Known(p.known); now.Sub(timeOf(scan.At)) >= refreshAge {
			p.scan.IgnoreBackoff = true
			due = append(due, p)
		}
	}
	due = s.scans.start(due)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.scan(context.WithoutCancel(ctx), due)
	}()
	wait := time.NewTimer(refreshWait)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	case <-ctx.Done():
	}
}

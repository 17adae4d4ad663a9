package fleet

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/publickey"
)

const (
	maxSources       = 20
	maxSourceURL     = 1024
	maxSourceKeys    = 10
	maxSourceKey     = 8 << 10 // bytes
	minSourcePoll    = 30 * time.Second
	maxSourcePoll    = 24 * time.Hour
	defaultPoll      = time.Minute
	sourceURLPattern = "oci://registry.example.com/platform/fleet"
)

// Source is the value of a source's document: an OCI artifact that the server follows.
type Source struct {
	ID       string        `json:"id"`
	URL      string        `json:"url"`
	Tag      string        `json:"tag,omitempty"`
	Range    string        `json:"range,omitempty"`
	Digest   string        `json:"digest,omitempty"`
	Interval string        `json:"interval,omitempty"` // empty: one minute
	Path     string        `json:"path,omitempty"`
	Kinds    []Kind        `json:"kinds,omitempty"` // empty: those that describe the fleet
	Prune    bool          `json:"prune,omitempty"`
	Verify   *SourceVerify `json:"verify,omitempty"` // nil: signatures are not verified
	// Strategy has the stages of the rollouts that make its changes; empty: each change is made at once.
	Strategy  string `json:"strategy,omitempty"`
	Suspended bool   `json:"suspended,omitempty"`

	// unknown: the document has a field that this version does not know. The field may restrict the source.
	unknown bool
}

// SourceVerify requires a signature of an artifact by one of the keys.
type SourceVerify struct {
	Keys []string `json:"keys"` // public keys as PEM
}

var sourceKind = kindRules{
	name:       KindSource,
	noun:       "source",
	collection: "sources",
	empty:      func() any { return new(Source) },
	normalize: func(obj map[string]any) {
		unstructured.DropFalse(obj)
		unstructured.DropEmptyList(obj, "kinds")
		unstructured.DropEmpty(obj, "tag", "range", "digest", "interval", "path", "strategy")
	},
	complete: func(value any, body json.RawMessage) error {
		value.(*Source).unknown = hasUnknownField(body, &Source{})
		return nil
	},
	check: func(c *checker, d *Document) { checkFollowedSource(c, d.Source()) },
	view:  func(d *Document) any { return d.Source().view(d) },
}

// Source returns the document as a source; it must be one. The result must not be changed.
func (d *Document) Source() *Source { return d.value.(*Source) }

// Known reports whether this version knows all fields of the source. A process follows no other: an unknown field may restrict it.
func (s *Source) Known() bool { return !s.unknown }

// PollInterval returns the time between two requests for the digest.
func (s *Source) PollInterval() time.Duration {
	if d, err := time.ParseDuration(s.Interval); err == nil {
		return d
	}
	return defaultPoll
}

// includes reports whether the source may have documents of a kind of the set.
func (s *Source) includes(ks *kindSet, kind Kind) bool {
	_, typed := kind.ResourceType()
	if len(s.Kinds) == 0 {
		return typed || slices.Contains(ks.names(), kind)
	}
	return slices.Contains(s.Kinds, kind) || typed && slices.Contains(s.Kinds, kindResource)
}

// view returns a source as the API shows it, without the state that depends on the process.
func (s *Source) view(d *Document) *api.Source {
	view := &api.Source{
		ID: s.ID, URL: s.URL, Tag: s.Tag, Range: s.Range, Digest: s.Digest, Interval: s.Interval, Path: s.Path, Prune: s.Prune, Strategy: s.Strategy,
		Suspended: s.Suspended, Revision: int64(d.Revision), CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
	for _, kind := range s.Kinds {
		view.Kinds = append(view.Kinds, string(kind))
	}
	if s.Verify != nil {
		view.Verify = &api.SourceVerify{Keys: s.Verify.Keys}
	}
	return view
}

// sourceKinds are the kinds that a source may name. Others are never files: their documents are secrets, actions, or sources.
func (ks *kindSet) sourceKinds() []string {
	names := []string{kindResource}
	for _, kind := range ks.names() {
		names = append(names, string(kind))
	}
	for kind, use := range kindUses {
		if use.batch && kind != KindSource {
			names = append(names, string(kind))
		}
	}
	slices.Sort(names)
	return names
}

// checkFollowedSource checks a source's document.
func checkFollowedSource(c *checker, s *Source) {
	c.dnsSubdomain("/id", s.ID)
	checkSourceURL(c, s.URL)
	set := 0
	for _, text := range []string{s.Tag, s.Range, s.Digest} {
		if text != "" {
			set++
		}
	}
	if set != 1 {
		c.problem("", "exactly one of tag, range and digest is required")
	}
	if s.Tag != "" && (!versionText.MatchString(s.Tag) || len(s.Tag) > maxVersionText) {
		c.problem("/tag", "must be a tag of at most %d bytes", maxVersionText)
	}
	c.versionRange("/range", s.Range)
	c.digest("/digest", s.Digest)
	if s.Interval != "" {
		if d, err := time.ParseDuration(s.Interval); err != nil || d < minSourcePoll || d > maxSourcePoll {
			c.problem("/interval", "must be a duration from 30s to 24h, such as 1m")
		}
	}
	c.text("/path", s.Path, 1024)
	if strings.HasPrefix(s.Path, "/") || slices.Contains(strings.Split(s.Path, "/"), "..") {
		c.problem("/path", "must be a folder inside the artifact, such as fleet")
	}
	for i, kind := range s.Kinds {
		if _, typed := kind.ResourceType(); !typed {
			c.oneOf(fmt.Sprintf("/kinds/%d", i), string(kind), c.next.kinds.sourceKinds()...)
		}
	}
	checkSourceKeys(c, s.Verify)
	if s.Strategy != "" && c.next.docs[KindStrategy][s.Strategy] == nil {
		c.problem("/strategy", "there is no strategy %q", s.Strategy)
	}
	if s.unknown {
		c.problem("", "it has a field that this version does not know")
	}
	if n := len(c.next.docs[KindSource]); n > maxSources {
		c.problem("", "there would be %d sources; at most %d are possible", n, maxSources)
	}
	if c.next.access == nil || len(c.next.access.sources[s.ID]) == 0 {
		c.warn("source %q may write nothing: no access document has the subject {source: %s}", s.ID, s.ID)
	}
	if s.Verify == nil {
		c.warn("source %q applies unsigned artifacts: set verify.keys to refuse them", s.ID)
	}
}

func checkSourceURL(c *checker, text string) {
	c.text("/url", text, maxSourceURL)
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "oci" || u.Host == "" || strings.Trim(u.Path, "/") == "":
		c.problem("/url", "must be a URL such as %s", sourceURLPattern)
	case u.User != nil:
		c.problem("/url", "must not have credentials: they are in REGISTRY_AUTH_FILE")
	case u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(u.Path, ":@"):
		c.problem("/url", "must not have a tag, a digest, a query or a fragment: tag, range and digest are fields of their own")
	}
}

func checkSourceKeys(c *checker, v *SourceVerify) {
	if v == nil {
		return
	}
	if n := len(v.Keys); n == 0 || n > maxSourceKeys {
		c.problem("/verify/keys", "there must be 1 to %d keys", maxSourceKeys)
	}
	for i, key := range v.Keys[:min(len(v.Keys), maxSourceKeys)] {
		at := fmt.Sprintf("/verify/keys/%d", i)
		c.atMost(at, len(key), maxSourceKey, "bytes")
		if _, err := publickey.Parse(key); err != nil {
			c.problem(at, "%s", err)
		}
	}
}

// suspendedSource returns a source as suspended, or the same document if it is.
func (ks *kindSet) suspendedSource(d *Document) (*Document, error) {
	if d.Source().Suspended {
		return d, nil
	}
	obj, err := unstructured.Decode(d.Body)
	if err != nil {
		return nil, d.Unreadable(err)
	}
	obj["suspended"] = true
	return ks.compose(KindSource, d.ID, nil, obj, nil)
}

// replaceReference handles a change that selects the artifact in another way: tag, range and digest replace each other.
func replaceReference(stored, request map[string]any) {
	fields := []string{"tag", "range", "digest"}
	if !slices.ContainsFunc(fields, func(f string) bool { return request[f] != nil }) {
		return
	}
	for _, f := range fields {
		if request[f] == nil {
			delete(stored, f)
		}
	}
}

// suspendSources suspends sources that would undo a restore or revert; nil ids: all.
func (tx *Tx) suspendSources(concerns func(id string) bool) error {
	for _, d := range tx.base.All(KindSource) {
		now := tx.raw(KindSource, d.ID)
		if now == nil || !concerns(d.ID) {
			continue
		}
		doc, err := tx.kinds.suspendedSource(now)
		if err != nil {
			return err
		}
		if doc == now {
			continue
		}
		tx.record(KindSource, d.ID, doc)
		if tx.suspended == nil {
			tx.suspended = map[string]bool{}
		}
		tx.suspended[d.ID] = true
		tx.note("source %q is suspended: resume it when its artifact may be applied again", d.ID)
	}
	return nil
}

package versions

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxValidator limits a validator, in characters.
const maxValidator = 512

// maxRedirects is the number of redirects that a request follows.
const maxRedirects = 5

var errRedirects = errors.New("too many redirects")

// client returns a client for requests that may be redirected.
func client(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		req.Header.Del("Referer") // it has the query, which may be a secret
		if len(via) > maxRedirects {
			return errRedirects
		}
		return nil
	}}
}

// scanIndex reads the index of a Helm repository for all charts of a list.
func (s *Scanner) scanIndex(ctx context.Context, auth credentials, l *list) ([]Result, *Error) {
	options, _ := ctx.Value(optionsKey{}).(requestOptions)
	options.bytes, options.gzip = s.cfg.Limits.Index, true
	req, err := http.NewRequestWithContext(withOptions(ctx, options), http.MethodGet, l.index.String(), nil)
	if err != nil {
		return nil, newError(Invalid, l.host, "the URL of the Helm repository is not valid")
	}
	req.Header.Set("Accept-Encoding", "gzip")
	validator := commonValidator(l.sources)
	setValidator(req.Header, validator)
	login, invalid := auth.find(l.host, strings.TrimSuffix(l.index.Path, "/index.yaml"))
	if invalid != nil {
		return nil, invalid
	}
	t := &basicTransport{l.host, login, s.transport}
	resp, err := client(t).Do(req)
	if err != nil {
		return nil, scanError(l.host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	results := make([]Result, len(l.sources))
	switch {
	case resp.StatusCode == http.StatusNotModified && validator != "":
		for i := range results {
			results[i].NotModified, results[i].Validator = true, validator
		}
		return results, nil
	case resp.StatusCode != http.StatusOK:
		return nil, statusError(hostName(resp.Request.URL), resp.StatusCode)
	}

	var body io.Reader = resp.Body
	if resp.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, indexError(l.host, err)
		}
		body = &boundedReader{Reader: unpacked, allowed: s.cfg.Limits.Index}
	}
	found, kept := map[string]*chart{}, map[string][]*newest{}
	which := make([]*newest, len(l.sources))
	for i, n := range l.sources {
		which[i] = newNewest(n.Source, s.cfg.Limits.Keep, filterOf(n.Source))
		kept[n.Path] = append(kept[n.Path], which[i])
		found[n.Path] = &chart{add: s.chartVersions(kept, n.Path)}
	}
	if err := readIndex(body, found); err != nil {
		return nil, indexError(l.host, err)
	}
	validator = validatorOf(resp.Header)
	for i, n := range l.sources {
		w := which[i]
		results[i] = Result{Versions: w.list(), Listed: w.listed, Invalid: w.invalid, Truncated: w.dropped, Validator: validator}
		if !w.dropped {
			results[i].Present = w.present(results[i].Versions)
		}
		if !found[n.Path].found {
			results[i].Present = nil
			results[i].Err = newError(NotFound, l.host, "the index has no chart of this name")
		}
	}
	return results, nil
}

// filterOf returns the filter of a chart of an index: the tracked versions are in the same list.
func filterOf(source Source) func(string) bool {
	track := map[string]bool{}
	for _, v := range source.Track {
		track[v] = true
	}
	return func(version string) bool { return track[version] || source.Wants != nil && source.Wants(version) }
}

// chartVersions returns the function that receives the versions of a chart.
func (s *Scanner) chartVersions(kept map[string][]*newest, name string) func(*entry) bool {
	count := 0
	return func(e *entry) bool {
		if count++; count > s.cfg.Limits.Versions {
			for _, n := range kept[name] {
				n.dropped = true
			}
			return false
		}
		for _, n := range kept[name] {
			if e == nil || !versionForm.MatchString(e.Version) {
				n.invalid++
				continue
			}
			n.add(Version{Version: e.Version, Digest: indexDigest(e.Digest), CreatedAt: publishedAt(e.Created)})
		}
		return true
	}
}

// indexDigest returns the digest of an archive; empty: it is not one.
func indexDigest(text string) string {
	text = strings.TrimPrefix(text, "sha256:")
	if len(text) != 64 || strings.Trim(text, "0123456789abcdef") != "" {
		return ""
	}
	return "sha256:" + text
}

// publishedAt returns the time of a publication; zero: it is unknown. Tools that make reproducible archives write a time before 2000.
func publishedAt(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 2000 || t.Year() > 9000 {
		return time.Time{}
	}
	return t.UTC()
}

// indexError returns the Error of an index that cannot be read. No error of the reader contains text of the index.
func indexError(host string, err error) *Error {
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, errTooLarge):
		return newError(TooLarge, host, "the index is too large")
	}
	return newError(Invalid, host, "%s", err)
}

// commonValidator returns the validator of all sources; empty: one of them has to be read.
func commonValidator(sources []numbered) string {
	for _, n := range sources {
		if n.Validator != sources[0].Validator {
			return ""
		}
	}
	return sources[0].Validator
}

// A validator is an ETag, or the time of Last-Modified after this prefix.
const modifiedPrefix = "modified "

func setValidator(h http.Header, validator string) {
	if at, ok := strings.CutPrefix(validator, modifiedPrefix); ok {
		h.Set("If-Modified-Since", at)
	} else if validator != "" {
		h.Set("If-None-Match", validator)
	}
}

func validatorOf(h http.Header) string {
	validator := h.Get("ETag")
	if at := h.Get("Last-Modified"); validator == "" && at != "" {
		validator = modifiedPrefix + at
	}
	for _, c := range validator {
		if c < ' ' || c > '~' {
			return ""
		}
	}
	if len(validator) > maxValidator {
		return ""
	}
	return validator
}

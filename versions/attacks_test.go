package versions

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// brief are limits for servers that do not answer.
func brief(c *Config) {
	c.Limits = Limits{Connect: time.Second, Header: 200 * time.Millisecond, Idle: 200 * time.Millisecond, Request: 600 * time.Millisecond, Source: 3 * time.Second}
}

// attack is a server that answers everything but the handshake of a registry.
type attack struct {
	handle func(w http.ResponseWriter, r *http.Request)
	want   Class
}

func write(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func redirect(to string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

// drip sends a byte at a time, until the client ends the connection.
func drip(w http.ResponseWriter, r *http.Request) {
	for {
		if _, err := w.Write([]byte(" ")); err != nil {
			return
		}
		w.(http.Flusher).Flush() //nolint:forcetypeassert // a server's is one
		select {
		case <-r.Context().Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// endless sends text until the client ends the connection.
func endless(start, text string, sent *atomic.Int64) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, start)
		block := bytes.Repeat([]byte(text), 1+(64<<10)/len(text))
		for {
			n, err := w.Write(block)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}
}

func bomb(start string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = io.WriteString(z, start)
	block := bytes.Repeat([]byte(" "), 1<<20)
	for range 20 {
		_, _ = z.Write(block)
	}
	_ = z.Close()
	return out.Bytes()
}

// attacks are answers to a request for a list of tags, and to one for an index.
func attacks(sent *atomic.Int64) map[string]attack {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	packed := bomb("entries:\n  podinfo:\n  - version: 1.0.0\n")
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"errors":[{"code":"SECRET","message":"SECRET"}]}`)
		}
	}
	return map[string]attack{
		"hangs":                {hang, Unreachable},
		"hangs in the body":    {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(200); w.(http.Flusher).Flush(); hang(w, r) }, Unreachable}, //nolint:forcetypeassert // see drip
		"one byte at a time":   {drip, Unreachable},
		"endless spaces":       {endless("", " ", sent), TooLarge},
		"endless list":         {endless(`{"tags":["`, "x", sent), TooLarge},
		"endless skipped JSON": {endless(`{"a":["`, "x", sent), TooLarge},
		"endless tags":         {endless(`{"tags":[`, `"a",`, sent), TooLarge},
		"a length of 1 GB": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1073741824")
			w.WriteHeader(200)
		}, TooLarge},
		"shorter than its length": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(200)
			panic(http.ErrAbortHandler)
		}, Unreachable},
		"gzip bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed)
		}, "gzip"},
		"unknown compression": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write([]byte("SECRET"))
		}, Invalid},
		"not gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("SECRET"))
		}, Invalid},
		"closes the connection": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Unreachable},
		"not HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			_, _ = c.Write([]byte("SECRET\r\n\r\n"))
			_ = c.Close()
		}, Invalid}, //nolint:forcetypeassert // see drip
		"large header":                 {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("SECRET", 10_000)) }, Invalid},
		"page of a login":              {write("<!DOCTYPE html><p>SECRET"), Invalid},
		"empty":                        {write(""), Invalid},
		"null":                         {write("null"), Invalid},
		"JSON list":                    {write(`["SECRET"]`), Invalid},
		"JSON not closed":              {write(`{"tags":["SECRET`), Invalid},
		"deep JSON":                    {write(`{"a":` + strings.Repeat("[", 1<<20)), Invalid},
		"deep tags":                    {write(`{"tags":` + strings.Repeat("[", 1<<20)), Invalid},
		"wrong types":                  {write(`{"tags":{"SECRET":1},"entries":[]}`), Invalid},
		"numbers":                      {write(`{"tags":[1,2],"entries":1}`), Invalid},
		"redirect to metadata":         {redirect("https://169.254.169.254/latest/SECRET"), Refused},
		"redirect to metadata IPv6":    {redirect("https://[fd00:ec2::254]/latest/SECRET"), Refused},
		"redirect to embedded address": {redirect("https://[::ffff:169.254.169.254]/SECRET"), Refused},
		"redirect without TLS":         {redirect("http://example.com/SECRET"), Refused},
		"redirect to a file":           {redirect("file:///etc/passwd"), Refused},
		"redirects without end":        {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }, Invalid},
		"redirect to nowhere":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) }, Invalid},
		"400":                          {status(400), Invalid},
		"401":                          {status(401), Unauthorized},
		"403":                          {status(403), Unauthorized},
		"404":                          {status(404), NotFound},
		"204":                          {status(204), Invalid},
		"304":                          {status(304), Invalid},
		"429":                          {status(429), Limited},
		"500":                          {status(500), Unreachable},
		"503":                          {status(503), Unreachable},
	}
}

// TestAttacks: whatever a server answers, a scan has one error of the right class, without versions and text of the server, and reads a
// bounded number of bytes.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for name := range attacks(nil) {
		for _, kind := range []Kind{Image, Index} {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				t.Parallel()
				var sent atomic.Int64
				a := attacks(&sent)[name]
				if a.want == "gzip" {
					a.want = map[Kind]Class{Image: Invalid, Index: TooLarge}[kind]
				}
				r := newServer(t, func(w http.ResponseWriter, q *http.Request) {
					if q.URL.Path == "/v2/" {
						return
					}
					a.handle(w, q)
				})
				s := newScanner(t, []*server{r}, func(c *Config) {
					if c.Limits = (Limits{}); strings.HasPrefix(name, "hangs") || name == "one byte at a time" {
						brief(c)
					}
					c.Limits.Index = 8 << 20
					c.AuthFile = authFile(t, `{"auths":{"`+r.host()+`":{"username":"SECRET","password":"SECRET"}}}`)
				})
				source := Source{Kind: kind, URL: r.host() + "/secret/podinfo", Wants: every}
				if kind == Index {
					source.URL, source.Path = r.URL+"/charts?token=SECRET", "podinfo"
				}
				got := scanOne(t, s, source)
				require.NotNil(t, got.Err)
				require.Equal(t, a.want, got.Err.Class, "%v", got.Err)
				require.Empty(t, got.Versions)
				require.NotContains(t, got.Err.Error(), "SECRET")
				require.LessOrEqual(t, len(got.Err.Error()), 250)
				require.Equal(t, a.want == Unreachable || a.want == Limited, !got.Err.RetryAt.IsZero(), "only these start a back-off")
				limit := map[Kind]int64{Image: 4 << 20, Index: 8 << 20}[kind]
				require.LessOrEqual(t, sent.Load(), limit+8<<20, "more than buffers hold")
			})
		}
	}
}

// TestPages: lists of tags in pages.
func TestPages(t *testing.T) {
	t.Parallel()
	page := func(next string, tags ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if next != "" {
				w.Header().Set("Link", "<"+next+`>; rel="next"`)
			}
			_, _ = fmt.Fprintf(w, `{"name":"podinfo","tags":["%s"]}`, strings.Join(tags, `","`))
		}
	}
	for name, test := range map[string]struct {
		page func(n int) func(http.ResponseWriter)
		want []string
		err  Class
		most int // requests
	}{
		"unsorted": {func(n int) func(http.ResponseWriter) {
			return [](func(http.ResponseWriter)){page("/v2/podinfo/tags/list?page=1", "1.9.0", "1.10.0"), page("", "0.1.0", "2.0.0")}[n]
		}, []string{"2.0.0", "1.10.0", "1.9.0", "0.1.0"}, "", 2},
		"relative link": {func(n int) func(http.ResponseWriter) {
			return [](func(http.ResponseWriter)){page("list?page=1", "1.9.0"), page("", "0.1.0")}[n]
		}, []string{"1.9.0", "0.1.0"}, "", 2},
		"tags move": {func(n int) func(http.ResponseWriter) {
			return [](func(http.ResponseWriter)){page("?page=1", "1.0.0", "1.1.0"), page("?page=2", "1.1.0", "1.2.0"), page("", "1.0.0")}[n]
		}, []string{"1.2.0", "1.1.0", "1.0.0"}, "", 3},
		"the same page": {func(int) func(http.ResponseWriter) { return page("?page=1", "1.0.0") }, nil, Invalid, 2},
		"empty pages": {func(int) func(http.ResponseWriter) {
			return func(w http.ResponseWriter) {
				w.Header().Set("Link", "<?page=1>")
				_, _ = io.WriteString(w, `{"tags":null}`)
			}
		}, nil, Invalid, 1},
		"pages without end":  {func(n int) func(http.ResponseWriter) { return page("?page="+strconv.Itoa(n+1), "1.0."+strconv.Itoa(n)) }, nil, Invalid, 250},
		"another host":       {func(int) func(http.ResponseWriter) { return page("https://example.com/v2/podinfo/tags/list", "1.0.0") }, nil, Refused, 1},
		"another host short": {func(int) func(http.ResponseWriter) { return page("//169.254.169.254/latest", "1.0.0") }, nil, Refused, 1},
		"another scheme":     {func(int) func(http.ResponseWriter) { return page("http:/v2/podinfo/tags/list", "1.0.0") }, nil, Refused, 1},
		"not a link": {func(int) func(http.ResponseWriter) {
			return func(w http.ResponseWriter) {
				w.Header().Set("Link", "next")
				_, _ = io.WriteString(w, `{"tags":["1.0.0"]}`)
			}
		}, nil, Invalid, 1},
		"no tags": {func(int) func(http.ResponseWriter) {
			return func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"name":"podinfo"}`) }
		}, []string{}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newServer(t, func(w http.ResponseWriter, q *http.Request) {
				switch {
				case strings.HasSuffix(q.URL.Path, "/tags/list"):
					n, _ := strconv.Atoi(q.URL.Query().Get("page"))
					test.page(n)(w)
				case strings.Contains(q.URL.Path, "/manifests/"):
					w.WriteHeader(http.StatusNotFound)
				}
			})
			got := scanOne(t, newScanner(t, []*server{r}), Source{Kind: Image, URL: r.host() + "/podinfo", Wants: every})
			require.Equal(t, test.most, r.count("/tags/list"))
			if test.err != "" {
				require.NotNil(t, got.Err)
				require.Equal(t, test.err, got.Err.Class, "%v", got.Err)
				require.Empty(t, got.Versions)
				return
			}
			require.Nil(t, got.Err)
			require.Equal(t, test.want, names(got.Versions))
		})
	}
}

// TestTagLimit: of more than 10,000 tags, the first ones are read, and the result reports it. What cannot be a tag is counted only.
func TestTagLimit(t *testing.T) {
	t.Parallel()
	bad := []string{strings.Repeat("x", 129), strings.Repeat("x", 100_000), "a/b", "a b", "\\u0000", "\\n1.0.0", "\\u001b[31m", "..", "-1", "", "1.0.0+x", "é", "1.0.0\\u202e"}
	r := newServer(t, func(w http.ResponseWriter, q *http.Request) {
		if !strings.HasSuffix(q.URL.Path, "/tags/list") {
			return
		}
		_, _ = io.WriteString(w, `{"tags":["`+strings.Join(bad, `","`)+`"`)
		for i := range 20_000 {
			_, _ = fmt.Fprintf(w, `,"1.0.%d"`, i)
		}
		_, _ = io.WriteString(w, `]}`)
	})
	got := scanOne(t, newScanner(t, []*server{r}, func(c *Config) { c.Limits.Resolve = 1 }), Source{Kind: Image, URL: r.host() + "/podinfo", Wants: every})
	require.True(t, got.Truncated)
	require.Nil(t, got.Present, "a version that was not read may exist")
	require.Equal(t, 10_000, got.Listed)
	require.Equal(t, len(bad), got.Invalid)
	require.Len(t, got.Versions, 100)
	require.Equal(t, "1.0."+strconv.Itoa(10_000-len(bad)-1), got.Versions[0].Version)
}

// TestFewerTags: a registry that loses tags, or a tracked tag, is not a failure.
func TestFewerTags(t *testing.T) {
	t.Parallel()
	tags := `"1.0.0","1.1.0","latest"`
	r := newServer(t, func(w http.ResponseWriter, q *http.Request) {
		switch {
		case strings.HasSuffix(q.URL.Path, "/tags/list"):
			_, _ = io.WriteString(w, `{"tags":[`+tags+`]}`)
		case strings.Contains(q.URL.Path, "/manifests/") && !strings.Contains(tags, q.URL.Path[strings.LastIndex(q.URL.Path, "/")+1:]):
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = io.WriteString(w, someManifest)
		}
	})
	s := newScanner(t, []*server{r})
	source := Source{Kind: Image, URL: r.host() + "/podinfo", Wants: every, Track: []string{"latest", "1.1.0"}}
	first := scanOne(t, s, source)
	require.Nil(t, first.Err)
	require.Equal(t, []string{"1.1.0", "1.0.0", "latest"}, names(first.Versions))
	tags, source.Known = `"1.0.0"`, first.Versions
	second := scanOne(t, s, source)
	require.Nil(t, second.Err)
	require.Equal(t, first.Versions[1:2], second.Versions)
	require.Equal(t, []string{"1.0.0"}, second.Present, "the others were withdrawn")
}

// TestManifestAttacks: a manifest that cannot be read costs its digest, and does not hide the other versions.
func TestManifestAttacks(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	hex := strings.Repeat("0", 64)
	for name, test := range map[string]struct {
		handle  func(w http.ResponseWriter, r *http.Request)
		class   Class
		digests bool
	}{
		"wrong digest": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Docker-Content-Digest", "sha256:"+hex)
			_, _ = io.WriteString(w, `{}`)
		}, Invalid, false},
		"not JSON":    {write("SECRET"), Invalid, false},
		"deep JSON":   {write(strings.Repeat(`{"a":`, 100_000)), Invalid, false},
		"null":        {write("null"), Invalid, false},
		"no manifest": {write(`{"token":"SECRET"}`), Invalid, false},
		"wrong types": {write(`{"annotations":["SECRET"]}`), Invalid, false},
		"endless":     {endless("", " ", &sent), TooLarge, false},
		"hangs":       {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, Unreachable, false},
		"limited":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, Limited, false},
		"refused":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, Unauthorized, false},
		"missing":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, "", false},
		"redirect":    {redirect("https://169.254.169.254/"), Refused, false},
		"config path": {write(`{"config":{"mediaType":"` + ociConfig + `","digest":"sha256:../../../../etc"}}`), "", true},
		"config missing": {func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = io.WriteString(w, `{"config":{"mediaType":"`+ociConfig+`","digest":"sha256:`+hex+`"}}`)
		}, "", false},
		"config of another":  {write(`{"config":{"mediaType":"` + ociConfig + `","digest":"sha256:` + hex + `"}}`), Invalid, false},
		"index of itself":    {write(`{"manifests":[{"digest":"sha256:` + hex + `"}]}`), Invalid, false},
		"index without one":  {write(`{"manifests":[{}]}`), "", true},
		"future":             {write(`{"config":{"digest":"x"},"annotations":{"` + createdAnnotation + `":"2999-01-01T00:00:00Z"}}`), "", true},
		"year 99999":         {write(`{"config":{"digest":"x"},"annotations":{"` + createdAnnotation + `":"99999-01-01T00:00:00Z"}}`), "", true},
		"year 9999":          {write(`{"config":{"digest":"x"},"annotations":{"` + createdAnnotation + `":"9999-12-31T23:59:59-23:59"}}`), "", true},
		"start of the epoch": {write(`{"config":{"digest":"x"},"annotations":{"` + createdAnnotation + `":"1970-01-01T00:00:00Z"}}`), "", true},
		"not a time":         {write(`{"config":{"digest":"x"},"annotations":{"` + createdAnnotation + `":"SECRET"}}`), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var limits []func(*Config)
			if name == "hangs" {
				limits = append(limits, brief)
			}
			r := newServer(t, func(w http.ResponseWriter, q *http.Request) {
				switch {
				case strings.HasSuffix(q.URL.Path, "/tags/list"):
					_, _ = io.WriteString(w, `{"tags":["1.0.0","1.1.0"]}`)
				case q.URL.Path != "/v2/":
					test.handle(w, q)
				}
			})
			s := newScanner(t, []*server{r}, limits...)
			got := scanOne(t, s, Source{Kind: Image, URL: r.host() + "/podinfo", Wants: every})
			require.Equal(t, []string{"1.1.0", "1.0.0"}, names(got.Versions))
			if test.class == "" {
				require.Nil(t, got.Err)
			} else {
				require.NotNil(t, got.Err)
				require.Equal(t, test.class, got.Err.Class, "%v", got.Err)
				require.NotContains(t, got.Err.Error(), "SECRET")
			}
			for _, v := range got.Versions {
				require.Equal(t, test.digests, v.Digest != "")
				require.Equal(t, name == "future", !v.CreatedAt.IsZero())
			}
			require.LessOrEqual(t, r.count("/manifests/")+r.count("/blobs/"), 4)
		})
	}
}

// TestTokenAttacks: a registry cannot make the scanner send credentials, or any request, to an address that is not allowed.
func TestTokenAttacks(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	for name, test := range map[string]struct {
		realm string // TOKENS is the address of the service for tokens
		token func(w http.ResponseWriter, r *http.Request)
		want  Class
		calls int
	}{
		"metadata":           {"https://169.254.169.254/latest", nil, Invalid, 0},
		"without TLS":        {"http://TOKENS/token", nil, Invalid, 0},
		"file":               {"file:///etc/passwd", nil, Invalid, 0},
		"none":               {"", nil, Invalid, 0},
		"redirect":           {"https://TOKENS/token", redirect("https://169.254.169.254/SECRET"), "", 1},
		"redirect to http":   {"https://TOKENS/token", redirect("http://example.com/SECRET"), "", 1},
		"not JSON":           {"https://TOKENS/token", write("SECRET"), Invalid, 1},
		"no token":           {"https://TOKENS/token", write(`{"SECRET":1}`), Invalid, 1},
		"endless":            {"https://TOKENS/token", endless(`{"token":"`, "x", &sent), "", 1},
		"hangs":              {"https://TOKENS/token", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, Unreachable, 1},
		"limited":            {"https://TOKENS/token", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, Limited, 1},
		"refused":            {"https://TOKENS/token", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401); _, _ = io.WriteString(w, "SECRET") }, Unauthorized, 1},
		"not accepted":       {"https://TOKENS/token", write(`{"token":"SECRET"}`), Unauthorized, 2},
		"control characters": {"https://TOKENS/token", write(`{"token":"SECRET\r\nX: y"}`), Invalid, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokens := newServer(t, func(w http.ResponseWriter, q *http.Request) { test.token(w, q) })
			realm := strings.ReplaceAll(test.realm, "TOKENS", "localhost"+tokens.host()[len("127.0.0.1"):])
			r := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`",service="registry"`)
				w.WriteHeader(http.StatusUnauthorized)
			})
			s := newScanner(t, []*server{r, tokens}, func(c *Config) {
				if name == "hangs" {
					brief(c)
				}
				c.TLS.ServerName = "example.com"
				c.AuthFile = authFile(t, `{"auths":{"`+r.host()+`":{"username":"SECRET","password":"SECRET"}}}`)
			})
			got := scanOne(t, s, Source{Kind: Image, URL: r.host() + "/podinfo", Wants: every})
			require.NotNil(t, got.Err)
			if test.want != "" {
				require.Equal(t, test.want, got.Err.Class, "%v", got.Err)
			}
			require.NotContains(t, got.Err.Error(), "SECRET")
			require.Empty(t, got.Versions)
			require.Equal(t, test.calls, tokens.count(""))
			for _, value := range r.headers("Authorization") {
				require.NotContains(t, value, "Basic")
			}
		})
	}
}

// TestCredentialsStay: the credentials of a host are not sent to another one, neither by a redirect nor because a source names it.
func TestCredentialsStay(t *testing.T) {
	t.Parallel()
	elsewhere := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/challenge" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"tags":["1.0.0"]}`)
	})
	to := elsewhere.URL + "/tags"
	r := newServer(t, func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.URL.Path == "/v2/" || q.Header.Get("Authorization") == "":
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			http.Redirect(w, q, to, http.StatusTemporaryRedirect)
		}
	})
	s := newScanner(t, []*server{r, elsewhere}, func(c *Config) {
		c.AuthFile = authFile(t, `{"auths":{"`+r.host()+`":{"username":"robot","password":"PASSWORD"}}}`)
	})
	got := scanOne(t, s, Source{Kind: Image, URL: r.host() + "/podinfo", Wants: every})
	require.Equal(t, []string{"1.0.0"}, names(got.Versions))
	to = elsewhere.URL + "/challenge"
	got = scanOne(t, s, Source{Kind: Image, URL: r.host() + "/podinfo", Wants: every})
	require.Equal(t, Unauthorized, got.Err.Class)
	_ = scanOne(t, s, Source{Kind: Image, URL: elsewhere.host() + "/podinfo", Wants: every})
	require.NotEmpty(t, elsewhere.headers("Authorization"))
	for i, value := range elsewhere.headers("Authorization") {
		require.Empty(t, value, "request %d", i)
		require.Empty(t, elsewhere.headers("Referer")[i], "request %d", i)
	}
}

// TestAuthFile: a file of credentials that cannot be read fails the scan, without its text. It is read again at each scan.
func TestAuthFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"SECRET", `{"auths":["SECRET"]}`, strings.Repeat(" ", 1<<20+1)} {
		s := New(Config{AuthFile: authFile(t, text)})
		err := s.Scan(t.Context(), []Source{{}}, func(int, Result) { t.Error("a result") })
		require.ErrorContains(t, err, "REGISTRY_AUTH_FILE")
		require.NotContains(t, err.Error(), "SECRET")
	}
	require.ErrorContains(t, New(Config{AuthFile: "/does/not/exist"}).Scan(t.Context(), nil, nil), "REGISTRY_AUTH_FILE")
	all, err := readCredentials(authFile(t, `{"auths":{"https://index.docker.io/v1/":{"username":"a","password":"b"},"GHCR.io":{"username":"c","password":"d"},"ghcr.io/team":{"username":"e","password":"f"}}}`))
	require.NoError(t, err)
	for at, want := range map[[2]string]string{
		{"index.docker.io", "library/redis"}: "a", {"registry-1.docker.io", "x"}: "a", {"ghcr.io", "other/x"}: "c", {"ghcr.io", "team/x"}: "e", {"ghcr.io", "team"}: "e",
		{"ghcr.io", "teammate/x"}: "c", {"evil-ghcr.io", "x"}: "", {"ghcr.io.evil.com", "x"}: "", {"ghcr.io:5000", "x"}: "",
	} {
		found, invalid := all.find(at[0], at[1])
		require.Nil(t, invalid)
		require.Equal(t, want, found.Username, at)
	}
}

// TestSpellingsOfOneHost: of several entries for a host, the same one is used each time, and one without credentials never in place of
// one that has them. An entry that is not valid fails scans of its host only, without its text.
func TestSpellingsOfOneHost(t *testing.T) {
	t.Parallel()
	const good, old = `{"username":"good","password":"p"}`, `{"username":"old","password":"p"}`
	for auths, want := range map[string]string{
		`"h.example":` + good + `,"https://h.example":` + old:              "good",
		`"https://h.example":` + old + `,"h.example":` + good:              "good",
		`"http://h.example":` + good + `,"https://h.example/v2/":` + old:   "good", // the first by text
		`"h.example":{},"https://h.example":` + good:                       "good",
		`"https://h.example":` + good + `,"h.example":{"auth":"SECRET!"}`:  "good",
		`"other.example":{"auth":"SECRET!"},"h.example":` + good:           "good",
		`"other.example":"SECRET","https://registry-1.docker.io/v2/":null`: "",
	} {
		for range 20 { // the order of a map is random
			all, err := readCredentials(authFile(t, `{"auths":{`+auths+`}}`))
			require.NoError(t, err)
			found, invalid := all.find("h.example", "team/app")
			require.Nil(t, invalid, auths)
			require.Equal(t, want, found.Username, auths)
		}
	}
	for _, auths := range []string{`"h.example":{"auth":"SECRET!"}`, `"h.example":"SECRET"`, `"https://h.example/team":{"auth":"SECRET!"},"h.example":` + good} {
		all, err := readCredentials(authFile(t, `{"auths":{`+auths+`}}`))
		require.NoError(t, err)
		_, invalid := all.authenticator("h.example", "team/app")
		require.Equal(t, Invalid, invalid.Class, auths)
		require.NotContains(t, invalid.Message, "SECRET")
		require.Contains(t, invalid.Message, "h.example")
	}
}

// TestPrivateAuthority: a certificate of an unknown authority, or of another host, is an error that names the setting.
func TestPrivateAuthority(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push(t, "podinfo:1.0.0", created, nil)
	source := Source{Kind: Image, URL: r.host() + "/podinfo", Wants: every}
	got := scanOne(t, newScanner(t, nil), source)
	require.Equal(t, Unreachable, got.Err.Class)
	require.Contains(t, got.Err.Message, "REGISTRY_CA_FILE")
	got = scanOne(t, newScanner(t, []*server{r}, func(c *Config) { c.TLS.ServerName = "other.test" }), source)
	require.Equal(t, Unreachable, got.Err.Class)
	require.Contains(t, got.Err.Message, "another host")
	got = scanOne(t, newScanner(t, []*server{r}), source)
	require.Nil(t, got.Err)
}

// nameServer answers requests for any name with addresses, the next list at each request for an address of IPv4.
func nameServer(lists ...[]string) *net.Resolver {
	var n atomic.Int64
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer func() { _ = server.Close() }()
			var size [2]byte
			if _, err := io.ReadFull(server, size[:]); err != nil {
				return
			}
			text := make([]byte, binary.BigEndian.Uint16(size[:]))
			var q dnsmessage.Message
			if _, err := io.ReadFull(server, text); err != nil || q.Unpack(text) != nil {
				return
			}
			q.Response, q.Additionals = true, nil
			if q.Questions[0].Type == dnsmessage.TypeA {
				list := lists[min(int(n.Add(1))-1, len(lists)-1)]
				for _, address := range list {
					q.Answers = append(q.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: q.Questions[0].Name, Class: dnsmessage.ClassINET},
						Body:   &dnsmessage.AResource{A: [4]byte(net.ParseIP(address).To4())},
					})
				}
			}
			out, _ := q.Pack()
			_, _ = server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
		}()
		return client, nil
	}}
}

// TestRebinding: a name that resolves to an address that is not allowed, also after it did not, gets no request.
func TestRebinding(t *testing.T) {
	t.Parallel()
	r := newServer(t, write(`{"tags":["1.0.0"]}`))
	_, port, err := net.SplitHostPort(r.host())
	require.NoError(t, err)
	image := Source{Kind: Image, URL: "registry.example.com:" + port + "/podinfo", Track: []string{"latest"}}
	chart := Source{Kind: Index, URL: "https://charts.example.com:" + port, Path: "podinfo", Wants: every}
	for name, test := range map[string]struct {
		lists   [][]string
		private bool
		want    Class
	}{
		"loopback":           {[][]string{{"127.0.0.1"}}, false, Refused},
		"private":            {[][]string{{"10.0.0.1"}}, false, Refused},
		"metadata":           {[][]string{{"169.254.169.254"}}, false, Refused},
		"metadata, private":  {[][]string{{"169.254.169.254"}}, true, Refused},
		"several":            {[][]string{{"169.254.169.254", "127.0.0.1"}}, false, Refused},
		"allowed by setting": {[][]string{{"127.0.0.1"}}, true, ""},
	} {
		before := r.count("")
		for _, source := range []Source{image, chart} {
			s := newScanner(t, []*server{r}, brief, func(c *Config) {
				c.Resolver, c.AllowPrivate, c.TLS.ServerName = nameServer(test.lists...), test.private, "example.com"
			})
			got := scanOne(t, s, source)
			if test.want != "" {
				require.NotNil(t, got.Err, name)
				require.Equal(t, test.want, got.Err.Class, "%s: %v", name, got.Err)
				require.NotContains(t, got.Err.Error(), "127.0.0.1")
			}
		}
		require.Equal(t, test.want == "", r.count("") > before, name)
	}

	// The first connection is allowed, the next one is not: the server closes each connection.
	closing := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, `{"tags":["1.0.0"]}`)
	})
	_, port, err = net.SplitHostPort(closing.host())
	require.NoError(t, err)
	s := newScanner(t, []*server{closing}, func(c *Config) {
		c.Resolver, c.TLS.ServerName = nameServer([]string{"127.0.0.1"}, []string{"169.254.169.254"}), "example.com"
	})
	got := scanOne(t, s, Source{Kind: Image, URL: "registry.example.com:" + port + "/podinfo", Wants: every})
	require.NotNil(t, got.Err)
	require.Equal(t, Refused, got.Err.Class, "%v", got.Err)
	require.Equal(t, 1, closing.count(""))
}

// TestAddresses: sources that name an address that is not allowed get no request.
func TestAddresses(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	for text, want := range map[string]Class{
		"127.0.0.1:5000/podinfo": Refused, "10.1.2.3/podinfo": Refused, "[::1]:5000/podinfo": Refused, "169.254.169.254/latest": Refused, "192.168.1.1:5000/x": Refused,
		"user:SECRET@ghcr.io/podinfo": Invalid, "ghcr.io/podinfo@sha256:SECRET": Invalid, "ghcr.io/podinfo:SECRET": Invalid, "ghcr.io/SECRET/../x": Invalid, "": Invalid, "https://ghcr.io/x": Invalid,
	} {
		for _, source := range []Source{{Kind: Image, URL: text}, {Kind: OCIArtifact, URL: "oci://" + text}} {
			err := s.check(source)
			require.NotNil(t, err, text)
			require.Equal(t, want, err.Class, text)
			require.NotContains(t, err.Error(), "SECRET")
			require.Equal(t, err, scanOne(t, s, source).Err)
		}
	}
	for text, want := range map[string]Class{
		"http://example.com": Refused, "https://127.0.0.1/x": Refused, "https://[fe80::1%25eth0]/": Refused, "https://user:SECRET@example.com": Invalid, "file:///etc/passwd": Invalid, "https://": Invalid,
		"https://%zz": Invalid, "oci://ghcr.io/x": Refused, "": Invalid, "https://2130706433/": Refused,
	} {
		source := Source{Kind: Index, URL: text, Path: "podinfo"}
		if text == "https://2130706433/" { // a name: it is checked when it is resolved
			require.Nil(t, s.check(source))
			continue
		}
		err := s.check(source)
		require.NotNil(t, err, text)
		require.Equal(t, want, err.Class, text)
		require.NotContains(t, err.Error(), "SECRET")
	}
	require.Nil(t, s.check(Source{Kind: Image, URL: "redis"}))
	require.Nil(t, s.check(Source{Kind: Chart, URL: "oci://ghcr.io/stefanprodan/charts", Path: "podinfo"}))
	require.Nil(t, s.check(Source{Kind: Index, URL: "https://stefanprodan.github.io/podinfo", Path: "podinfo"}))
	require.Equal(t, Invalid, s.check(Source{Kind: Index, URL: "https://stefanprodan.github.io/podinfo"}).Class)
	require.Equal(t, Invalid, s.check(Source{Kind: OCIArtifact, URL: "ghcr.io/x"}).Class)
	require.Equal(t, Invalid, s.check(Source{Kind: "other", URL: "ghcr.io/x"}).Class)
}

// TestBackoff: after failures no request is sent before a time that doubles up to 24 hours, unless a person asks; Retry-After also counts then.
func TestBackoff(t *testing.T) {
	t.Parallel()
	status, header := http.StatusInternalServerError, ""
	r := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		if header != "" {
			w.Header().Set("Retry-After", header)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, helmIndex)
	})
	now := created
	s := newScanner(t, []*server{r}, func(c *Config) { c.Now = func() time.Time { return now } })
	source := Source{Kind: Index, URL: r.URL, Path: "podinfo", Wants: every}
	waits := []string{}
	for range 14 {
		got := scanOne(t, s, source)
		require.Equal(t, Unreachable, got.Err.Class)
		waits = append(waits, got.Err.RetryAt.Sub(now).String())
		before := r.count("")
		again := scanOne(t, s, source)
		require.Equal(t, Limited, again.Err.Class)
		require.Equal(t, got.Err.RetryAt, again.Err.RetryAt)
		require.Equal(t, before, r.count(""))
		now = got.Err.RetryAt
	}
	require.Equal(t, strings.Fields("1m0s 2m0s 4m0s 8m0s 16m0s 32m0s 1h4m0s 2h8m0s 4h16m0s 8h32m0s 17h4m0s 24h0m0s 24h0m0s 24h0m0s"), waits)
	require.Equal(t, 14, r.count(""))

	_ = scanOne(t, s, source)
	source.IgnoreBackoff = true
	_ = scanOne(t, s, source)
	require.Equal(t, 16, r.count(""), "a person asks")
	status = http.StatusOK
	require.Nil(t, scanOne(t, s, source).Err)
	source.IgnoreBackoff = false
	require.Nil(t, scanOne(t, s, source).Err, "a success ends the back-off")

	now = created
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		status = code
		for text, wait := range map[string]time.Duration{"120": 2 * time.Minute, now.Add(5 * time.Minute).Format(http.TimeFormat): 5 * time.Minute, "999999999": 24 * time.Hour, "-1": time.Minute, "SECRET": time.Minute} {
			header = text
			got := scanOne(t, s, source)
			require.Equal(t, now.Add(wait), got.Err.RetryAt, "%d %s", code, text)
			before := r.count("")
			source.IgnoreBackoff = wait > time.Minute
			require.Equal(t, Limited, scanOne(t, s, source).Err.Class)
			require.Equal(t, before, r.count(""))
			now, status, source.IgnoreBackoff = now.Add(wait), http.StatusOK, false
			require.Nil(t, scanOne(t, s, source).Err)
			now, status = created, code
			s.hosts.all = map[string]*host{}
		}
	}
}

// TestHostLimits: at most two requests to a host at a time, over all its repositories and scans; one host that hangs costs two of its
// lists the time of a request, and does not fail another host.
func TestHostLimits(t *testing.T) {
	t.Parallel()
	good := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tags/list") {
			_, _ = io.WriteString(w, `{"tags":["1.0.0"]}`)
			return
		}
		_, _ = io.WriteString(w, someManifest)
	})
	bad := newServer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s := newScanner(t, []*server{good, bad}, func(c *Config) { // long enough for the good one on a busy machine
		c.Limits = Limits{Header: 5 * time.Second, Request: 10 * time.Second, Source: time.Minute}
	})
	var sources []Source
	for i := range 40 {
		sources = append(sources, Source{Kind: Image, URL: fmt.Sprintf("%s/app-%d", good.host(), i), Wants: every}, Source{Kind: Image, URL: fmt.Sprintf("%s/app-%d", bad.host(), i), Wants: every})
	}
	done := make(chan []Result)
	go func() { done <- scanAll(t, s, sources...) }()
	for _, results := range [][]Result{scanAll(t, s, sources...), <-done} {
		for i, r := range results {
			if i%2 == 0 {
				require.Nil(t, r.Err)
				require.NotEmpty(t, r.Versions[0].Digest)
			} else {
				require.NotNil(t, r.Err)
				require.False(t, r.Err.RetryAt.IsZero())
			}
		}
	}
	require.LessOrEqual(t, good.most, 2)
	require.LessOrEqual(t, bad.count(""), 4)
	// A request's place is given back by its own goroutine, maybe after the end of the scan.
	require.Eventually(t, func() bool {
		s.hosts.prune(time.Now())
		return len(s.hosts.all) == 1
	}, time.Minute, 10*time.Millisecond, "hosts without failures are forgotten")
}

// TestCanceled: a scan that the service ends reports all sources and starts no back-off.
func TestCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	s := newScanner(t, []*server{r})
	results := 0
	require.NoError(t, s.Scan(ctx, []Source{{Kind: Image, URL: r.host() + "/a", Wants: every}, {Kind: Index, URL: r.URL, Path: "b", Wants: every}}, func(_ int, r Result) {
		results++
		require.NotNil(t, r.Err)
		require.True(t, r.Err.RetryAt.IsZero())
	}))
	require.Equal(t, 2, results)
	require.True(t, s.hosts.get(r.host()).wait(time.Now(), false).IsZero())
}

// TestProxy: all requests use the proxy, which must enforce the rules; literal addresses are refused before.
func TestProxy(t *testing.T) {
	t.Parallel()
	r := newServer(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/v2/podinfo/tags/list" {
			_, _ = io.WriteString(w, `{"tags":["1.0.0"]}`)
			return
		}
		http.Redirect(w, q, "https://127.0.0.1/SECRET", http.StatusFound)
	})
	proxy := newServer(t, func(w http.ResponseWriter, q *http.Request) {
		to, err := (&net.Dialer{}).DialContext(q.Context(), "tcp", r.host())
		if err != nil || q.Method != http.MethodConnect || q.Host != "example.com:443" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		from, _, err := w.(http.Hijacker).Hijack() //nolint:forcetypeassert // a server's is one
		if err != nil {
			return
		}
		// Not before Hijack: a byte that the client sends in answer could go into the server's buffer.
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(to, from) }()
		_, _ = io.Copy(from, to)
	})
	s := newScanner(t, []*server{r, proxy}, func(c *Config) {
		c.AllowPrivate, c.Proxy = false, mustParse(t, proxy.URL)
		c.TLS = &tls.Config{RootCAs: c.TLS.RootCAs, MinVersion: tls.VersionTLS12}
	})
	got := scanOne(t, s, Source{Kind: Index, URL: "https://example.com/charts", Path: "podinfo", Wants: every})
	require.NotNil(t, got.Err)
	require.Equal(t, Refused, got.Err.Class, "%v", got.Err)
	require.Equal(t, 1, proxy.count(""))
	require.Equal(t, 1, r.count(""))
}

// TestTwoRequests: the third request to a host waits until one ends.
func TestTwoRequests(t *testing.T) {
	t.Parallel()
	all := &hosts{all: map[string]*host{}}
	ended, end := context.WithCancel(t.Context())
	end()
	require.NoError(t, all.get("a").acquire(t.Context()))
	require.NoError(t, all.get("a").acquire(t.Context()))
	for range 50 { // a free slot would be taken at random
		require.Error(t, all.get("a").acquire(ended))
	}
	all.get("a").release()
	require.NoError(t, all.get("a").acquire(t.Context()))
}

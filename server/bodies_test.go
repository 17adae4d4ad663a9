package server_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const mebibyte = 1 << 20

func TestBodies(t *testing.T) {
	t.Parallel()
	w := setup(t)
	nested := func(n int) string {
		return `{"patches":{"podinfo":{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}}`
	}
	w.unchanged(func() {
		for name, body := range map[string]string{
			"spaces":               "   \n\t ",
			"half":                 `{"environment":"qa"`,
			"garbage after":        `{"environment":"qa"} x`,
			"two documents":        `{"environment":"qa"}{"environment":"uat"}`,
			"a comment":            `{/* x */}`,
			"a trailing comma":     `{"environment":"qa",}`,
			"single quotes":        `{'environment':'qa'}`,
			"NaN":                  `{"node_count":NaN}`,
			"a leading zero":       `{"node_count":01}`,
			"hexadecimal":          `{"node_count":0x10}`,
			"a huge exponent":      `{"patches":{"podinfo":{"a":1e999999}}}`,
			"a byte order mark":    "\ufeff{}",
			"invalid UTF-8":        "{\"cluster_name\":\"\xff\xfe\"}",
			"invalid UTF-8 key":    "{\"\xc3\x28\":1}",
			"overlong UTF-8":       "{\"cluster_name\":\"\xc0\xaf\"}",
			"UTF-16":               "\xff\xfe{\x00}\x00",
			"depth 65":             nested(62),
			"depth 100,000":        nested(100_000),
			"depth of objects":     strings.Repeat(`{"a":`, 50_000) + "1" + strings.Repeat("}", 50_000),
			"an unclosed depth":    strings.Repeat("[", 200_000),
			"\\u0000 in a key":     `{"labels":{"a\u0000":"x"}}`,
			"2^53+1":               `{"patches":{"podinfo":{"a":9007199254740993}}}`,
			"-2^53-1":              `{"patches":{"podinfo":{"a":-9007199254740993}}}`,
			"2^64":                 `{"patches":{"podinfo":{"a":18446744073709551616}}}`,
			"2^53+1 far below":     `{"patches":{"podinfo":{"a":[{"b":9007199254740993}]}}}`,
			"duplicate keys":       `{"labels":{},"labels":{}}`,
			"a form":               `environment=qa`,
			"XML":                  `<environment>qa</environment>`,
			"a high surrogate":     `{"cluster_name":"\ud800"}`,
			"a low surrogate":      `{"cluster_name":"\udc00x"}`,
			"swapped surrogates":   `{"labels":{"\udc00\ud800":"x"}}`,
			"a surrogate in patch": `{"patches":{"podinfo":{"a":"\ud800"}}}`,
			"a tab in a string":    "{\"cluster_name\":\"a\tb\"}",
		} {
			for _, method := range []string{"PUT", "PATCH"} {
				got := w.do(method, demoCluster, body)
				require.Equal(t, 400, got.status, "%s %s: %.200s", method, name, got.body)
				got.problem(400, "validation_error")
			}
		}
		for _, method := range []string{"PUT", "PATCH"} {
			require.Contains(t, string(w.do(method, demoCluster, "").problem(400, "validation_error").body), "required")
		}
		w.do("POST", "/clusters", "").problem(400, "validation_error")
	})
	w.put(demoCluster, nested(61)).want(200) // depth 64
	w.put(demoCluster, `{"patches":{"podinfo":{"a":9007199254740992,"b":-9007199254740992,"c":1.5e10,"d":"\ud83d\ude80"}}}`).want(200)
	patches := at(w.get(demoCluster).json(), "patches", "podinfo")
	require.Equal(t, "🚀", at(patches, "d"))
	require.Contains(t, string(w.poll(demoPolls+"/platform-components").body), `"a":9007199254740992,`)
}

func TestBodySize(t *testing.T) {
	t.Parallel()
	w := setup(t)
	filled := func(size int) string {
		const frame = `{"environment":"qa"}`
		return frame + strings.Repeat(" ", size-len(frame))
	}
	w.unchanged(func() {
		for _, path := range []string{demoCluster, "/namespaces/podinfo", demoCluster + "/platform_components/podinfo"} {
			detail := w.put(path, filled(4*mebibyte+1)).problem(413, "too_large").json()["detail"]
			require.Contains(t, detail, "the body of 4194305 bytes is larger than 4 MiB (4194304 bytes)")
			require.Contains(t, detail, "send it in parts")
		}
		// Without a length in front, reading ends where the limit is.
		req := w.request("PUT", demoCluster, "")
		req.Header.Set("Content-Type", "application/json")
		req.Body = io.NopCloser(&endless{})
		req.ContentLength = -1
		require.Contains(t, w.send(req).problem(413, "too_large").json()["detail"], "the body is larger than 4 MiB")
		// The body is not read without a token.
		req = w.request("PUT", demoCluster, "", "Authorization", "Bearer "+readToken)
		body := &endless{}
		req.Body, req.ContentLength = io.NopCloser(body), -1
		w.send(req).problem(401, "unauthorized")
	})
	w.put(demoCluster, filled(4*mebibyte)).want(200)
	chunked := w.request("PUT", demoCluster, "")
	chunked.Header.Set("Content-Type", "application/json")
	chunked.Body, chunked.ContentLength = io.NopCloser(strings.NewReader(`{"environment":"uat"}`)), -1
	require.Equal(t, "uat", w.send(chunked).want(200).json()["environment"])
}

// A body without a length in front may be large, so the change waits among the batches; a small one does not.
func TestChunkedBodiesQueued(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const queued = `flux_resourceset_work_duration_seconds_count{work="batches"}`
	w.put(demoCluster, `{"environment":"qa"}`).want(200)
	before := w.metric(queued)
	chunked := w.request("PUT", demoCluster, "")
	chunked.Header.Set("Content-Type", "application/json")
	chunked.Body, chunked.ContentLength = io.NopCloser(strings.NewReader(`{"environment":"uat"}`)), -1
	w.send(chunked).want(200)
	require.InDelta(t, before+1, w.metric(queued), 0)
	w.put(demoCluster, `{"environment":"qa"}`).want(200)
	require.InDelta(t, before+1, w.metric(queued), 0)
}

// endless never ends.
type endless struct{}

// Read implements io.Reader.
func (*endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestCompressedBody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var bomb bytes.Buffer
	zw := gzip.NewWriter(&bomb)
	_, err := io.Copy(zw, io.LimitReader(&endless{}, 64*mebibyte))
	require.NoError(t, err)
	require.NoError(t, zw.Close())
	w.unchanged(func() {
		for _, coding := range []string{"gzip", "GZIP", "deflate", "br", "identity, gzip", "x"} {
			w.put(demoCluster, bomb.String(), "Content-Encoding", coding).problem(415, "unsupported_media_type")
		}
	})
	w.put(demoCluster, `{"environment":"qa"}`, "Content-Encoding", "identity").want(200)
}

// A body that breaks off is refused, and so is one where an operation takes none and it would matter.
func TestTruncatedBody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	head := fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nConnection: close\r\n", demoCluster, writeToken)
	w.unchanged(func() {
		require.Equal(t, 400, raw(t, w, head+"Transfer-Encoding: chunked\r\n\r\n14\r\n{\"environment\":\"qa\"}\r\nzz\r\n").status)
		require.Contains(t, []int{400, 501}, raw(t, w, head+"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n").status)
		require.Equal(t, 400, raw(t, w, head+"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}   ").status)
	})
	// Both lengths, the classic of request smuggling: Go goes by the chunks and closes the connection.
	got := raw(t, w, head+"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
	require.Contains(t, []int{200, 400}, got.status)
	// DELETE and namespace assignments take no body; one is not read.
	w.do("PUT", demoCluster+"/namespaces/podinfo", `{"anything":1}`).want(200)
	w.do("DELETE", demoCluster+"/namespaces/podinfo", `{"anything":1}`).want(200)
}

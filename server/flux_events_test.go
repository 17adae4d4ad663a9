package server_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
)

const demoEvents = demoPolls + "/events"

func event(metadata, message string) string {
	text, _ := json.Marshal(message)
	return fmt.Sprintf(`{"involvedObject":{"kind":"HelmRelease","namespace":"flux-system","name":"platform-podinfo","uid":"x"},"severity":"error",
		"timestamp":"2026-01-02T03:04:05Z","reason":"UpgradeFailed","message":%s,"metadata":%s,"reportingController":"helm-controller"}`, text, metadata)
}

func (w *world) tell(token, path, body string, headers ...string) *answer {
	w.t.Helper()
	return w.do("POST", path, body, append([]string{"Authorization", "Bearer " + token, "User-Agent", "Go-http-client/1.1"}, headers...)...)
}

func (w *world) status(id string) any {
	w.t.Helper()
	return w.get("/clusters/" + id + "/status").want(200).json()
}

// input is one input of a cluster's status.
func (w *world) input(cluster, list, id string) map[string]any {
	w.t.Helper()
	for _, in := range at(w.status(cluster), "inputs").([]any) {
		if in := in.(map[string]any); in["list"] == list && in["id"] == id {
			return in
		}
	}
	w.t.Fatalf("no %s %s on %s", list, id, cluster)
	return nil
}

func TestEventsInStatus(t *testing.T) {
	t.Parallel()
	w := setup(t)
	token := w.issue(pollBody).secret
	receipt := at(w.get(demoPolls+"/platform-components", "Authorization", "Bearer "+token).json(), "inputs", 2, "receipt").(string)
	// Kubernetes writes a time that is not set as null.
	w.tell(token, demoEvents, strings.Replace(event(`{}`, "undated"), `"2026-01-02T03:04:05Z"`, "null", 1)).want(202)
	for _, metadata := range []string{`{"component":"podinfo","input":"` + receipt + `","revision":"6.9.0"}`, `{"event.toolkit.fluxcd.io/component":"podinfo","event.toolkit.fluxcd.io/input":"` + receipt + `"}`} {
		w.tell(token, demoEvents, event(metadata, `<script>alert("x")</script>`)).want(202)
		got := w.get(demoCluster + "/status").want(200)
		require.Equal(t, "application/json", got.header.Get("Content-Type"))
		require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
		in := w.input("demo-cluster-01", "platform-components", "podinfo")
		require.Equal(t, "failed", in["state"])
		require.Equal(t, `<script>alert("x")</script>`, at(in, "failure", "message"))
		require.Equal(t, "UpgradeFailed", at(in, "failure", "reason"))
		require.Equal(t, "HelmRelease/flux-system/platform-podinfo", at(in, "failure", "object"))
		require.Equal(t, in["failure"], at(w.get("/status").want(200).json(), "clusters", 0, "failure"))
		w.clock.advance(time.Minute)
	}
	w.get(demoReceipts+"platform-components/podinfo?input="+receipt, "Authorization", "Bearer "+token).want(200)
	require.Equal(t, "confirmed", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])

	// About no input: the object's last words.
	w.tell(token, demoEvents, event(`{}`, "stalled")).want(202)
	require.Equal(t, "stalled", at(w.status("demo-cluster-01"), "events", 0, "message"))
}

func TestInvalidEvents(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		w := setupWith(t, options{mode: mode})
		good := event(`{"component":"podinfo"}`, "x")
		w.tell(readToken, demoEvents, good).want(202)
		for name, body := range map[string]string{
			"half": good[:100], "two": good + good, "a list": "[]", "null": "null", "no object": `{"severity":"error","reason":"x"}`,
			"a number": strings.Replace(good, `"UpgradeFailed"`, "7", 1), "no time": strings.Replace(good, "2026-01-02T03:04:05Z", "yesterday", 1),
			"a deep one":                `{"metadata":` + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000) + `}`,
			"metadata that are no text": strings.Replace(good, `"podinfo"}`, `{"a":1}}`, 1),
			"a long name":               strings.Replace(good, "UpgradeFailed", strings.Repeat("x", 254), 1),
		} {
			require.Equal(t, 400, w.tell(readToken, demoEvents, body).status, name)
		}
		w.tell(readToken, demoEvents, event(`{}`, strings.Repeat("x", 66_000))).want(413)
		w.tell(readToken, demoEvents, event(`{}`, strings.Repeat("x", 4<<20))).want(413)
		w.tell(readToken, demoEvents, good, "Content-Type", "text/plain").want(415)
		w.tell(readToken, demoEvents, good, "Content-Encoding", "gzip").want(415)
		w.tell(readToken, "/api/v2/flux/clusters/nobody.example.com/events", good).problem(404, "not_found")
		w.tell("wrong", demoEvents, good).problem(401, "unauthorized")
	}
}

// A forged event counts for its sender only: path and credential decide, not the event.
func TestForgedEvents(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/clusters", `{"id":"other","cluster_dns":"other.example.com","environment":"dev","platform_components":[{"id":"podinfo"}]}`)
	receipt := at(w.poll("/api/v2/flux/clusters/other.example.com/platform-components").json(), "inputs", 0, "receipt").(string)
	forged := event(`{"component":"podinfo","input":"`+receipt+`","cluster_dns":"other.example.com","cluster":"other","list":"platform-components"}`, "x")
	token := w.issue(pollBody).secret
	w.tell(token, demoEvents, forged).want(202)
	w.tell(token, "/api/v2/flux/clusters/other.example.com/events", forged).problem(403, "forbidden")
	require.NotEqual(t, "failed", at(w.status("other"), "state"))
	w.get("/api/v2/flux/clusters/other.example.com/receipts/platform-components/podinfo?input="+receipt, "Authorization", "Bearer "+token).problem(403, "forbidden")
	require.NotEqual(t, "confirmed", w.input("other", "platform-components", "podinfo")["state"])

	// From next year, or long ago: the time of arrival counts.
	for _, year := range []string{"2027", "1970", "9999"} {
		w.tell(token, demoEvents, strings.Replace(event(`{}`, year), "2026", year, 1)).want(202)
		at, err := time.Parse(time.RFC3339, at(w.status("demo-cluster-01"), "events", 0, "at").(string))
		require.NoError(t, err)
		require.WithinRange(t, at, w.clock.Now().Add(-time.Minute), w.clock.Now())
	}
	for _, metadata := range []string{`{"component":"../../x"}`, `{"component":"a\u0000b"}`, `{"component":"x","list":"nothing"}`, `{"component":"` + strings.Repeat("x", 300) + `"}`, `{"component":"x","input":"<script>"}`} {
		w.tell(token, demoEvents, event(metadata, "a\x00b")).want(202)
	}
	w.get(demoCluster + "/status").want(200)
}

// An event sent by a person is accepted and has no effect.
func TestEventsOfPeopleIgnored(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.poll(demoPolls + "/platform-components").want(200)
	receipt := w.input("demo-cluster-01", "platform-components", "podinfo")["receipt"].(string)
	body := event(`{"component":"podinfo","input":"`+receipt+`"}`, "sent by hand")
	for _, token := range []string{readToken, w.issue(pollBody).secret} {
		for _, agent := range []string{"flux-resourceset-cli/1", "Mozilla/5.0 (X11; Linux x86_64)"} {
			w.tell(token, demoEvents, body, "User-Agent", agent).want(202)
			w.tell(token, demoEvents, event(`{}`, "sent by hand"), "User-Agent", agent).want(202)
		}
	}
	require.NotEqual(t, "failed", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])
	require.NotContains(t, string(w.get(demoCluster+"/status").want(200).body), "sent by hand")
	w.tell(readToken, demoEvents, body).want(202)
	require.Equal(t, "failed", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])
}

func TestEventRateLimit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/clusters", `{"id":"other","cluster_dns":"other.example.com","environment":"dev"}`)
	taken := 0
	for range 200 {
		if w.tell(readToken, demoEvents, event(`{}`, "x")).status == 202 {
			taken++
		}
	}
	require.Equal(t, 60, taken)
	refused := w.tell(readToken, demoEvents, event(`{}`, "x")).problem(429, "too_many_requests")
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	w.tell(readToken, "/api/v2/flux/clusters/other.example.com/events", event(`{}`, "x")).want(202)
	w.poll(demoPolls + "/namespaces").want(200)
	w.clock.advance(time.Second)
	w.tell(readToken, demoEvents, event(`{}`, "x")).want(202)
}

// Recognizable secrets are masked in all fields of stored events, also truncated ones.
func TestEventsMasked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	managed := w.issue(pollBody).secret
	receipt := w.input("demo-cluster-01", "platform-components", "podinfo")["receipt"].(string)
	secrets := []string{
		readToken, writeToken, readPrevious, managed, "AKIA" + "ABCDEFGHIJKLMNOP", "ghp_" + strings.Repeat("a1", 18),
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJzZWNyZXQifQ.c2lnbmF0dXJlLXNpZw",
	}
	tell := func(body string) {
		w.clock.advance(time.Second)
		w.tell(managed, demoEvents, body).want(202)
	}
	shown := func() string {
		return string(w.get(demoCluster+"/status").want(200).body) + w.logs.String()
	}
	for i, secret := range secrets {
		for _, text := range []string{secret, "password=" + secret + " is wrong", strings.Repeat("x", 2040) + secret} {
			for _, metadata := range []string{`{"component":"podinfo","input":"` + receipt + `","revision":` + strconv.Quote(secret) + `}`, `{}`} {
				body := event(metadata, text)
				tell(body)
				require.False(t, strings.Contains(shown(), secret), "secret %d in %.60s", i, text)
				tell(strings.NewReplacer("UpgradeFailed", secret, "platform-podinfo", secret).Replace(body))
				require.False(t, strings.Contains(shown(), secret), "secret %d as a name", i)
			}
		}
	}
	for _, end := range []string{"\n-----END RSA PRIVATE KEY----- was refused", ""} { // or cut off
		tell(event(`{"component":"podinfo","input":"`+receipt+`"}`, "key -----BEGIN RSA PRIVATE KEY-----\nMIIEsecret\nsecret"+end))
		message := at(w.input("demo-cluster-01", "platform-components", "podinfo"), "failure", "message")
		require.Equal(t, "key ***"+strings.TrimPrefix(end, "\n-----END RSA PRIVATE KEY-----"), message)
	}
}

// Flux has three severities. A fourth is no reason to lose an event, and no failure.
func TestUnknownSeverity(t *testing.T) {
	t.Parallel()
	w := setup(t)
	receipt := w.input("demo-cluster-01", "platform-components", "podinfo")["receipt"].(string)
	w.poll(demoPolls + "/platform-components").want(200)
	for _, severity := range []string{"trace", "warning", "ERROR", strings.Repeat("x", 253)} {
		body := strings.Replace(event(`{"component":"podinfo","input":"`+receipt+`"}`, "x"), `"error"`, strconv.Quote(severity), 1)
		w.tell(readToken, demoEvents, body).want(202)
		require.Equal(t, "unknown", w.input("demo-cluster-01", "platform-components", "podinfo")["state"], severity)
	}
}

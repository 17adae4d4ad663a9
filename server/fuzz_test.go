package server_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// fuzzed is a server with the demo fleet, called without a connection, since a fuzz target makes many requests.
func fuzzed(f *testing.F) http.Handler {
	f.Helper()
	st, err := sqlite.Open(f.Context(), sqlite.Config{Memory: true})
	require.NoError(f, err)
	f.Cleanup(func() { _ = st.Close() })
	replica := store.NewReplica(store.Config{Store: st, Rules: fleet.Rules{Environments: []string{"dev", "qa", "uat", "prod"}, MaxRemovals: 1 << 30}})
	require.NoError(f, replica.Load(f.Context()))
	body, err := os.ReadFile("../examples/demo/seed.json")
	require.NoError(f, err)
	seed, err := fleet.ParseSeed(body)
	require.NoError(f, err)
	_, err = server.SeedEmptyStore(f.Context(), replica, seed, store.Meta{Actor: "system", Reason: "demo"})
	require.NoError(f, err)
	srv, err := server.New(server.Config{
		Mode: server.ModeCRUD, Replica: replica, History: st, Version: "v2.0.0-test", StoreName: "memory",
		Tokens: server.Tokens{Read: readToken, Write: writeToken}, Now: func() time.Time { return start },
	})
	require.NoError(f, err)
	return srv
}

// FuzzPollPath: for any DNS name in the path, the answer is this cluster's or an error, never an empty list by accident.
func FuzzPollPath(f *testing.F) {
	for _, dns := range []string{
		demoDNS, strings.ToUpper(demoDNS), demoDNS + ".", demoDNS + "..", "%2F", "%00", "..%2f" + demoDNS, "a//b", "%ff%fe", "b%C3%BCcher.example",
		"xn--bcher-kva.example", "%zz", "", ".", "..", ":cluster_dns", "*", "%64emo-cluster-01.k8s.example.com", demoDNS + "/../" + demoDNS, demoDNS + "?x=1#y",
	} {
		f.Add(dns)
	}
	handler := fuzzed(f)
	f.Fuzz(func(t *testing.T, dns string) {
		// The request is parsed by net/http, as from a connection; requests that it refuses do not reach the handler.
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET /api/v2/flux/clusters/" + dns + "/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + readToken + "\r\n\r\n")))
		if err != nil {
			return
		}
		// A line break in the text would make other headers of the rest.
		if strings.ContainsAny(dns, "\r\n") {
			return
		}
		req.RemoteAddr = "192.0.2.1:1"
		res := httptest.NewRecorder()
		handler.ServeHTTP(res, req)
		if res.Code == http.StatusOK {
			name := strings.TrimPrefix(strings.TrimSuffix(req.URL.Path, "/namespaces"), "/api/v2/flux/clusters/")
			if req.URL.Path == "/api/v2/flux/clusters" {
				return // the list of all clusters, asked for by its own path
			}
			require.Equal(t, demoDNS, strings.ToLower(strings.TrimSuffix(name, ".")), "%q", dns)
			var got struct{ Inputs []struct{ ID string } }
			require.NoError(t, json.Unmarshal(res.Body.Bytes(), &got))
			require.Len(t, got.Inputs, 3)
			return
		}
		require.Contains(t, []int{400, 404, 405}, res.Code, "%q: %s", dns, res.Body)
		require.Equal(t, "application/problem+json", res.Header().Get("Content-Type"))
		require.True(t, json.Valid(res.Body.Bytes()), "%s", res.Body)
	})
}

// FuzzAuthorization: only issued tokens are accepted, with any surrounding text.
func FuzzAuthorization(f *testing.F) {
	for _, header := range []string{
		"", "Bearer", "Bearer ", "Bearer  " + readToken, "bearer " + readToken, "Basic " + readToken, readToken, "Bearer " + readToken + " ",
		"Bearer " + readToken + "," + readToken, "Bearer \xff", "Bearer " + fleet.FormatSecret([32]byte{}), "BEARER\t" + readToken, "Bearer " + readToken + "\x00",
	} {
		f.Add(header)
	}
	handler := fuzzed(f)
	f.Fuzz(func(t *testing.T, header string) {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v2/flux/clusters", nil)
		req.Header["Authorization"] = []string{header}
		res := httptest.NewRecorder()
		handler.ServeHTTP(res, req)
		scheme, token, _ := strings.Cut(header, " ")
		if strings.EqualFold(scheme, "bearer") && slices.Contains([]string{readToken, writeToken}, token) {
			require.Equal(t, http.StatusOK, res.Code, "%q", header)
			return
		}
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusTooManyRequests}, res.Code, "%q", header)
	})
}

// FuzzWrite: any body in a write that is only tried gets an answer that the contract knows, never an error of ours.
func FuzzWrite(f *testing.F) {
	bodies := []string{
		`{}`, `null`, `[]`, `{"environment":"qa"}`, `{"patches":{"podinfo":{"ui.color":"red"}}}`, `{"platform_components":[{"id":"podinfo","enabled":null}]}`,
		`{"labels":{"a":"b"},"namespaces":[]}`, `{"operations":[{"op":"set_labels","all":true,"labels":{"a":null}}]}`,
		`{"operations":[{"op":"delete","kind":"cluster","id":"demo-cluster-01"}],"reason":"x"}`, `{"id":"n"}`, `{"id":1}`, `{"values":{"a":1}}`,
		`{"kind":"cluster","id":"demo-cluster-01"}`, `{"name":"t","role":"read"}`, `{"name":"t","role":"poll","cluster_id":"demo-cluster-01"}`,
		`{"id":"c9","cluster_dns":"c9.k","environment":"dev"}`, `{"id":"p9","component_path":"p","oci_url":"oci://r/p"}`, `{"id":"r9","role":"view","subjects":[]}`,
	}
	for i := range bodies { // every body and every operation, not each with each: fuzzing begins after the seeds
		f.Add(byte(i), []byte(bodies[i]))
		f.Add(byte(i+5), []byte(bodies[i]))
	}
	handler := fuzzed(f)
	f.Fuzz(func(t *testing.T, which byte, body []byte) {
		w := writes[int(which)%len(writes)]
		req := httptest.NewRequestWithContext(t.Context(), w.method, w.path, strings.NewReader(string(body)))
		req.Header.Set("Authorization", "Bearer "+writeToken)
		req.Header.Set("Content-Type", "application/json")
		res := httptest.NewRecorder()
		handler.ServeHTTP(res, req)
		require.Less(t, res.Code, 500, "%s %s %q: %s", w.method, w.path, body, res.Body)
		require.True(t, json.Valid(res.Body.Bytes()), "%s", res.Body)
	})
}

// writes are the operations with a body that can be tried without being carried out.
var writes = []struct{ method, path string }{
	{"POST", "/clusters?dry_run=true"},
	{"PUT", "/clusters/demo-cluster-01?dry_run=true"},
	{"PATCH", "/clusters/demo-cluster-01?dry_run=true"},
	{"POST", "/platform_components?dry_run=true"},
	{"PATCH", "/platform_components/podinfo?dry_run=true"},
	{"POST", "/namespaces?dry_run=true"},
	{"PATCH", "/namespaces/podinfo?dry_run=true"},
	{"POST", "/rolebindings?dry_run=true"},
	{"PUT", "/clusters/demo-cluster-01/platform_components/podinfo?dry_run=true"},
	{"PATCH", "/clusters/demo-cluster-01/patches/podinfo?dry_run=true&field_manager=ci"},
	{"PUT", "/clusters/demo-cluster-01/patches/podinfo?dry_run=true&field_manager=ci&force=true"},
	{"POST", "/batch?dry_run=true"},
	{"POST", "/plan"},
	{"POST", "/revisions/1/restore?dry_run=true"},
}

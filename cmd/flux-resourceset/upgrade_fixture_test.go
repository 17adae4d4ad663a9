package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// releaseFixture makes the fixture of a release: go test ./cmd/flux-resourceset -run TestReleaseFixture -release 0.1.0. It is made once,
// with the code of that release, and is not changed when the code changes.
var releaseFixture = flag.String("release", "", "make the fixture of this release")

// released is what the processes of a release answered.
type released struct {
	Polls  map[string]string `json:"polls"`
	Verify map[string]string `json:"verify"` // the newest revision and its hash, of each store
}

// releasedFleet creates documents of every kind, in order.
var releasedFleet = [][3]string{
	{"POST", "/resource_types", `{"id":"quotas","identity":["namespace"],"schema":{"type":"object","additionalProperties":false,"properties":{"cpu":{"type":"integer","default":1},"namespace":{"type":"string","default":"default"}}}}`},
	{"POST", "/resources/quotas", `{"id":"small","spec":{"cpu":2}}`},
	{"POST", "/platform_components", `{"id":"base","component_path":"base","oci_url":"oci://registry.example.com/base","oci_tag":"v1","type":"kustomize"}`},
	{"POST", "/platform_components", `{"id":"podinfo","component_path":"podinfo","oci_url":"https://charts.example.com","component_version":"6.0.0","depends_on":["base"],"version_policies":{"catalog":{"action":"apply","range":"^6"}},"flux":{"timeout":"5m"}}`},
	{"POST", "/platform_components", `{"id":"redis","component_path":"redis","oci_url":"https://charts.example.com","component_version":"20.1.0"}`},
	{"POST", "/namespaces", `{"id":"shop","labels":{"team":"web"},"annotations":{"a":"b"}}`},
	{"POST", "/namespaces", `{"id":"old"}`},
	{"POST", "/rolebindings", `{"id":"viewers","role":"view","subjects":[{"kind":"Group","name":"viewers","apiGroup":"rbac.authorization.k8s.io"}]}`},
	{"POST", "/layers", `{"id":"all","priority":1,"all":true,"variables":{"domain":"example.com"},"platform_components":[{"id":"base","enabled":true}]}`},
	{"POST", "/layers", `{"id":"web","priority":10,"selector":"team=web","namespaces":[{"id":"shop"}],"rolebindings":[{"id":"viewers"}],"resources":{"quotas":[{"id":"small"}]},"patches":{"podinfo":{"replicaCount":"3","host":"podinfo.${vars.domain}"}}}`},
	{"POST", "/clusters", `{"id":"web-01","cluster_dns":"web-01.example.com","environment":"dev","labels":{"team":"web"},"platform_components":[{"id":"podinfo"}],"namespaces":[{"id":"old"}],"patches":{"podinfo":{"ui.color":"blue"}}}`},
	{"POST", "/clusters", `{"id":"web-02","cluster_dns":"web-02.example.com","environment":"prod","labels":{"team":"web"},"variables":{"domain":"web-02.example.com"},"platform_components":[{"id":"podinfo","component_version":"6.0.1"},{"id":"redis"}]}`},
	{"POST", "/clusters", `{"id":"gone","cluster_dns":"gone.example.com","environment":"dev","platform_components":[{"id":"podinfo"}]}`},
	{"POST", "/clusters", `{"id":"moved","cluster_dns":"moved.example.com","environment":"dev","platform_components":[{"id":"podinfo"}]}`},
	{"POST", "/clusters", `{"id":"again","cluster_dns":"again.example.com","environment":"dev","platform_components":[{"id":"podinfo"}]}`},
	{"DELETE", "/clusters/gone", ``},
	{"DELETE", "/clusters/moved?mode=orphan", ``},
	{"DELETE", "/clusters/again", ``},
	{"POST", "/clusters", `{"id":"again","cluster_dns":"again.example.com","environment":"dev","platform_components":[{"id":"podinfo"}]}`},
	{"DELETE", "/clusters/web-01/namespaces/old", ``},
	{"POST", "/strategies", `{"id":"waves","stages":[{"name":"dev","selector":"environment=dev"},{"name":"prod","selector":"environment=prod","approval":true}]}`},
	{"POST", "/rollouts", `{"id":"podinfo-7","strategy":"waves","operations":[{"op":"patch","kind":"platform_component","id":"podinfo","patch":{"component_version":"7.0.0"}}]}`},
	{"POST", "/rollouts/podinfo-7/start", ``},
	{"PATCH", "/clusters/web-02", `{"pinned":{"until":"2099-01-01T00:00:00Z","reason":"launch"}}`},
	{"POST", "/freezes", `{"id":"launch","reason":"launch","selector":"team=none","from":"2030-01-01T00:00:00Z"}`},
	{"POST", "/platform_components/podinfo/versions/holds", `{"version":"6.9.9","reason":"broken"}`},
	{"PATCH", "/clusters/web-01/patches/podinfo", `{"values":{"replicaCount":"5"}}`},
	{"POST", "/tokens", `{"name":"ann","role":"scoped"}`},
	{"POST", "/access", `{"id":"reviewers","subjects":[{"token":"ann"},{"source":"platform"}],"may":["read","write","approve"]}`},
	{"POST", "/webhooks", `{"id":"log","url":"https://hooks.invalid/fleet"}`},
	{"POST", "/access/sessions/end", `{"issuer":"corp"}`},
	{"POST", "/policies", `{"id":"second","rule":"!change.documents.exists(d, d.id == 'redis')","message":"'changes redis'","action":"approve"}`},
}

// TestReleaseFixture makes the fixture of a release, of both stores.
func TestReleaseFixture(t *testing.T) {
	t.Parallel()
	if *releaseFixture == "" {
		t.Skip("fixtures are made with -release")
	}
	dir := filepath.Join("testdata", *releaseFixture)
	require.NoError(t, os.MkdirAll(dir, 0o750))
	out := released{Verify: map[string]string{}}

	file := filepath.Join(t.TempDir(), "fleet.db")
	out.make(t, "sqlite", "sqlite://"+file)
	writePacked(t, filepath.Join(dir, "sqlite.db.gz"), readFile(t, file))
	backup := filepath.Join(t.TempDir(), "backup.db")
	code, _, stderr := invoke(t, "backup", backup, "--database-url", "sqlite://"+file)
	require.Zero(t, code, stderr)
	writePacked(t, filepath.Join(dir, "backup.db.gz"), readFile(t, backup))

	pg := pgtest.NewServer(t)
	out.make(t, "postgres", pg.Database(t, "fleet"))
	dump, err := pg.Command(t.Context(), "pg_dump", "--host="+filepath.Dir(pg.Socket()), "--username=postgres", "--inserts", "--no-owner", "--no-privileges", "fleet").Output()
	require.NoError(t, err)
	// Settings of sessions, and commands of psql, differ between versions of Postgres.
	dump = regexp.MustCompile(`(?m)^(SET |SELECT pg_catalog\.|\\|--).*\n`).ReplaceAll(dump, nil)
	writePacked(t, filepath.Join(dir, "postgres.sql.gz"), dump)

	text, err := json.MarshalIndent(out, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "answers.json"), append(text, '\n'), 0o600))
}

// make fills a store with a fleet, and records the answers. They are the same for every store.
func (r *released) make(t *testing.T, store, url string) {
	t.Helper()
	issuer := testissuer.New(t)
	artifacts := httptest.NewServer(registry.New())
	defer artifacts.Close()
	p := start(t, "API_MODE=crud", "DATABASE_URL="+url, "WEBHOOK_KEY="+strings.Repeat("k", 32), "PUBLIC_URL=https://fleet.example.com", "VERSION_SCAN_ALLOW_HTTP=true", "VERSION_SCAN_ALLOW_PRIVATE=true",
		`OIDC_ISSUERS=[{name: corp, url: "`+issuer.URL()+`", client_id: fleet}]`, "SESSION_KEY="+strings.Repeat("s", 32))
	ann := ""
	for _, c := range releasedFleet {
		got := p.send(c[0], c[1], c[2])
		require.Equal(t, 2, got.status/100, "%v: %s", c, got.body)
		if c[1] == "/tokens" {
			var made struct{ Token string }
			require.NoError(t, json.Unmarshal([]byte(got.body), &made))
			ann = made.Token
		}
	}
	var refused struct {
		PlanHash string `json:"plan_hash"`
		Subject  string
	}
	needs := p.send("PATCH", "/platform_components/redis", `{"component_version":"20.2.0"}`)
	require.NoError(t, json.Unmarshal([]byte(needs.body), &refused))
	require.NotEmpty(t, refused.PlanHash, needs.body)
	approved := p.send("POST", "/approvals", fmt.Sprintf(`{"plan_hash":%q,"subject":%q,"reason":"CHG-1"}`, refused.PlanHash, refused.Subject), "Authorization", "Bearer "+ann)
	require.Equal(t, 201, approved.status, approved.body)
	push(t, strings.TrimPrefix(artifacts.URL, "http://")+"/fleet:prod", "kind: namespace\nid: managed\n")
	followed := p.send("POST", "/sources", `{"id":"platform","url":"oci://`+strings.TrimPrefix(artifacts.URL, "http://")+`/fleet","tag":"prod"}`)
	require.Equal(t, 201, followed.status, followed.body)
	p.eventually("/namespaces/managed", 200)

	polls := p.allPolls(nil)
	if r.Polls != nil {
		require.Equal(t, r.Polls, polls)
	}
	r.Polls = polls
	require.NoError(t, p.Stop())
	r.Verify[store] = verified(t, url)
}

// push pushes an artifact with one file.
func push(t *testing.T, to, text string) {
	t.Helper()
	ref, err := name.NewTag(to)
	require.NoError(t, err)
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	w := tar.NewWriter(zipped)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "fleet.yaml", Mode: 0o600, Size: int64(len(text))}))
	_, err = io.WriteString(w, text)
	require.NoError(t, errors.Join(err, w.Close(), zipped.Close()))
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.flux.config.v1+json")
	img, err = mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(archive.Bytes(), "application/vnd.cncf.flux.content.v1.tar+gzip")})
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img))
}

// allPolls returns the answers to the polls of all clusters and lists. Without paths, it finds them.
func (p *program) allPolls(paths []string) map[string]string {
	p.t.Helper()
	const root = "/api/v2/flux/clusters"
	if paths == nil {
		paths = []string{root}
		for _, cluster := range []string{"web-01", "web-02", "gone", "again"} {
			for _, list := range []string{"platform-components", "namespaces", "rolebindings", "quotas"} {
				paths = append(paths, root+"/"+cluster+".example.com/"+list)
			}
		}
	}
	out := map[string]string{}
	for _, path := range paths {
		out[path] = p.get(path)
	}
	return out
}

var verifiedLine = regexp.MustCompile(`\d+=sha256:[0-9a-f]{64}`)

// verified verifies the history of a store, and returns the newest revision with its hash.
func verified(t *testing.T, url string) string {
	t.Helper()
	code, stdout, stderr := invoke(t, "verify", "--database-url", url)
	require.Zero(t, code, stderr)
	found := verifiedLine.FindString(stdout)
	require.NotEmpty(t, found, stdout)
	return found
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

func writePacked(t *testing.T, path string, data []byte) {
	t.Helper()
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, errors.Join(err, w.Close()))
	require.NoError(t, os.WriteFile(path, packed.Bytes(), 0o600))
}

func readPacked(t *testing.T, path string) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(readFile(t, path)))
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return data
}

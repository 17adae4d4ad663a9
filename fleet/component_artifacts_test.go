package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// artifactDigest is the digest of a test, of one letter.
func artifactDigest(letter string) string { return "sha256:" + strings.Repeat(letter, 64) }

// newArtifacts has two clusters with a component whose catalog entry is pinned to a digest and replaces two images.
func newArtifacts(t *testing.T) *world {
	t.Helper()
	docs := []string{
		string(KindComponent), `{"id":"app","component_path":"app","oci_url":"oci://registry.example.com/app","type":"kustomize","oci_tag":"v1","oci_digest":"` + artifactDigest("1") + `","images":[{"name":"web","new_tag":"1"},{"name":"redis","digest":"` + artifactDigest("a") + `"}]}`,
		string(KindCluster), `{"id":"dev","cluster_dns":"dev.example.com","environment":"dev"}`,
		string(KindCluster), `{"id":"prod","cluster_dns":"prod.example.com","environment":"prod","labels":{"tier":"prod"}}`,
		string(KindLayer), `{"id":"base","priority":10,"all":true,"platform_components":[{"id":"app"}]}`,
		string(KindLayer), `{"id":"prod","priority":20,"selector":"tier=prod"}`,
	}
	return newWorld(t, docs...)
}

// TestDigestFollowsTheVersion: of the documents that set a version or a digest, the highest determines the digest.
func TestDigestFollowsTheVersion(t *testing.T) {
	t.Parallel()
	w := newArtifacts(t)
	source := func(cluster string) map[string]any {
		return component(t, w.state, cluster+".example.com", "app")["source"].(map[string]any)
	}
	serves := func(cluster, tag, digest string) {
		t.Helper()
		want := map[string]any{"oci_url": "oci://registry.example.com/app", "oci_tag": tag}
		if digest != "" {
			want["oci_digest"] = artifactDigest(digest)
		}
		require.Equal(t, want, source(cluster))
	}
	serves("dev", "v1", "1")
	serves("prod", "v1", "1")

	w.must(patch(KindLayer, "prod", `{"overrides":{"app":{"oci_tag":"v2"}}}`))
	serves("dev", "v1", "1")
	serves("prod", "v2", "")
	w.must(patch(KindLayer, "prod", `{"overrides":{"app":{"oci_digest":"`+artifactDigest("2")+`"}}}`))
	serves("prod", "v2", "2")
	w.must(assign("prod", KindComponent, "app", `{"oci_tag":"v3","oci_digest":"`+artifactDigest("3")+`"}`))
	serves("prod", "v3", "3")
	w.must(assign("prod", KindComponent, "app", `{"oci_digest":null}`))
	serves("prod", "v3", "")
	w.must(assign("prod", KindComponent, "app", `{"oci_tag":null}`))
	serves("prod", "v2", "2")
	w.must(assign("dev", KindComponent, "app", `{"component_version":"1.0.0"}`))
	serves("dev", "v1", "")
}

// TestNewVersionDropsTheDigest: a write of another version without a digest removes the stored one, which is that of the previous
// version and would be installed in place of the new one.
func TestNewVersionDropsTheDigest(t *testing.T) {
	t.Parallel()
	pinned := func(tag, digest string) string {
		return fmt.Sprintf(`{"oci_tag":%q,"oci_digest":%q}`, tag, artifactDigest(digest))
	}
	entry := func(tag string) string {
		return fmt.Sprintf(`{"platform_components":[{"id":"app","enabled":true,"oci_tag":%q}]}`, tag)
	}
	override := func(settings string) string { return `{"overrides":{"app":` + settings + `}}` }
	for name, test := range map[string]struct {
		pin, edit func(*Tx) error
		kept      bool
	}{
		"patch of the catalog":        {patch(KindComponent, "app", pinned("v1", "1")), patch(KindComponent, "app", `{"oci_tag":"v2"}`), false},
		"put of the catalog":          {patch(KindComponent, "app", pinned("v1", "1")), put(KindComponent, "app", `{"oci_tag":"v2"}`), false},
		"a version of the catalog":    {patch(KindComponent, "app", pinned("v1", "1")), put(KindComponent, "app", `{"component_version":"v2"}`), false},
		"the same version":            {patch(KindComponent, "app", pinned("v1", "1")), put(KindComponent, "app", `{"oci_tag":"v1","component_path":"x"}`), true},
		"a version with its digest":   {patch(KindComponent, "app", pinned("v1", "1")), patch(KindComponent, "app", pinned("v2", "2")), true},
		"an assignment":               {assign("dev", KindComponent, "app", pinned("v1", "1")), assign("dev", KindComponent, "app", `{"oci_tag":"v2"}`), false},
		"an assignment without tag":   {assign("dev", KindComponent, "app", pinned("v1", "1")), assign("dev", KindComponent, "app", `{"oci_tag":null}`), false},
		"other settings":              {assign("dev", KindComponent, "app", pinned("v1", "1")), assign("dev", KindComponent, "app", `{"enabled":false}`), true},
		"the list of a cluster":       {assign("dev", KindComponent, "app", pinned("v1", "1")), put(KindCluster, "dev", entry("v2")), false},
		"the same list":               {assign("dev", KindComponent, "app", pinned("v1", "1")), put(KindCluster, "dev", entry("v1")), true},
		"a list without tag":          {assign("dev", KindComponent, "app", pinned("v1", "1")), put(KindCluster, "dev", `{"platform_components":[{"id":"app"}]}`), false},
		"the override of a layer":     {patch(KindLayer, "prod", override(pinned("v1", "1"))), patch(KindLayer, "prod", override(`{"oci_tag":"v2"}`)), false},
		"all overrides of a layer":    {patch(KindLayer, "prod", override(pinned("v1", "1"))), put(KindLayer, "prod", override(`{"oci_tag":"v2"}`)), false},
		"another override of a layer": {patch(KindLayer, "prod", override(pinned("v1", "1"))), patch(KindLayer, "prod", override(`{"component_path":"x"}`)), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newArtifacts(t)
			w.must(patch(KindComponent, "app", `{"oci_digest":null}`))
			w.must(test.pin)
			require.True(t, w.mentions("oci_digest"))
			w.must(test.edit)
			require.Equal(t, test.kept, w.mentions("oci_digest"))
		})
	}
}

// TestSameDigestWithAnotherVersion: it may be another name of the same artifact, or a mistake, so it is a warning.
func TestSameDigestWithAnotherVersion(t *testing.T) {
	t.Parallel()
	w := newArtifacts(t)
	require.NotContains(t, strings.Join(w.must(patch(KindComponent, "app", `{"component_path":"x"}`)).Warnings, "\n"), "oci_digest")
	warnings := w.must(patch(KindComponent, "app", `{"oci_tag":"v2","oci_digest":"`+artifactDigest("1")+`"}`)).Warnings
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "keeps oci_digest")
}

// mentions reports whether any stored document has a field.
func (w *world) mentions(field string) bool {
	for rec := range w.state.Records() {
		if strings.Contains(string(rec.Body), `"`+field+`"`) {
			return true
		}
	}
	return false
}

// TestImagesByName: images are merged by name, and a name alone leaves an image as it is.
func TestImagesByName(t *testing.T) {
	t.Parallel()
	w := newArtifacts(t)
	images := func(cluster string) any { return component(t, w.state, cluster+".example.com", "app")["images"] }
	redis := map[string]any{"name": "redis", "digest": artifactDigest("a")}
	require.Equal(t, []any{map[string]any{"name": "web", "new_tag": "1"}, redis}, images("prod"))
	w.must(patch(KindLayer, "prod", `{"overrides":{"app":{"images":[{"name":"web","new_tag":"2"},{"name":"nginx","new_name":"m.example.com/nginx"}]}}}`))
	nginx := map[string]any{"name": "nginx", "new_name": "m.example.com/nginx"}
	require.Equal(t, []any{map[string]any{"name": "web", "new_tag": "2"}, redis, nginx}, images("prod"))
	require.Equal(t, []any{map[string]any{"name": "web", "new_tag": "1"}, redis}, images("dev"))
	w.must(assign("prod", KindComponent, "app", `{"images":[{"name":"web"},{"name":"redis","new_tag":"7"}]}`))
	require.Equal(t, []any{map[string]any{"name": "redis", "new_tag": "7"}, nginx}, images("prod"))
	w.must(assign("dev", KindComponent, "app", `{"images":[{"name":"web"},{"name":"redis"}]}`))
	require.Nil(t, images("dev"), "an empty list is absent")
}

// TestArtifactChecks: every document that sets a digest or images is checked, with a pointer to the wrong part.
func TestArtifactChecks(t *testing.T) {
	t.Parallel()
	w := newArtifacts(t)
	for settings, pointer := range map[string]string{
		`{"oci_tag":"v1","oci_digest":"sha256:abc"}`:                                      "/oci_digest",
		`{"oci_tag":"v1","oci_digest":"` + strings.ToUpper(artifactDigest("a")) + `"}`:    "/oci_digest",
		`{"oci_tag":"v1","oci_digest":"sha512:` + strings.Repeat("a", 64) + `"}`:          "/oci_digest",
		`{"images":[{"name":"web:1"}]}`:                                                   "/images/0/name",
		`{"images":[{"name":"web@` + artifactDigest("a") + `"}]}`:                         "/images/0/name",
		`{"images":[{"name":"(web"}]}`:                                                    "/images/0/name",
		`{"images":[{"name":""}]}`:                                                        "/images/0/name",
		`{"images":[{"name":"a","new_tag":"b c"}]}`:                                       "/images/0/new_tag",
		`{"images":[{"name":"a","new_name":"b:1"}]}`:                                      "/images/0/new_name",
		`{"images":[{"name":"a","digest":"latest"}]}`:                                     "/images/0/digest",
		`{"images":[{"name":"a","new_tag":"1"},{"name":"b"},{"name":"a","new_tag":"2"}]}`: "/images/2/name",
		`{"images":[{"name":"registry.example.com:port/a"}]}`:                             "/images/0/name",
		`{"images":[{"name":"a","new_name":"<< inputs.id >>"}]}`:                          "/images/0/new_name",
		`{"images":[{"name":"a","new_tag":"\u0000"}]}`:                                    "/images/0/new_tag",
		`{"images":[{"name":"` + strings.Repeat("a/", 5) + `"}]}`:                         "/images/0/name",
	} {
		for at, edit := range map[string]func(*Tx) error{
			"":                       patch(KindComponent, "app", settings),
			"/platform_components/0": put(KindCluster, "dev", `{"platform_components":[{"id":"app",`+settings[1:len(settings)-1]+`}]}`),
			"/overrides/app":         patch(KindLayer, "prod", `{"overrides":{"app":`+settings+`}}`),
		} {
			refused := w.refused(CodeInvalid, edit)
			require.Equal(t, at+pointer, refused.Problems[0].Pointer, settings)
		}
	}
	alone := `"oci_digest":"` + artifactDigest("a") + `"`
	require.Equal(t, "/platform_components/0/oci_digest", w.refused(CodeInvalid, put(KindCluster, "dev", `{"platform_components":[{"id":"app",`+alone+`}]}`)).Problems[0].Pointer)
	require.Equal(t, "/overrides/app/oci_digest", w.refused(CodeInvalid, patch(KindLayer, "prod", `{"overrides":{"app":{`+alone+`}}}`)).Problems[0].Pointer)
	split := w.refused(CodeInvalid, patch(KindLayer, "base", `{"platform_components":[{"id":"app","oci_tag":"v1",`+alone+`}],"overrides":{"app":{"component_version":"2"}}}`))
	require.Equal(t, "/platform_components/0/oci_digest", split.Problems[0].Pointer)
	require.Equal(t, "/oci_digest", w.refused(CodeInvalid, patch(KindComponent, "app", `{"type":"helm","oci_url":"https://charts.example.com",`+alone+`}`)).Problems[0].Pointer)
	for _, name := range []string{"a", "ghcr.io/a/b", "localhost:5000/a-b/c_d.e", "docker.io/library/redis", "UPPER.example.com/a"} {
		require.Empty(t, w.must(patch(KindComponent, "app", `{"images":[{"name":"`+name+`","new_tag":"1"}]}`)).Warnings, name)
	}
}

// TestDigestIsNoOtherDeployment: neither a digest nor images make another installation, so nothing counts as removed.
func TestDigestIsNoOtherDeployment(t *testing.T) {
	t.Parallel()
	was := &api.PlatformComponent{ID: "app", Type: typeKustomize, OCIURL: "oci://registry.example.com/app", OCITag: "v1"}
	is := *was
	is.OCIDigest, is.Images = artifactDigest("1"), []api.ComponentImage{{Name: "a", NewTag: "1"}}
	require.False(t, redeployed(was, &is))
	e := api.ComponentAssignment{OCITag: "v2", OCIDigest: artifactDigest("2")}
	require.Equal(t, deploymentOn(was, &api.ComponentAssignment{}, "dev"), deploymentOn(&is, &e, "dev"))
}

// TestNoArtifactSettings: answers and stored documents are the bytes of the version before digests and images, unless they are used.
func TestNoArtifactSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		string(KindComponent), `{"id":"app","component_path":"app","oci_url":"oci://registry.example.com/app"}`,
		string(KindCluster), `{"id":"dev","cluster_dns":"dev.example.com","environment":"dev","platform_components":[{"id":"app","oci_tag":"v1"}]}`)
	const golden = `{"inputs":[{"id":"app","enabled":true,"component_path":"app","component_version":"latest","source":{"oci_url":"oci://registry.example.com/app","oci_tag":"v1"},"cluster_env_enabled":false,"depends_on":[],"dependencies":[],"type":"kustomize","patches":{},"values":{},"release_name":"app","target_namespace":"app","secret_ref":"","values_from":[],"cluster":{"name":"dev","dns":"dev.example.com","environment":"dev"},"receipt":"ae3b6c9f3b2c6e80"}]}
`
	answered := func() string { return answersTo(t, w.state, "dev.example.com") }
	before := answered()
	require.Contains(t, before, golden)
	w.must(patch(KindComponent, "app", `{"oci_digest":null,"images":[]}`))
	w.must(assign("dev", KindComponent, "app", `{"oci_digest":"","images":null}`))
	require.Equal(t, before, answered())
	require.False(t, w.mentions("oci_digest") || w.mentions("images"))
}

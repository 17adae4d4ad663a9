package fleet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSourcesThatNoRegistryHas: an address or version that can only fail on the clusters is refused.
func TestSourcesThatNoRegistryHas(t *testing.T) {
	t.Parallel()
	const helm, kustomize, repository = `"type":"helm","oci_url":"oci://ghcr.io/acme/charts","component_path":"app"`, `"type":"kustomize","oci_url":"oci://ghcr.io/acme/app","component_path":"./deploy"`, `"type":"helm","oci_url":"https://charts.example.com","component_path":"app"`
	for base, cases := range map[string]map[string][]string{
		helm: {
			"oci_url": {
				"!oci://ghcr.io/Acme/charts", "!oci://ghcr.io/acme/charts/app:1.0.0", "!oci://ghcr.io/acme/app@sha256:" + strings.Repeat("a", 64), "!oci://ghcr.io/acme/a b",
				"!oci://ghcr.io//acme", "!oci://ghcr.io/acme//", "!oci://ghcr.io/-a", "!oci://ghcr.io/a%20b", "!https://acme.github.io/charts/index.yaml", "!https://acme.github.io/a b",
				"oci://ghcr.io", "oci://ghcr.io/acme/", "oci://GHCR.io:443/a__b/c-d.e", "oci://127.0.0.1:5000/charts", "oci://[::1]:5000/charts", "https://charts.example.com/Stable/",
			},
			"component_path":    {"!a b", "!../x", "!app:1.0.0", "!App", "!a/../b", "app", "/app", "team/app"},
			"component_version": {"!not a version", "!1.0.0@sha256:" + strings.Repeat("a", 64), "!>=1.0 <b", "!1.x.y", "1.0.0", "1.0.0+k3s1", "~1.2", "1.x", ">=1.0.0, <2", ">= 1.0.0 < 2 || ^3", "v1", "main-abc"},
			"oci_tag":           {"!a b", "!-x", "!1.0.0+1", "!" + strings.Repeat("x", 129), "!v1@sha256:" + strings.Repeat("a", 64), "v1.0.0", "~1", "1.x", ">=1.0.0 <2", strings.Repeat("x", 128)},
		},
		kustomize: {
			"oci_url":        {"!oci://ghcr.io", "!oci://ghcr.io/Acme"},
			"component_path": {"!../x", "!a/../b", "./deploy/A b", ".", "/"},
		},
		repository: {"component_path": {"!a b", "!../x", "!a/../b", "!app:1.0.0", "App_2.x", "team/app"}},
	} {
		for field, values := range cases {
			for _, text := range values {
				value, refused := strings.CutPrefix(text, "!")
				w, edit := newWorld(t), create(KindComponent, `{"id":"x",`+base+`}`)
				if !refused {
					w.must(edit)
					w.must(patch(KindComponent, "x", `{"`+field+`":"`+value+`"}`))
					continue
				}
				w.must(edit)
				problems := w.refused(CodeInvalid, patch(KindComponent, "x", `{"`+field+`":"`+value+`"}`)).Problems
				require.Equal(t, "/"+field, problems[0].Pointer, "%s of %s", value, base)
			}
		}
	}
}

// TestVersionsThatNoRegistryHas: the same for versions and tags that clusters and layers set.
func TestVersionsThatNoRegistryHas(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]string{"oci_tag": "v1@sha256:1", "component_version": "not a version"} {
		w := newWorld(t)
		w.refused(CodeInvalid, create(KindCluster, `{"id":"c","cluster_dns":"c.example.com","environment":"dev","platform_components":[{"id":"x","`+field+`":"`+value+`"}]}`))
		w.refused(CodeInvalid, create(KindLayer, `{"id":"l","selector":"a=b","priority":1,"overrides":{"x":{"`+field+`":"`+value+`"}}}`))
	}
}

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
	const gitHelm, gitKustomize = `"type":"helm","oci_url":"git+https://git.example.com/acme/app","component_path":"./charts/app"`, `"type":"kustomize","oci_url":"git+https://git.example.com/acme/app","component_path":"./deploy"`
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
		repository: {"component_path": {"!a b", "!../x", "!a/../b", "!app:1.0.0", "App_2.x", "team/app"}, "component_version": {"!refs/heads/main"}, "oci_tag": {"!refs/heads/main"}},
		gitHelm: {
			"oci_url": {
				"!git+https://git.example.com", "!git+https://git.example.com/", "!git+https://user@git.example.com/acme/app", "!git+https://git.example.com/acme/app?ref=v1", "!git+https://git.example.com/acme/app#main",
				"!git+https://git.example.com/acme/a b", "!git+ftp://git.example.com/acme/app", "!ssh://git@git.example.com/acme/app", "!git@git.example.com:acme/app.git", "!git://git.example.com/acme/app",
				"!git+ssh://git:secret@git.example.com/acme/app", "git+https://git.example.com/Acme/app.git", "git+http://127.0.0.1:3000/app", "git+https://git.example.com/acme/app/",
			},
			"component_path": {"!../x", "!charts/../../b", ".", "./charts/A b", "charts/app", "/charts/app"},
			"component_version": {
				"!refs/heads/", "!refs/heads/a..b", "!refs/heads/a b", "!refs/heads//a", "!refs/heads/a.lock", "!refs/heads/.a", "!refs/heads/a^", "!refs/heads/a@{1}", "!refs/heads/a/", "!refs/heads/a.", "!main branch",
				"refs/heads/main", "refs/heads/release-1.x", "refs/tags/charts/app@1.0.0", "refs/pull/420/head", "refs/heads/a=b", "v1.0.0", "1.0.0+1", "~1.2", "*", strings.Repeat("0a", 20),
			},
			"oci_tag":    {"!refs/heads/a b", "!a b", "refs/heads/main", "v1.0.0"},
			"oci_digest": {"!sha256:" + strings.Repeat("a", 64)},
		},
		gitKustomize: {
			"component_path": {"!../x", "!a/../b", "./deploy/A b", ".", "/"},
			"oci_tag":        {"!refs/heads/a..b", "refs/heads/feature/x", ">=1.0.0 <2", strings.Repeat("0a", 20)},
			"oci_url":        {"oci://ghcr.io/acme/app", "git+https://git.example.com/acme/other"},
		},
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

// TestGitSources: the URL of a source determines that it is a Git repository. The type is helm unless a request sets it, an SSH URL needs
// a Secret, and a Git reference needs a Git repository. Of a kustomize component another URL counts as a removal, of helm it does not.
func TestGitSources(t *testing.T) {
	t.Parallel()
	const git = `"id":"x","oci_url":"git+https://git.example.com/acme/app","component_path":"./app"`
	const onDev = `{"id":"dev","cluster_dns":"dev.example.com","environment":"dev","platform_components":[{"id":"x"}]}`
	w := newWorld(t, string(KindComponent), `{`+git+`}`, string(KindCluster), onDev)
	in := component(t, w.state, "dev.example.com", "x")
	require.Equal(t, TypeHelm, in["type"])
	require.Equal(t, map[string]any{"oci_url": "git+https://git.example.com/acme/app", "oci_tag": "latest"}, in["source"])

	ssh := func(more string) func(*Tx) error {
		return patch(KindComponent, "x", `{"oci_url":"git+ssh://git@git.example.com/acme/app"`+more+`}`)
	}
	problems := w.refused(CodeInvalid, ssh("")).Problems
	require.Equal(t, "/secret_ref", problems[0].Pointer)
	require.Zero(t, w.plan(ssh(`,"secret_ref":"deploy-key"`)).Totals.Removals)
	w.must(ssh(`,"secret_ref":"deploy-key"`))

	w = newWorld(t, string(KindComponent), `{`+git+`,"type":"kustomize"}`, string(KindCluster), onDev)
	require.Equal(t, 1, w.plan(patch(KindComponent, "x", `{"oci_url":"git+https://git.example.com/acme/other"}`)).Totals.Removals)

	w = newWorld(t, string(KindComponent), `{"id":"x","oci_url":"oci://ghcr.io/acme/app","component_path":"./app"}`, string(KindCluster), onDev)
	moved := patch(KindComponent, "x", `{"oci_url":"git+https://git.example.com/acme/app"}`)
	w.must(confirmed(w.plan(moved).PlanHash, moved))
	require.Equal(t, typeKustomize, component(t, w.state, "dev.example.com", "x")["type"])

	w = newWorld(t, string(KindComponent), `{"id":"x","oci_url":"https://charts.example.com","component_path":"app"}`, string(KindCluster), onDev)
	plan := w.plan(patch(KindCluster, "dev", `{"platform_components":[{"id":"x","component_version":"refs/heads/main"}]}`))
	require.Contains(t, strings.Join(plan.Warnings, "\n"), `component_version "refs/heads/main" of component "x" on cluster "dev" cannot be installed: its source https://charts.example.com is not a Git repository`)
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// demoScript runs scripts/demo-kind with stubs for kubectl, helm, kind and make that record their arguments.
func demoScript(t *testing.T, step string, settings ...string) string {
	t.Helper()
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	stub := "#!/bin/sh\nexec >&2\necho \"${0##*/} $*\" >>" + calls + "\n"
	for _, program := range []string{"kubectl", "helm", "kind", "docker", "make"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte(stub), 0o700))
	}
	cmd := exec.CommandContext(t.Context(), "../../scripts/demo-kind", step)
	cmd.Env = append(append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH")), settings...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	said, err := os.ReadFile(calls)
	require.NoError(t, err)
	return string(said)
}

// The reference's documentation has its demo's users set FLUX_API_WRITE_TOKEN="$FLUX_API_TOKEN", from key token of the Secret.
func TestDemoWithOneToken(t *testing.T) {
	t.Parallel()
	require.Contains(t, demoScript(t, "demo"), "create secret generic internal-api-token --from-literal=token=demo --from-literal=crud-token=demo ")
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "AUTH_TOKEN=demo", "CRUD_AUTH_TOKEN=demo")
	require.Equal(t, 200, p.send("PATCH", "/clusters/demo-cluster-01", `{"labels":{"a":"b"}}`, "Authorization", "Bearer demo").status)
	require.Equal(t, 200, p.send("GET", demoPolls+"namespaces", "", "Authorization", "Bearer demo").status)
}

func TestDemoNamesCanBeChosen(t *testing.T) {
	t.Parallel()
	names := []string{"IMAGE_NAME=registry.example/api", "IMAGE_TAG=v9", "KIND_CLUSTER=other"}
	require.Contains(t, demoScript(t, "create", names...), "kind create cluster --name other")
	require.Contains(t, demoScript(t, "setup", names...), "kind load docker-image registry.example/api:v9 --name other")
	demo := demoScript(t, "demo", names...)
	require.Contains(t, demo, "--set image.repository=registry.example/api,image.tag=v9")
	require.Contains(t, demo, "kubectl --context kind-other ")
}

// The targets that the reference's documentation names.
func TestMakeTargetsOfTheReference(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"cli-build", "docs", "docker-build", "generate", "demo", "cli-demo", "cli-demo-port-forward", "kind-delete", "clean", "manifests"} {
		cmd := exec.CommandContext(t.Context(), "make", "-n", "-C", "../..", target, "IMAGE_NAME=api", "IMAGE_TAG=v9")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", target, out)
		switch target {
		case "docker-build":
			require.Contains(t, string(out), "-t 'api:v9'")
		case "clean":
			require.Contains(t, string(out), "make kind-delete removes the kind cluster flux-demo")
		}
	}
}

package summarize

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// TestCause: messages of the controllers, each as two clusters send it, and their one cause.
func TestCause(t *testing.T) {
	t.Parallel()
	east := FailureNames{Cluster: "prod-east-01", ClusterDNS: "prod-east-01.k8s.example.com", Object: "HelmRelease/flux-system/platform-podinfo", Input: "podinfo"}
	west := FailureNames{Cluster: "west", ClusterDNS: "west.k8s.example.com", Object: "HelmRelease/gitops/platform-podinfo", Input: "podinfo"}
	causes := map[string]string{}
	for _, tc := range []struct{ name, east, west, cause string }{
		{"empty", "", "", ""},
		{
			"helm times out",
			"Helm upgrade failed for release podinfo/podinfo with chart podinfo@6.9.0: timed out waiting for the condition\n\nLast Helm logs:\n\n2026-11-25T10:00:00Z Deployment is not ready: podinfo/podinfo. 0 out of 2 expected pods are ready",
			"Helm install failed for release team-red/podinfo with chart podinfo@6.9.0+81dda21f3a60: timed out waiting for the condition",
			"timed out waiting for the condition",
		},
		{
			"deadline",
			"Helm upgrade failed for release podinfo/podinfo with chart podinfo@6.9.0: context deadline exceeded",
			"Helm upgrade failed for release podinfo/podinfo with chart podinfo@6.9.1: context deadline exceeded",
			"context deadline exceeded",
		},
		{
			"resources not ready",
			"Helm upgrade failed for release podinfo/podinfo with chart podinfo@6.9.0: resource not ready, name: podinfo-7d9c4b5f6-x2x9z, kind: Deployment, status: InProgress context deadline exceeded",
			"Helm upgrade failed for release podinfo/podinfo with chart podinfo@6.9.0: resource not ready, name: podinfo-5c44ff9d7-abcde, kind: Deployment, status: InProgress context deadline exceeded",
			"resource not ready, name: <name>, kind: Deployment, status: InProgress context deadline exceeded",
		},
		{
			"health check", "health check failed after 5m0.012s: timeout waiting for: [Deployment/podinfo/podinfo status: 'InProgress']",
			"health check failed after 10m0s: timeout waiting for: [Deployment/podinfo/podinfo status: 'InProgress', Deployment/team-red/web status: 'InProgress', Deployment/x/y status: 'InProgress']",
			"health check failed after <n>: timeout waiting for: [Deployment/<name> status: 'InProgress']",
		},
		{
			"image", `Failed to pull image "ghcr.io/stefanprodan/podinfo:6.9.0": failed to resolve reference "ghcr.io/stefanprodan/podinfo:6.9.0": unexpected status from HEAD request to https://ghcr.io/v2/stefanprodan/podinfo/manifests/6.9.0: 403 Forbidden`,
			`Failed to pull image "mirror.west.k8s.example.com/podinfo@sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9": failed to resolve reference "mirror.west.k8s.example.com/podinfo:latest": unexpected status from HEAD request to https://mirror.west.k8s.example.com/v2/podinfo/manifests/latest: 403 Forbidden`,
			`Failed to pull image "<name>": failed to resolve reference "<name>": unexpected status from HEAD request to <url>: 403 Forbidden`,
		},
		{
			"webhook denies",
			`Helm upgrade failed for release podinfo/podinfo with chart podinfo@6.9.0: admission webhook "validate.kyverno.svc-fail" denied the request: resource Deployment/podinfo/podinfo was blocked due to the following policies`,
			`Helm upgrade failed for release p/podinfo with chart podinfo@6.9.0: admission webhook "validate.kyverno.svc-fail" denied the request: resource Deployment/p/podinfo was blocked due to the following policies`,
			`admission webhook "validate.kyverno.svc-fail" denied the request: resource Deployment/<name> was blocked due to the following policies`,
		},
		{
			"other webhook denies",
			`admission webhook "validation.gatekeeper.sh" denied the request: [must-have-owner] you must provide labels: {"owner"}`,
			`admission webhook "validation.gatekeeper.sh" denied the request: [must-have-owner] you must provide labels: {"owner"}`,
			`admission webhook "validation.gatekeeper.sh" denied the request: [must-have-owner] you must provide labels: {"<name>"}`,
		},
		{
			"webhook unreachable",
			`Internal error occurred: failed calling webhook "validate.nginx.ingress.kubernetes.io": failed to call webhook: Post "https://ingress.ingress.svc:443/networking/v1/ingresses?timeout=10s": dial tcp 10.96.12.7:443: connect: connection refused`,
			`Internal error occurred: failed calling webhook "validate.nginx.ingress.kubernetes.io": failed to call webhook: Post "https://ingress.ingress.svc:443/networking/v1/ingresses?timeout=30s": dial tcp [fd00:10:96::7]:443: connect: connection refused`,
			`Internal error occurred: failed calling webhook "validate.nginx.ingress.kubernetes.io": failed to call webhook: Post "<url>": dial tcp <ip>: connect: connection refused`,
		},
		{
			"kind missing",
			`Helm install failed for release monitoring/grafana with chart grafana@8.1.0: unable to build kubernetes objects from release manifest: resource mapping not found for name: "grafana" namespace: "monitoring" from "": no matches for kind "ServiceMonitor" in version "monitoring.coreos.com/v1"`,
			`Helm install failed for release obs/grafana with chart grafana@8.2.0: unable to build kubernetes objects from release manifest: resource mapping not found for name: "grafana-2" namespace: "obs" from "": no matches for kind "ServiceMonitor" in version "monitoring.coreos.com/v1"`,
			`unable to build kubernetes objects from release manifest: resource mapping not found for name: "<name>" namespace: "<name>" from "": no matches for kind "ServiceMonitor" in version "monitoring.coreos.com/v1"`,
		},
		{
			"other kind missing",
			`no matches for kind "Certificate" in version "cert-manager.io/v1"`, `no matches for kind "Certificate" in version "cert-manager.io/v1"`,
			`no matches for kind "Certificate" in version "cert-manager.io/v1"`,
		},
		{
			"artifact not found",
			"failed to determine artifact digest: GET https://ghcr.io/v2/acme/charts/podinfo/manifests/6.9.9: MANIFEST_UNKNOWN: manifest unknown; unknown tag=6.9.9",
			"failed to determine artifact digest: GET https://registry.west.k8s.example.com:5000/v2/podinfo/manifests/6.9.8: MANIFEST_UNKNOWN: manifest unknown; unknown tag=6.9.8",
			"failed to determine artifact digest: GET <url>: MANIFEST_UNKNOWN: manifest unknown; unknown tag=<n>",
		},
		{
			"artifact unauthorized",
			"failed to determine artifact digest: GET https://ghcr.io/v2/acme/charts/podinfo/manifests/6.9.9: UNAUTHORIZED: authentication required",
			"failed to determine artifact digest: GET https://ghcr.io/v2/acme/charts/podinfo/manifests/latest: UNAUTHORIZED: authentication required",
			"failed to determine artifact digest: GET <url>: UNAUTHORIZED: authentication required",
		},
		{
			"chart not found", "invalid chart reference: failed to get chart version for remote reference: no 'podinfo' chart with version matching '9.9.9' found",
			"invalid chart reference: failed to get chart version for remote reference: no 'podinfo' chart with version matching '9.9.8' found",
			"invalid chart reference: failed to get chart version for remote reference: no '<name>' chart with version matching '<n>' found",
		},
		{
			"kustomize build",
			"kustomize build failed: accumulating resources: accumulation err='accumulating resources from './deploy.yaml': open /tmp/kustomization-123456/deploy.yaml: no such file or directory': must build at directory: '/tmp/kustomization-123456/deploy.yaml': file is not directory",
			"kustomize build failed: accumulating resources: accumulation err='accumulating resources from './deploy.yaml': open /tmp/kustomization-987/deploy.yaml: no such file or directory': must build at directory: '/tmp/kustomization-987/deploy.yaml': file is not directory",
			"kustomize build failed: accumulating resources: accumulation err='accumulating resources from '<name>': open <name>: no such file or directory': must build at directory: '<name>': file is not directory",
		},
		{"dependency", "dependency 'flux-system/traefik' is not ready", "dependency 'gitops/traefik' is not ready", "dependency '<name>' is not ready"},
		{
			"immutable", `Deployment/podinfo/podinfo dry-run failed (Invalid): Deployment.apps "podinfo" is invalid: spec.selector: Invalid value: field is immutable`,
			`Deployment/west/web-2 dry-run failed (Invalid): Deployment.apps "web-2" is invalid: spec.selector: Invalid value: field is immutable`,
			`Deployment/<name> dry-run failed (Invalid): Deployment.apps "<name>" is invalid: spec.selector: Invalid value: field is immutable`,
		},
		{
			"forbidden", `deployments.apps is forbidden: User "system:serviceaccount:flux-system:helm-controller" cannot create resource "deployments" in API group "apps" in the namespace "podinfo"`,
			`deployments.apps is forbidden: User "system:serviceaccount:gitops:helm-controller" cannot create resource "deployments" in API group "apps" in the namespace "p-2"`,
			`deployments.apps is forbidden: User "<name>" cannot create resource "deployments" in API group "apps" in the namespace "<name>"`,
		},
		{
			"quota", `pods "podinfo-1" is forbidden: exceeded quota: compute, requested: cpu=500m,memory=128Mi, used: cpu=3900m,memory=2Gi, limited: cpu=4,memory=8Gi`,
			`pods "podinfo-7d9-x" is forbidden: exceeded quota: compute, requested: cpu=1,memory=1Gi, used: cpu=4,memory=8Gi, limited: cpu=4,memory=8Gi`,
			`pods "<name>" is forbidden: exceeded quota: compute, requested: cpu=<n>,memory=<n>, used: cpu=<n>,memory=<n>, limited: cpu=<n>,memory=<n>`,
		},
		{
			"dns", "dial tcp: lookup registry.east.example.com on 10.96.0.10:53: no such host", "dial tcp: lookup registry.west.example.com on 10.43.0.10:53: no such host",
			"dial tcp: lookup <name> on <ip>: no such host",
		},
		{"certificate", "tls: failed to verify certificate: x509: certificate has expired: current time 2026-11-25T10:00:00Z is after 2026-11-24T00:00:00Z", "tls: failed to verify certificate: x509: certificate has expired: current time 2026-11-25T22:10:00Z is after 2026-11-01T00:00:00Z", "tls: failed to verify certificate: x509: certificate has expired: current time <time> is after <time>"},
		{"exit code", "Job/podinfo/migrate failed: exit code 137", "Job/west/migrate failed: exit code 137", "Job/<name> failed: exit code 137"},
		{"other exit code", "Job/podinfo/migrate failed: exit code 1", "Job/west/migrate failed: exit code 1", "Job/<name> failed: exit code 1"},
		{"cluster in a sentence", "node of prod-east-01 (prod-east-01.k8s.example.com) is under pressure", "node of west (west.k8s.example.com) is under pressure", "node of <cluster> (<cluster>) is under pressure"},
		{"ids", "request 0f8fad5b-d9cb-469f-a165-70867728950e at revision main@sha1:7d9c4b5f6a failed", "request 7c9e6679-7425-40de-944b-e07fc1f90ae7 at revision main@sha1:00c4b5f6aa failed", "request <digest> at revision <digest> failed"},
		{"timeout", "Get \"https://10.0.0.1:6443/api\": net/http: i/o timeout", "Get \"https://[fd00::1]:6443/api/v1\": net/http: i/o timeout", `Get "<url>": <name>: i/o timeout`},
		{
			"several errors", "Helm install failed for release a/podinfo with chart podinfo@6.9.0: 1 error occurred:\n\t* serviceaccounts \"podinfo\" already exists\n\n",
			"Helm install failed for release a/podinfo with chart podinfo@6.9.0: 2 errors occurred:\n\t* serviceaccounts \"podinfo\" already exists\n\t* serviceaccounts \"web\" already exists\n\n",
			`serviceaccounts "<name>" already exists`,
		},
		{"only logs", "Last Helm logs: line 1", "\n\nLast Helm logs:\n\n2", "no message"},
	} {
		require.Equal(t, tc.cause, Cause(tc.east, east), tc.name)
		require.Equal(t, tc.cause, Cause(tc.west, west), tc.name)
		require.Empty(t, causes[tc.cause], "%s has the cause of another", tc.name)
		causes[tc.cause] = tc.name
	}
}

func TestCauseKeepsWordsThatContainNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a plague in <cluster>, eu", Cause("a plague in lag, eu", FailureNames{Cluster: "lag", Input: "eu"}))
	require.Equal(t, "<cluster> name", Cause("name1 name", FailureNames{Cluster: "name1", Input: "cluster"}), "a placeholder is not replaced again")
}

// FuzzCause: a cause is bounded, valid, on one line, never empty, and does not depend on white space.
func FuzzCause(f *testing.F) {
	for _, seed := range []string{"", " ", "\x00", "\u202e", "a 'b", `"""`, "\xff\xfe", "Last Helm logs:", strings.Repeat("a, ", 3000), strings.Repeat("'x", 3000), "Helm upgrade failed: ", "<name>", "v1", "::", "a/", "/", "2026-01-02", "…:"} {
		f.Add(seed, "prod", "podinfo")
	}
	f.Fuzz(func(t *testing.T, message, cluster, input string) {
		known := FailureNames{Cluster: cluster, ClusterDNS: cluster + ".example.com", Object: "Kind/" + input + "/" + cluster, Input: input}
		cause := Cause(message, known)
		require.Equal(t, message == "", cause == "")
		require.True(t, utf8.ValidString(cause))
		require.LessOrEqual(t, utf8.RuneCountInString(cause), maxCause)
		require.NotContains(t, cause, "\n")
		require.Equal(t, cause, Cause(message, known), "it is a function of the message")
	})
}

// BenchmarkCause measures the messages that take longest.
func BenchmarkCause(b *testing.B) {
	known := FailureNames{Cluster: "prod-east-01", ClusterDNS: "prod-east-01.k8s.example.com", Object: "HelmRelease/flux-system/platform-podinfo", Input: "podinfo"}
	for name, message := range map[string]string{
		"typical": "Helm upgrade failed for release podinfo/podinfo with chart podinfo@6.9.0: timed out waiting for the condition",
		"long":    strings.Repeat(`pods "podinfo-1" is forbidden, `, 70),
		"quotes":  strings.Repeat("'\"`", 700),
		"names":   strings.Repeat("podinfo,", 260),
		"digits":  strings.Repeat("1", 2048),
		"hex":     fmt.Sprintf("%x", strings.Repeat("\xab", 1024)),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Cause(message, known)
			}
		})
	}
}

package server_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
)

// Text that looks like a secret is refused as a reason, an author, an id or a manager, and the refusal does not repeat it.
func TestSecretsRejected(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, secret := range []string{
		fleet.FormatSecret([32]byte{7}), writeToken, readPrevious, "-----BEGIN RSA PRIVATE KEY-----", "AKIAIOSFODNN7EXAMPLE", "ghp_" + strings.Repeat("a1", 18),
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", "glpat-0123456789abcdefghij",
		"frss_wP86vLTmZSerAVI2DB17hKVGRSGLv6o7yStjbimIY5Fy_HG4j1fSRg6hTv-w8_-Em3f",
	} {
		batch := func(rest string) string {
			return fmt.Sprintf(`{"operations":[{"op":"set_component","all":true,"component_id":"podinfo","oci_tag":"9.9.9"%s}]}`, strings.ReplaceAll(rest, "S", secret))
		}
		w.unchanged(func() {
			for name, got := range map[string]*answer{
				"reason":          w.put(demoCluster, `{"environment":"qa"}`, "X-Change-Reason", "because of "+secret),
				"author":          w.put(demoCluster, `{"environment":"qa"}`, "X-Change-Author", secret),
				"field manager":   w.patch(demoCluster+"/patches/podinfo?field_manager="+url.QueryEscape(secret), `{"replicaCount":"2"}`),
				"id":              w.do("POST", "/namespaces", fmt.Sprintf(`{"id":%q}`, secret)),
				"description":     w.do("POST", "/tokens", fmt.Sprintf(`{"name":"n","role":"read","description":%q}`, secret)),
				"of an operation": w.do("POST", "/batch", batch(`,"field_manager":"S"`)),
				"of a document":   w.do("POST", "/plan", fmt.Sprintf(`{"operations":[{"op":"create","kind":"namespace","document":{"id":%q}}]}`, secret)),
				"of a patch":      w.do("POST", "/batch", fmt.Sprintf(`{"operations":[{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"cluster_name":%q}}]}`, secret)),
				"of a put":        w.do("POST", "/batch", fmt.Sprintf(`{"operations":[{"op":"put","kind":"strategy","id":"s","patch":{"description":%q}}]}`, secret)),
				"of a rollout":    w.do("POST", "/rollouts", fmt.Sprintf(`{"id":"r","operations":[{"op":"patch","kind":"layer","id":"l","patch":{"description":%q}}],"stages":[{"name":"one","all":true}]}`, secret)),
				"of a batch":      w.do("POST", "/batch", fmt.Sprintf(`{"reason":%q,"operations":[{"op":"set_component","all":true,"component_id":"podinfo","oci_tag":"9.9.9"}]}`, secret)),
			} {
				require.Equal(t, http.StatusBadRequest, got.status, "%s: %s", name, got.body)
				require.NotContains(t, string(got.body), secret, name)
			}
		})
	}
	w.put(demoCluster, `{"environment":"qa"}`, "X-Change-Reason", "ticket AKIA-42, see eyJournal.net, frs_ is a prefix").want(200)
}

// No static token gets into the log, in any part of a record.
func TestTokensMaskedInLogs(t *testing.T) {
	t.Parallel()
	tokens := server.Tokens{Read: readToken, ReadPrevious: readPrevious, Write: writeToken, WritePrevious: "short"}
	logs := &buffer{}
	logger := slog.New(tokens.Masker().Handler(slog.NewJSONHandler(logs, nil)))
	managed := fleet.FormatSecret([32]byte{9})
	for _, secret := range []string{readToken, readPrevious, writeToken, managed, "frss_wP86vLTmZSerAVI2DB17hKVGRSGLv6o7", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"} {
		logger.With("with", "a "+secret).WithGroup("group").With("more", secret).InfoContext(t.Context(), "message "+secret, //nolint:sloglint // the enemy's
			"text", "x"+secret+"y", "error", fmt.Errorf("wrapped: %w", errors.New(secret)), "any", map[string]string{"k": secret},
			slog.Group("inner", "value", secret), "list", []string{secret}, "short_word", 7)
	}
	for _, secret := range []string{readToken, readPrevious, writeToken, managed, "frss_wP86vLTmZSerAVI2DB17hKVGRSGLv6o7", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"} {
		require.NotContains(t, logs.String(), secret)
	}
	require.Contains(t, logs.String(), `"short_word":7`)
	require.Contains(t, logs.String(), `"text":"x***y"`)
}

// A secret that stands where a field belongs is masked in the problem's pointer, too.
func TestSecretsMaskedInPointers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	secret := fleet.FormatSecret([32]byte{3})
	got := w.put(demoCluster, fmt.Sprintf(`{"%s":1}`, secret)).problem(400, "validation_error")
	require.Equal(t, []string{"/frs_***"}, got.pointers())
	require.NotContains(t, string(got.body), secret)
}

// A parameter that occurs twice is ambiguous, so it is refused.
func TestDuplicateParameter(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.unchanged(func() {
		for _, query := range []string{"dry_run=true&dry_run=false", "dry_run=false&dry_run=true", "force=true&force=true"} {
			got := w.patch(demoCluster+"?"+query, `{"environment":"qa"}`).problem(400, "validation_error")
			require.Contains(t, string(got.body), "given 2 times", query)
		}
	})
}

// A static token in a path is not returned, with any escaping.
func TestStaticTokensInPathsMasked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, path := range []string{"/" + writeToken, "/clusters/" + readToken, "/nothing/at/" + writeToken, "/clusters/%" + fmt.Sprintf("%x", writeToken[0]) + writeToken[1:]} {
		got := w.get(path)
		require.Equal(t, 404, got.status, path)
		require.Contains(t, string(got.body), "***", path)
		for _, token := range []string{readToken, writeToken} {
			require.NotContains(t, string(got.body), token, path)
		}
	}
	got := w.put(demoCluster, fmt.Sprintf(`{"%s":1}`, writeToken)).problem(400, "validation_error")
	require.NotContains(t, string(got.body), writeToken)
}

package auth

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// TestActorsOfUnusualSubjects: no subject has an actor that looks like the actor of another subject, or that is very long.
func TestActorsOfUnusualSubjects(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 500)
	seen := map[string]string{}
	for sub, want := range map[string]string{
		"00u1":                         "oidc:corp:00u1 (00u1)",
		"repo:acme/web:ref:refs/heads": "oidc:corp:repo:acme/web:ref:refs/heads (repo:acme/web:ref:refs/heads)",
		"x) (root":                     "oidc:corp:x%29%20%28root (x%29%20%28root)",
		"x%29%20%28root":               "oidc:corp:x%2529%2520%2528root (x%2529%2520%2528root)",
		"\u0430nn":                     "oidc:corp:%D0%B0nn (%D0%B0nn)", // Cyrillic
		"\u202eann":                    "oidc:corp:%E2%80%AEann (%E2%80%AEann)",
		"ann\nactor=root":              "oidc:corp:ann%0Aactor=root (ann%0Aactor=root)",
		"\xff":                         "oidc:corp:%FF (%FF)",
		long:                           "",
		long[1:]:                       "",
		strings.Repeat("\u0430", 250):  "",
	} {
		actor := externalActor(&fleet.Subject{Issuer: "corp", User: sub, Sub: sub})
		if want != "" {
			require.Equal(t, want, actor)
		}
		require.LessOrEqual(t, len(actor), 2*(maxActorPart+64))
		require.Equal(t, 1, strings.Count(actor, "("), actor)
		require.Equal(t, 1, strings.Count(actor, " "), actor)
		require.Empty(t, seen[actor])
		seen[actor] = sub
	}
}

package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
)

// TestGroupNames: group names with spaces, upper case and other letters grant rights to exactly these names, with an ID token and in a
// session.
func TestGroupNames(t *testing.T) {
	t.Parallel()
	for name, others := range map[string][]string{
		"Platform Team":                    {"platform team", "PLATFORM TEAM", "Platform  Team", "Platform Team ", " Platform Team", "PlatformTeam", "Platform%20Team", "Platform+Team", "Platform", "Team", "Platform\u00a0Team"},
		"CORP\\Ops, EMEA (prod)":           {"CORP\\ops, EMEA (prod)", "CORP\\Ops", "EMEA (prod)", "Ops, EMEA (prod)"},
		"CN=web,OU=Groups,DC=corp,DC=com":  {"cn=web,ou=groups,dc=corp,dc=com", "CN=web", "web"},
		"Équipe Réseau":                    {"équipe réseau", "E\u0301quipe Re\u0301seau", "Equipe Reseau"},
		"*":                                {"anything"},
		"team-*":                           {"team-web"},
		"Straße":                           {"STRASSE", "Strasse"},
		"0b2a6f3e-5c55-4f0e-9d4e-2d3b9f1c": {"0B2A6F3E-5C55-4F0E-9D4E-2D3B9F1C"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, issuer := setupIssuer(t, options{})
			body, err := json.Marshal(map[string]any{"id": "team", "subjects": []any{map[string]any{"issuer": "corp", "groups": []string{name}}}, "may": []string{"read"}})
			require.NoError(t, err)
			w.create("/access", string(body))
			check := func(groups []string, want int) {
				t.Helper()
				token := issuer.Token(idClaims(testissuer.Claims{"groups": groups}))
				w.get("/clusters", bearer(token)...).want(want)
				begun := w.do("POST", "/auth/sessions", "", bearer(token)...).want(201).json()["token"].(string)
				w.get("/clusters", bearer(begun)...).want(want)
			}
			check([]string{name}, 200)
			check(append([]string{name}, others...), 200)
			for _, other := range others {
				check([]string{other}, 403)
			}
			check(others, 403)
		})
	}
}

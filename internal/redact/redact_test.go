package redact_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/redact"
)

const (
	managed = "frs_0123456789012345678901234567890123456789012345678"
	session = "frss_wP86vLTmZSerAVI2DB17hKVGRSGLv6o7yStjbimIY5Fy_HG4j1fSRg6hTv-w8_-Em3f"
	idToken = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3O.sign"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	m := redact.NewMasker("", "short", "static-token", "static-token-2", `quoted"token`)
	for text, want := range map[string]string{
		"":                                 "",
		"short text":                       "short text",
		"a " + managed + " b":              "a frs_*** b",
		"truncated " + managed[:12]:        "truncated frs_***",
		"frs_short":                        "frs_short",
		"x static-token y":                 "x *** y",
		"static-token-2":                   "***",
		`bad value "quoted\"token"`:        `bad value "***"`,
		"static-token and " + managed:      "*** and frs_***",
		"AKIA0123456789ABCDEF is no token": "AKIA0123456789ABCDEF is no token",
		"x " + session + "/y":              "x frss_***/y",
		"frss_of-sessions":                 "frss_***",
		"Bearer " + idToken + ", x":        "Bearer eyJ***, x",
		"eyJ":                              "eyJ",
	} {
		require.Equal(t, want, m.Tokens(text), text)
	}
	require.Equal(t, "static-token", redact.Credentials("static-token"))
}

func TestAllAndFind(t *testing.T) {
	t.Parallel()
	m := redact.NewMasker("static-token")
	for text, name := range map[string]string{
		managed:                            "a token of this service",
		session:                            "the token of a session",
		"static-token":                     "a token of this server's configuration",
		"AKIA0123456789ABCDEF":             "a key of AWS",
		"ghp_" + strings.Repeat("a", 36):   "a token of GitHub",
		"glpat-" + strings.Repeat("a", 20): "a token of GitLab",
		idToken:                            "a JSON web token",
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----": "a private key",
		"-----BEGIN PRIVATE KEY-----\nMII":                                    "a private key",
	} {
		require.Equal(t, name, m.Find("see "+text), text)
		require.NotContains(t, m.All("see "+text), text)
		require.NotContains(t, m.All("see "+text), "MII")
		require.True(t, strings.HasPrefix(m.All("see "+text), "see "), text)
	}
	for _, text := range []string{"", "a description", "frs_", "AKIA", "sha256:0123456789abcdef"} {
		require.Empty(t, m.Find(text))
		require.Equal(t, text, m.All(text))
	}
}

func TestPath(t *testing.T) {
	t.Parallel()
	m := redact.NewMasker("static token")
	for path, want := range map[string]string{
		"/clusters/a%2Fb":                       "/clusters/a%2Fb",
		"/clusters/" + managed:                  "/clusters/frs_***",
		"/clusters/%66rs_" + managed[4:] + "/x": "/clusters/frs_***/x",
		"/clusters/static%20token":              "/clusters/***",
	} {
		u, err := url.Parse(path)
		require.NoError(t, err)
		require.Equal(t, want, m.Path(u), path)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"db.password", `"leak"`, redact.ValueMask},
		{"secrets", `{"a":{"b":"leak"},"n":1414}`, `{"a":{"b":"` + redact.ValueMask + `"},"n":"` + redact.ValueMask + `"}`},
		{"env", `[{"name":"DB_PASSWORD","value":"leak"},{"name":"MODE","value":"x"}]`, `[{"name":"DB_PASSWORD","value":"` + redact.ValueMask + `"},{"name":"MODE","value":"x"}]`},
		{"port", `1 --password=leak`, `1 --password=` + redact.ValueMask},
		{"db.password", `leak`, redact.ValueMask},
		{"args", `["--password=leak"]`, `["--password=` + redact.ValueMask + `"]`},
		{"config", `not JSON, password: leak`, `not JSON, password: ` + redact.ValueMask},
		{"existingSecret", `"name"`, ""},
		{"tokens.enabled", `true`, ""},
		{"keyboard", `"<&>"`, ""},
		{"password", `""`, ""},
	} {
		text, hidden := redact.JSON(c.name, c.value, false)
		require.Equal(t, c.want != "", hidden, c.name)
		if c.want == "" {
			c.want = c.value
		}
		require.Equal(t, c.want, text, c.name)
		text, hidden = redact.JSON(c.name, c.value, true)
		require.False(t, hidden)
		require.Equal(t, c.value, text)
	}
}

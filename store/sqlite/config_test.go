package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]Config{
		"sqlite://data/flux-resourceset.db?mode=rwc": {Path: "data/flux-resourceset.db"},
		"sqlite://fleet.db":                          {Path: "fleet.db"},
		"sqlite://fleet.db?":                         {Path: "fleet.db"},
		"sqlite:///var/lib/fleet.db":                 {Path: "/var/lib/fleet.db"},
		"sqlite:///var/lib/fleet.db?mode=rw":         {Path: "/var/lib/fleet.db"},
		"sqlite:///var/lib/fleet.db?mode=ro":         {Path: "/var/lib/fleet.db", ReadOnly: true},
		"sqlite:///a%20dir/100%25%3F%23.db":          {Path: "/a dir/100%?#.db"},
		"sqlite://./a/../b.db":                       {Path: "b.db"},
		"sqlite::memory:":                            {Memory: true},
		"sqlite::memory:?mode=rwc":                   {Memory: true},
		"sqlite://:memory:":                          {Memory: true},
		"sqlite://any?mode=memory":                   {Memory: true},
	} {
		got, err := ParseURL(url)
		require.NoError(t, err, url)
		require.Equal(t, want, got, url)
	}
}

func TestParseURLRefuses(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"":                               "sqlite://",
		"fleet.db":                       "sqlite://",
		"postgres://host/db":             "sqlite://",
		"sqlite:fleet.db":                "sqlite://relative/path",
		"sqlite://":                      "names no file",
		"sqlite://?mode=rwc":             "names no file",
		"sqlite://a.db?mode=create":      `unknown mode "create"`,
		"sqlite://a.db?mode=rw&mode=ro":  "more than once",
		"sqlite://a.db?mode":             `unknown mode ""`,
		"sqlite://a.db?cache=shared":     `unknown parameter "cache"`,
		"sqlite://a.db?Mode=ro":          `unknown parameter "Mode"`,
		"sqlite://a.db?mode=%zz":         "parameters",
		"sqlite://a%zz.db":               "path",
		"sqlite://a%00.db":               "NUL",
		"sqlite::memory:?mode=ro":        "read-only",
		"sqlite://a.db?_pragma=user(1)":  "_pragma",
		"sqlite://a.db?mode=rwc&vfs=own": "vfs",
	} {
		_, err := ParseURL(url)
		require.ErrorContains(t, err, says, url)
	}
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDatabasePasswordNotLogged starts the program with passwords of a database in all places where one can be: in settings that it
// refuses, and in settings with which it tries to connect.
func TestDatabasePasswordNotLogged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	const target = "postgres://u@127.0.0.1:1/db?sslmode=disable"
	for i, c := range []struct {
		exit     int
		settings []string
	}{
		{2, []string{"DATABASE_URL=postgres://u:pa@S3CRET@127.0.0.1:1/db"}},
		{2, []string{"DATABASE_URL=host=127.0.0.1 port=1 user=u password=S3CRET dbname=db"}},
		{2, []string{"DATABASE_URL=mysql://u:S3CRET@127.0.0.1/db", "STORE_BACKEND=postgres"}},
		{2, []string{"DATABASE_URL=postgres://u:S3CRET@127.0.0.1:1/db\n"}},
		{2, []string{"DATABASE_URL=postgres://u:pa/S3CRET@127.0.0.1:1/db", "LOG_LEVEL=debug"}},
		{1, []string{"DATABASE_URL=postgres://u:pa%40S3CRET@127.0.0.1:1/db"}},
		{1, []string{"DATABASE_URL=POSTGRES://u:S3CRET@127.0.0.1:1/db?sslmode=disable"}},
		{1, []string{"DATABASE_URL=" + target + "&password=S3CRET"}},
		{1, []string{"DATABASE_URL=" + target, "PGPASSWORD=pa@S3CRET"}},
		{1, []string{"DATABASE_URL=" + target + "&passfile=" + file("pass", "127.0.0.1:1:db:u:S3CRET\n")}},
		{1, []string{"DATABASE_URL=" + target + "&service=s&servicefile=" + file("service", "[s]\npassword=S3CRET\n")}},
		{2, []string{"DATABASE_URL=" + target + "&service=s&servicefile=" + file("broken", "[s\npassword=S3CRET\n=S3CRET\n")}},
		{2, []string{"DATABASE_URL=" + target + "&sslpassword=S3CRET&sslcert=" + file("cert", "S3CRET") + "&sslkey=" + file("key", "S3CRET") + "&sslmode=require"}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := start(t, append([]string{"API_MODE=crud", "LOG_LEVEL=debug", "START_TIMEOUT=300ms"}, c.settings...)...)
			require.Equal(t, c.exit, p.exit(), p.Log())
			require.NotEmpty(t, p.Log())
			for _, part := range []string{"3CRET", "S3C", "pa@"} {
				require.False(t, strings.Contains(strings.ToUpper(p.Log()), strings.ToUpper(part)), "the log has a part of the password")
			}
			url := strings.TrimPrefix(c.settings[0], "DATABASE_URL=")
			for _, args := range [][]string{{"verify"}, {"--help"}, {"migrate", "status"}, {"copy", "--from", url, "--to", url}} {
				_, stdout, stderr := invoke(t, append([]string{"--database-url", url}, args...)...)
				require.NotContains(t, stdout+stderr, "S3CRET", "%v", args)
			}
		})
	}
}

// TestDatabaseURLWithNewline: a URL with a newline or space at an end names no second store. A Secret made of the output of echo has one.
func TestDatabaseURLWithNewline(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	for _, around := range []string{"%s\n", "%s ", " %s", "%s\r\n", "%s\t", "%s?mode=rwc\n"} {
		p := start(t, "API_MODE=crud", "DATABASE_URL="+fmt.Sprintf(around, "sqlite://"+path))
		require.Equal(t, 2, p.exit())
		require.Contains(t, p.Log(), "DATABASE_URL: it begins or ends with a space")
	}
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Empty(t, files)
}

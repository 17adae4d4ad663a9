package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostile are URLs with the password that TestNoPasswordInErrors looks for, as operators write it: not encoded, cut off, with another
// scheme or in another place. Any part of it that reaches the driver as a host, a user, a database or a parameter is in the log.
var hostile = []string{
	"postgres://u:pa@S3CRET@127.0.0.1:1/db", "postgres://u:S3CRET@pa@127.0.0.1:1/db", "postgres://u:S3@CRET@S3@127.0.0.1:1/db",
	"postgres://u:pa/S3CRET@127.0.0.1:1/db", "postgres://u:/S3CRET@127.0.0.1:1/db", "postgres://u:1/S3CRET@127.0.0.1:1/db",
	"postgres://u:pa?S3CRET@127.0.0.1:1/db", "postgres://u:1?S3CRET@127.0.0.1:1/db", "postgres://u:?S3CRET=1@127.0.0.1/db",
	"postgres://u:pa#S3CRET@127.0.0.1:1/db", "postgres://u:1#S3CRET", "postgres://u:pa%S3CRET@127.0.0.1:1/db", "postgres://u:S3CRET%@127.0.0.1:1/db",
	"postgres://u:pa S3CRET@127.0.0.1:1/db", "postgres://u:S3CRET\n@127.0.0.1:1/db", "postgres://u:S3CRET\t@127.0.0.1:1/db",
	"postgres://u:\"S3CRET\"@127.0.0.1:1/db", "postgres://u:'S3CRET'@127.0.0.1:1/db", "postgres://u:pa\\S3CRET@127.0.0.1:1/db",
	"postgres://u:pa[S3CRET@127.0.0.1:1/db", "postgres://u:pa]S3CRET@127.0.0.1:1/db", "postgres://u:pa|S3CRET@127.0.0.1:1/db",
	"postgres://u:pa<S3CRET>@127.0.0.1:1/db", "postgres://u:{S3CRET}@127.0.0.1:1/db", "postgres://u:S3CRETé@127.0.0.1:1/db",
	"postgres://u:S3CRET", "postgres://u:S3CRET/db", "postgres://u:S3CRET,127.0.0.1:1/db", "postgres://u:1,S3CRET:pa@/db?x=@",
	"postgres://127.0.0.1:S3CRET/db", "postgres://u%3AS3CRET@127.0.0.1:1/db", "postgres://u%20S3CRET@127.0.0.1:1/db",
	"postgres://u@127.0.0.1:1/db?password=pa&S3CRET", "postgres://u@127.0.0.1:1/db?password=pa&S3CRET=1", "postgres://u@127.0.0.1:1/db?password=pa%S3CRET",
	"postgres://u@127.0.0.1:1/db?password=pa@S3CRET", "postgres://u@127.0.0.1:1/db?password=pa#S3CRET", "postgres://u@127.0.0.1:1/db?sslpassword=pa&s3S3CRET=x",
	"postgres://u@127.0.0.1:1/db?S3CRET", "postgres://u@127.0.0.1:1/db?password=S3CRET==", "postgres://u@127.0.0.1:1/db?pasword=S3CRET", "postgres://u@127.0.0.1:1/db?password=S3CRET&sslmode=perhaps",
	"postgres://u:S3CRET@127.0.0.1:1/db?pool_max_conns=many", "postgres://u:S3CRET@127.0.0.1:1/db?sslrootcert=/nowhere&sslmode=verify-full",
	"postgres://u:S3CRET@127.0.0.1:1/db/S3CRET", "postgres://u:S3CRET@127.0.0.1:99999/db", "postgres://u:S3CRET@[::1/db", "postgres://u:S3CRET@h%41st/db",
	"postgres:/u:S3CRET@127.0.0.1:1/db", "postgres:u:S3CRET@127.0.0.1:1/db", "postgres//u:S3CRET@127.0.0.1:1/db", "postgres:///u:S3CRET@127.0.0.1:1/db",
	"postgress://u:S3CRET@127.0.0.1:1/db", "\"postgres://u:S3CRET@127.0.0.1:1/db\"", "jdbc:postgresql://u:S3CRET@127.0.0.1:1/db",
	"host=127.0.0.1 port=1 user=u password=S3CRET dbname=db", "password=S3CRET", "password='S3CRET' host=127.0.0.1", "user=u password=S3CRET", "S3CRET",
}

// accepted are URLs with one reading.
var accepted = []string{
	"postgres://u:S3CRET@127.0.0.1:1/db", "POSTGRES://u:S3CRET@127.0.0.1:1/db", "postgresql://u:S3CRET@127.0.0.1:1,localhost:2/db?target_session_attrs=read-write",
	"postgres://u:pa%40S3CRET%2F%23%3F%25%20@127.0.0.1:1/db", "postgres://u:pa:S3CRET@127.0.0.1:1/db", "postgres://u%40server:S3CRET@127.0.0.1:1/db",
	"postgres://u:S3CRET@[::1]:1/db", "postgres://:S3CRET@127.0.0.1:1/db", "postgres://127.0.0.1:1/db?user=u&password=S3CRET%3D%3D", "postgres://127.0.0.1:1?sslpassword=S3CRET",
	"postgres://u:S3CRET!$*+,;=-_.~()@127.0.0.1:1/db?connect_timeout=1", "postgres://u:S3CRET@/db?host=%2Ftmp", "postgres://u:S3CRET@127.0.0.1:1",
}

// TestNoPasswordInErrors: whatever the setting looks like, no part of the password is in an error, or in what the driver resolves,
// sends as a name, or prints.
func TestNoPasswordInErrors(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(hostile), 40)
	hidden := func(t *testing.T, text string) {
		t.Helper()
		for _, part := range []string{"S3C", "CRE", "RET", "S3@", "pa@"} {
			require.False(t, strings.Contains(strings.ToUpper(text), strings.ToUpper(part)), "a part of the password")
		}
	}
	for i, raw := range hostile {
		t.Run(fmt.Sprint("refused ", i), func(t *testing.T) {
			t.Parallel()
			_, err := ParseURL(raw)
			require.Error(t, err, raw)
			hidden(t, err.Error())
		})
	}
	for i, raw := range accepted {
		t.Run(fmt.Sprint("accepted ", i), func(t *testing.T) {
			t.Parallel()
			cfg, err := ParseURL(raw)
			require.NoError(t, err)
			p, err := cfg.pool()
			require.NoError(t, err)
			c := p.ConnConfig
			text := fmt.Sprint(c.Host, c.Database, c.User, c.RuntimeParams)
			for _, f := range c.Fallbacks {
				text += f.Host
			}
			hidden(t, text)
			require.True(t, c.Password == "" && strings.Contains(raw, "sslpassword") || strings.Contains(c.Password, "S3CRET"), "it is used")
		})
	}
}

package objectstore_test

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/objectstore"
)

func pemOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func TestNames(t *testing.T) {
	t.Parallel()
	name, problems := objectstore.ParseName("s3://my.bucket-1/fleet/last night.db")
	require.Empty(t, problems)
	require.Equal(t, objectstore.Name{Bucket: "my.bucket-1", Key: "fleet/last night.db"}, name)
	require.Equal(t, "s3://my.bucket-1/fleet/last night.db", name.String())
	for given, prefix := range map[string]string{"s3://bucket": "", "s3://bucket/": "", "s3://bucket/a/b": "a/b/", "s3://bucket/a/b/": "a/b/"} {
		name, problems := objectstore.ParsePrefix(given)
		require.Empty(t, problems, given)
		require.Equal(t, prefix, name.Key, given)
	}
	require.True(t, objectstore.IsName("S3://bucket/key"))
	require.False(t, objectstore.IsName("s3/bucket/key"))
}

// All problems of a name are reported, without any secret in it.
func TestNamesThatAreNone(t *testing.T) {
	t.Parallel()
	for given, says := range map[string][]string{
		"s3:bucket/key":          {"begin with s3://"},
		"S3://bucket/key":        {"begin with s3://"},
		"s3://":                  {`the bucket is ""`, "name of the object is missing"},
		"s3://bucket":            {"name of the object is missing"},
		"s3://bucket/a/":         {"ends with a slash"},
		"s3://Bucket/../a?x":     {`the bucket is "Bucket"`, "? or a #", `".." between slashes`},
		"s3://a..b/a//b":         {`the bucket is "a..b"`, `"" between slashes`},
		"s3://host:9000/b/key":   {"no port"},
		"s3://bucket/a\x00":      {"no text"},
		"s3://bucket/a\xff":      {"no text"},
		"s3://key:hunter2@b/key": {"do not belong into a name"},
		"s3://bucket/" + strings.Repeat("x", 1025): {"1025 bytes"},
	} {
		_, problems := objectstore.ParseName(given)
		require.Len(t, problems, len(says), "%q: %q", given, problems)
		all := strings.Join(problems, "\n")
		for _, part := range says {
			require.Contains(t, all, part, "%q", given)
		}
		require.NotContains(t, all, "hunter2")
	}
}

// All problems of the settings are reported together.
func TestSettingsThatAreNone(t *testing.T) {
	t.Parallel()
	noPEM := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(noPEM, []byte("nothing"), 0o600))
	for _, c := range []struct {
		cfg  objectstore.Config
		says []string
	}{
		{objectstore.Config{}, []string{"AWS_REGION is required", "S3_TIMEOUT", "there are no credentials"}},
		{
			objectstore.Config{Endpoint: "minio:9000", Addressing: "dns", CAFile: noPEM, Timeout: -1, Credentials: objectstore.Credentials{SecretAccessKey: "hunter2"}},
			[]string{"S3_ADDRESSING", "AWS_ENDPOINT_URL_S3", "S3_TIMEOUT", "has no certificate", "belong together"},
		},
		{objectstore.Config{Endpoint: "https://a:hunter2@minio", Timeout: time.Minute, CAFile: "/nowhere.pem", Credentials: objectstore.Credentials{WebIdentityTokenFile: "x"}}, []string{"AWS_ENDPOINT_URL_S3", "/nowhere.pem", "AWS_ROLE_ARN"}},
		{objectstore.Config{Endpoint: "https://minio/bucket", Timeout: time.Minute, Credentials: objectstore.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}}, []string{"a server alone"}},
	} {
		b, problems := objectstore.Open(c.cfg, "bucket")
		require.Nil(t, b)
		require.Len(t, problems, len(c.says), "%q", problems)
		all := strings.Join(problems, "\n")
		for _, part := range c.says {
			require.Contains(t, all, part)
		}
		require.NotContains(t, all, "hunter2")
	}
}

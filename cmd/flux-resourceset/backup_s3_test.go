package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// command runs the real program until it ends, with only the settings in its environment.
func command(t *testing.T, settings []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append([]string{runAsProgram + "=1", "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}, settings...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	require.NotContains(t, out.String()+errs.String(), testrig.S3Secret)
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// s3Settings are the settings of the chart's backup job.
func s3Settings(s *testrig.S3) []string {
	return []string{"AWS_ENDPOINT_URL_S3=" + s.Endpoint, "AWS_REGION=" + testrig.S3Region, "AWS_ACCESS_KEY_ID=" + testrig.S3Key, "AWS_SECRET_ACCESS_KEY=" + testrig.S3Secret}
}

// TestBackupToABucket: a running server's store is uploaded to a bucket of a real S3 server, under a given name and
// under a chosen one. A store restored from it answers every poll with the same bytes.
func TestBackupToABucket(t *testing.T) {
	t.Parallel()
	server, dir := testrig.StartS3(t, "backups"), t.TempDir()
	from, to := "sqlite://"+filepath.Join(dir, "from.db"), "sqlite://"+filepath.Join(dir, "to.db")
	p := start(t, "API_MODE=crud", "DATABASE_URL="+from, "SEED_FILE="+demoSeed)
	before := p.demo()
	s3 := s3Settings(server)

	code, stdout, stderr := command(t, s3, "backup", "s3://backups/nightly/a.db", "--database-url", from)
	require.Zero(t, code, stderr)
	require.Regexp(t, `^s3://backups/nightly/a\.db has revision 1:\S+ of .*: 1 clusters, \d+ documents; answers sha256:[0-9a-f]{64}\n$`, stdout)
	digest := regexp.MustCompile(`sha256:\S+`).FindString(stdout)

	code, stdout, stderr = command(t, s3, "backup", "--dir", "s3://backups/nightly", "--database-url", from)
	require.Zero(t, code, stderr)
	require.Regexp(t, `^s3://backups/nightly/fleet-\d{8}T\d{6}Z-r1\.db has revision `, stdout)
	requireOnly(t, filepath.Join(server.Objects, "backups", "nightly"), "a.db", filepath.Base(regexp.MustCompile(`fleet-\S+`).FindString(stdout)))

	was, err := os.ReadFile(filepath.Join(server.Objects, "backups", "nightly", "a.db"))
	require.NoError(t, err)
	code, _, stderr = command(t, s3, "backup", "s3://backups/nightly/a.db", "--database-url", from)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "s3://backups/nightly/a.db exists; a backup does not replace an object")
	is, err := os.ReadFile(filepath.Join(server.Objects, "backups", "nightly", "a.db"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(was, is))

	code, stdout, stderr = command(t, s3, "restore", "s3://backups/nightly/a.db", "--database-url", to)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, digest)
	require.Equal(t, before, start(t, "API_MODE=crud", "DATABASE_URL="+to).demo())
}

// TestRestoreRefusesInvalidBackup: a missing, truncated or altered object changes nothing in the store.
func TestRestoreRefusesInvalidBackup(t *testing.T) {
	t.Parallel()
	server, dir := testrig.StartS3(t, "backups"), t.TempDir()
	from, to := "sqlite://"+filepath.Join(dir, "from.db"), filepath.Join(dir, "to.db")
	start(t, "API_MODE=crud", "DATABASE_URL="+from, "SEED_FILE="+demoSeed).Kill()
	s3 := s3Settings(server)
	code, _, stderr := command(t, s3, "backup", "s3://backups/a.db", "--database-url", from)
	require.Zero(t, code, stderr)
	stored := filepath.Join(server.Objects, "backups", "a.db")
	content, err := os.ReadFile(stored)
	require.NoError(t, err)
	content[len(content)-1]++ // SQLite would not miss it
	require.NoError(t, os.WriteFile(stored, content, 0o600))

	for object, says := range map[string]string{
		"s3://backups/a.db":   "s3://backups/a.db: it is not what was uploaded",
		"s3://backups/b.db":   "s3://backups/b.db: there is no such object",
		"s3://elsewhere/a.db": "NoSuchBucket",
	} {
		code, _, stderr = command(t, s3, "restore", object, "--database-url", "sqlite://"+to)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, says)
		require.NoFileExists(t, to)
	}
}

// TestBucketSettingsAreCheckedTogether: one attempt reports all problems of the settings.
func TestBucketSettingsAreCheckedTogether(t *testing.T) {
	t.Parallel()
	code, _, stderr := command(t, []string{"AWS_SECRET_ACCESS_KEY=" + testrig.S3Secret, "AWS_CA_BUNDLE=/nowhere.pem"},
		"backup", "--dir", "s3://B/x", "--keep", "3", "--s3-addressing", "dns", "--s3-timeout", "soon", "--database-url", "mysql://u:hunter2@h/db")
	require.Equal(t, 2, code)
	for _, says := range []string{
		"--keep is for directories", `the bucket is "B"`, "S3_ADDRESSING", "S3_TIMEOUT", "AWS_REGION is required", "AWS_CA_BUNDLE: open /nowhere.pem", "belong together", "DATABASE_URL: it is not the URL of a store",
	} {
		require.Contains(t, stderr, says)
	}
	require.NotContains(t, stderr, "hunter2")

	code, _, stderr = command(t, []string{"AWS_ACCESS_KEY_ID=AKID\n", "AWS_SECRET_ACCESS_KEY=" + testrig.S3Secret + "\n", "AWS_ENDPOINT_URL_S3=https://minio.example.com:99999"},
		"restore", "s3://backups/a.db", "--database-url", "sqlite:///nowhere/fleet.db")
	require.Equal(t, 2, code)
	for _, says := range []string{"AWS_ACCESS_KEY_ID has a space or a line break", "AWS_SECRET_ACCESS_KEY has", "AWS_ENDPOINT_URL_S3 must be a URL"} {
		require.Contains(t, stderr, says)
	}

	code, _, stderr = command(t, []string{"AWS_REGION=eu-central-1"}, "restore", "s3://key:hunter2@backups/", "--database-url", "sqlite::memory:")
	require.Equal(t, 2, code)
	for _, says := range []string{"credentials do not belong into a name", "the name of the object is missing", "there are no credentials", "a memory store is empty again"} {
		require.Contains(t, stderr, says)
	}
	require.NotContains(t, stderr, "hunter2")
}

// TestBackupRefusedByBucket fails before the store is read, if possible.
func TestBackupRefusedByBucket(t *testing.T) {
	t.Parallel()
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(down.Close)
	code, _, stderr := command(t, []string{"AWS_ENDPOINT_URL=" + down.URL, "AWS_ACCESS_KEY_ID=" + testrig.S3Key, "AWS_SECRET_ACCESS_KEY=" + testrig.S3Secret},
		"backup", "s3://backups/a.db", "--database-url", "sqlite:///nowhere/fleet.db")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "s3://backups/a.db: the server answers")
	require.Contains(t, stderr, "503")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/internal/objectstore"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// s3Flags are the settings for s3:// names, with the names that AWS's own tools use. Credentials have no flags, because
// flags are visible in the process list.
func s3Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "s3-endpoint", EnvVars: []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, Usage: "`URL` of a server that speaks S3; AWS when not set"},
		&cli.StringFlag{Name: "s3-region", EnvVars: []string{"AWS_REGION", "AWS_DEFAULT_REGION"}, Usage: "`REGION` of the bucket; required for AWS"},
		&cli.StringFlag{Name: "s3-addressing", EnvVars: []string{"S3_ADDRESSING"}, Value: objectstore.AddressingAuto, Usage: "where the bucket's name is, `auto|path|virtual`: in the path or in the host name; auto is virtual on AWS and path elsewhere"},
		&cli.StringFlag{Name: "s3-ca-file", EnvVars: []string{"AWS_CA_BUNDLE"}, Usage: "PEM `FILE` of CAs that are trusted besides the system's"},
		&cli.StringFlag{Name: "s3-timeout", EnvVars: []string{"S3_TIMEOUT"}, Value: "15m", Usage: "an upload or a download that takes so `LONG` fails"},
	}
}

// object is the name of an object, or a prefix of names, in a bucket.
type object struct {
	objectstore.Name
	bucket *objectstore.Bucket
}

// openObject parses the name and the settings and returns all problems.
func openObject(c *cli.Context, raw string, parse func(string) (objectstore.Name, []string)) (*object, []string) {
	name, problems := parse(raw)
	for i, p := range problems {
		problems[i] = "the name of an object: " + p
	}
	timeout, _ := time.ParseDuration(c.String("s3-timeout")) // an invalid duration is 0, which Open refuses
	bucket, wrong := objectstore.Open(objectstore.Config{
		Endpoint: c.String("s3-endpoint"), Region: c.String("s3-region"), Addressing: c.String("s3-addressing"),
		CAFile: c.String("s3-ca-file"), Timeout: timeout,
		Credentials: objectstore.Credentials{
			AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
			WebIdentityTokenFile: os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), RoleARN: os.Getenv("AWS_ROLE_ARN"),
			STSEndpoint:  os.Getenv("AWS_ENDPOINT_URL_STS"),
			ContainerURI: os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"), ContainerRelativeURI: os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
			ContainerTokenFile: os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
		},
	}, name.Bucket)
	if problems = append(problems, wrong...); len(problems) > 0 {
		return nil, problems
	}
	return &object{name, bucket}, nil
}

// checkVacant fails before the backup begins if an object of the given name exists. A prefix needs no check.
func (o *object) checkVacant(ctx context.Context) error {
	if o.Key == "" || strings.HasSuffix(o.Key, "/") {
		return nil
	}
	return o.explain(o.bucket.CheckVacant(ctx, o.Key))
}

// upload stores a backup and returns its s3:// name. If o is a prefix, the name is chosen by newBackupName.
func (o *object) upload(ctx context.Context, made *backupFile) (target string, err error) {
	at := *o
	if at.Key == "" || strings.HasSuffix(at.Key, "/") {
		at.Key += newBackupName(made.state.Revision())
	}
	file, err := os.Open(made.path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return at.String(), at.explain(at.bucket.Put(ctx, at.Key, file, map[string]string{
		"revision": store.FormatHead(made.state.Head()), "answers": fmt.Sprintf("sha256:%x", made.digest),
	}))
}

func (o *object) download(ctx context.Context, to io.Writer) error {
	return o.explain(o.bucket.Get(ctx, o.Key, to))
}

func (o *object) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, objectstore.ErrExists):
		return fmt.Errorf("%s exists; a backup does not replace an object", o)
	}
	return fmt.Errorf("%s: %w", o, err)
}

// workDirPattern matches the temporary directories in which the command makes backups.
const workDirPattern = ".backup-*"

// workDirectory creates the directory for the unfinished backup: next to the target, for an atomic rename, or in the
// system's temporary directory if the target is no local file.
func workDirectory(target string, o *object) (string, error) {
	if target == "-" || o != nil {
		return os.MkdirTemp("", workDirPattern)
	}
	return os.MkdirTemp(filepath.Dir(target), workDirPattern) // the same file system, so the rename is atomic
}

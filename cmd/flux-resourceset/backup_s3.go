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

// s3Flags are settings for names that begin with s3://, called as AWS's own tools call them. Credentials are variables alone:
// flags can be seen in the process list.
func s3Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "s3-endpoint", EnvVars: []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, Usage: "`URL` of a server that speaks S3; AWS when not set"},
		&cli.StringFlag{Name: "s3-region", EnvVars: []string{"AWS_REGION", "AWS_DEFAULT_REGION"}, Usage: "`REGION` of the bucket; required for AWS"},
		&cli.StringFlag{Name: "s3-addressing", EnvVars: []string{"S3_ADDRESSING"}, Value: objectstore.AddressingAuto, Usage: "where the bucket's name is, `auto|path|virtual`: in the path or in the host name; auto is virtual on AWS and path elsewhere"},
		&cli.StringFlag{Name: "s3-ca-file", EnvVars: []string{"AWS_CA_BUNDLE"}, Usage: "PEM `FILE` of CAs that are trusted besides the system's"},
		&cli.StringFlag{Name: "s3-timeout", EnvVars: []string{"S3_TIMEOUT"}, Value: "15m", Usage: "an upload or a download that takes so `LONG` fails"},
	}
}

// object is an object, or what names of objects begin with.
type object struct {
	objectstore.Name
	bucket *objectstore.Bucket
}

// openObject reads a name and the settings, and says all that is wrong with them.
func openObject(c *cli.Context, raw string, parse func(string) (objectstore.Name, []string)) (*object, []string) {
	name, problems := parse(raw)
	for i, p := range problems {
		problems[i] = "the name of an object: " + p
	}
	timeout, _ := time.ParseDuration(c.String("s3-timeout")) // what is no time is 0, which is refused
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

// checkVacant is asked before the work begins, where a name was given.
func (o *object) checkVacant(ctx context.Context) error {
	if o.Key == "" || strings.HasSuffix(o.Key, "/") {
		return nil
	}
	return o.explain(o.bucket.CheckVacant(ctx, o.Key))
}

// upload puts a backup there, under a name of its own when o is what names begin with, and returns its name.
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
		return fmt.Errorf("%s exists; a backup takes no object's place", o)
	}
	return fmt.Errorf("%s: %w", o, err)
}

// workDirPattern is how directories are called in which the command makes backups.
const workDirPattern = ".backup-*"

// workDirectory is where a backup is made: beside the file that it becomes, or where temporary files are.
func workDirectory(target string, o *object) (string, error) {
	if target == "-" || o != nil {
		return os.MkdirTemp("", workDirPattern)
	}
	return os.MkdirTemp(filepath.Dir(target), workDirPattern) // renamed, it is there whole or not at all
}

// Command s3-server is a real S3 server for tests: versitygw, on a directory. It checks signatures, speaks TLS when it is
// given a certificate, and runs until its standard input ends.
//
//	scripts/tool s3-server ADDRESS DIRECTORY [CERTIFICATE KEY]
//
// DIRECTORY keeps its contents: each directory in its buckets/ is a bucket. The only account is AWS_ACCESS_KEY_ID with
// AWS_SECRET_ACCESS_KEY of the environment.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "s3-server:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 && len(args) != 4 {
		return errors.New("usage: s3-server ADDRESS DIRECTORY [CERTIFICATE KEY]")
	}
	buckets, attributes := filepath.Join(args[1], "buckets"), filepath.Join(args[1], "attributes")
	for _, dir := range []string{buckets, attributes} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	sidecar, err := meta.NewSideCar(attributes) // not every file system takes extended attributes
	if err != nil {
		return err
	}
	objects, err := posix.New(buckets, sidecar, posix.PosixOpts{SideCarDir: attributes})
	if err != nil {
		return err
	}
	cfg := &embedgw.Config{
		Ports: []string{args[0]}, MaxConnections: 100, MaxRequests: 100, MultipartMaxParts: 10000, Quiet: true,
		RootUserAccess: os.Getenv("AWS_ACCESS_KEY_ID"), RootUserSecret: os.Getenv("AWS_SECRET_ACCESS_KEY"),
	}
	if len(args) == 4 {
		cfg.CertFile, cfg.KeyFile = args[2], args[3]
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return embedgw.RunVersityGW(ctx, objects, cfg)
}

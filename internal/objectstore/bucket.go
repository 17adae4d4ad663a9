// Package objectstore uploads files to buckets of servers that speak S3, and downloads them. Each transfer is one
// request, so an object is there completely or not at all. An upload never replaces an object. A SHA-256 digest is
// checked in both directions.
//
// Reading order: name.go (s3:// names), config.go (settings and credentials), bucket.go (transfers).
package objectstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// MaxSize is the size limit of an object, in bytes: S3's limit for one request. A multipart upload could leave parts
// behind.
const MaxSize = 5 << 30

var (
	// ErrExists means that the bucket has an object of that name.
	ErrExists = errors.New("there is an object of that name")
	// ErrMissing means that the bucket has no object of that name.
	ErrMissing = errors.New("there is no such object")
	// ErrDamaged means that the digest of the received object differs from the digest stored with it.
	ErrDamaged = errors.New("it is not what was uploaded")
)

// Bucket is a client of one bucket.
type Bucket struct {
	core    minio.Core
	bucket  string
	timeout time.Duration
}

// digestKey is the metadata key of the file's SHA-256, in hexadecimal.
const digestKey = "sha256"

// CheckVacant returns ErrExists if the bucket has an object of that name. A credential without the right to read cannot
// know; then it returns nil, and Put reports the conflict.
func (b *Bucket) CheckVacant(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	_, err := b.core.StatObject(ctx, b.bucket, key, minio.StatObjectOptions{})
	switch {
	case err == nil:
		return ErrExists
	case status(err) == http.StatusNotFound, status(err) == http.StatusForbidden:
		return nil
	}
	return b.explain(ctx, err)
}

// Put uploads a file, with further metadata. The server checks the received bytes against the digest before it creates
// the object. An existing object of that name stays, and Put returns ErrExists. If the server rejects conditional
// requests, Put looks for the object just before the upload, which needs a credential with the right to read. A server
// that ignores conditions silently replaces the object.
func (b *Bucket) Put(ctx context.Context, key string, file *os.File, metadata map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if size > MaxSize {
		return fmt.Errorf("it has %d bytes, and S3 takes %d in one object that is put at once", size, int64(MaxSize))
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(file, 0, size)); err != nil {
		return err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	opts := minio.PutObjectOptions{
		ContentType: "application/vnd.sqlite3", UserMetadata: map[string]string{digestKey: digest}, DisableMultipart: true,
		DisableContentSha256: true, // of single chunks: the digest of the whole file is signed
	}
	maps.Copy(opts.UserMetadata, metadata)
	send := func() error {
		// Each attempt reads the file from its start; a section reader cannot be closed.
		_, err := b.core.PutObject(ctx, b.bucket, key, io.NewSectionReader(file, 0, size), size, "", digest, opts)
		return err
	}
	opts.SetMatchETagExcept("*")
	err = send()
	if status(err) == http.StatusNotImplemented {
		_, there := b.core.StatObject(ctx, b.bucket, key, minio.StatObjectOptions{})
		switch {
		case there == nil:
			return ErrExists
		case status(there) != http.StatusNotFound:
			return fmt.Errorf("the server puts nothing under a condition, and does not say whether the name is free: nothing was uploaded: %w", b.explain(ctx, there))
		}
		opts = withoutConditions(opts)
		err = send()
	}
	if status(err) == http.StatusPreconditionFailed {
		// An earlier attempt whose answer was lost may have created the object.
		if there, err := b.core.StatObject(ctx, b.bucket, key, minio.StatObjectOptions{}); err == nil && digestOf(there) == digest {
			return nil
		}
		return ErrExists
	}
	return b.explain(ctx, err)
}

// withoutConditions returns the options without If-None-Match.
func withoutConditions(o minio.PutObjectOptions) minio.PutObjectOptions {
	return minio.PutObjectOptions{
		ContentType: o.ContentType, UserMetadata: o.UserMetadata, DisableMultipart: o.DisableMultipart, DisableContentSha256: o.DisableContentSha256,
	}
}

// Get writes an object to w. After an error, discard the bytes written: the error is ErrDamaged if the digest stored
// with the object differs. An object of another program may have no digest and is not checked.
func (b *Bucket) Get(ctx context.Context, key string, w io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	body, info, _, err := b.core.GetObject(ctx, b.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return b.explain(ctx, err)
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if info.Size > MaxSize {
		return fmt.Errorf("it has %d bytes, and no backup has more than %d", info.Size, int64(MaxSize))
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(body, MaxSize))
	if err != nil {
		return b.explain(ctx, err)
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	if kept := digestOf(info); info.Size >= 0 && n != info.Size || kept != "" && kept != digest {
		return fmt.Errorf("%w: %d bytes of SHA-256 %s were received, and %d bytes of SHA-256 %s were put there", ErrDamaged, n, digest, info.Size, kept)
	}
	return nil
}

// digestOf returns the digest stored with an object. Servers spell metadata names differently.
func digestOf(o minio.ObjectInfo) string {
	for name, value := range o.UserMetadata {
		if strings.EqualFold(name, digestKey) {
			return value
		}
	}
	return ""
}

// status returns the HTTP status of an S3 error, or 0.
func status(err error) int {
	if err == nil {
		return 0
	}
	return minio.ToErrorResponse(err).StatusCode
}

// explain turns a server's error into one for the caller.
func (b *Bucket) explain(ctx context.Context, err error) error {
	answer := minio.ToErrorResponse(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("it was not done within %s: %w", b.timeout, err)
	case answer.Code == minio.NoSuchKey:
		return ErrMissing
	case answer.Code != "":
		return fmt.Errorf("the server answers %s, %d: %w", answer.Code, answer.StatusCode, err)
	}
	return err
}

// Package objectstore puts files into buckets of servers that speak S3, and takes them out again: each in one request, whole or
// not at all, under a name that nothing had before, and held against its digest on both ways.
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

// MaxSize is how large an object is at most: what S3 takes in one request. An upload in parts could leave parts behind.
const MaxSize = 5 << 30

var (
	// ErrExists is returned when there is another object of that name.
	ErrExists = errors.New("there is an object of that name")
	// ErrMissing is returned when there is none.
	ErrMissing = errors.New("there is no such object")
	// ErrDamaged is returned when what was received is not what was sent.
	ErrDamaged = errors.New("it is not what was uploaded")
)

// Bucket is a client of one bucket.
type Bucket struct {
	core    minio.Core
	bucket  string
	timeout time.Duration
}

// digestKey is the object's metadata that has the file's SHA-256, in hexadecimal.
const digestKey = "sha256"

// CheckVacant returns ErrExists when there is an object of that name. A credential that may not look does not learn it, and
// is told by Put.
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

// Put uploads a file, with further metadata. The server checks what it received against the digest before the object is there.
// An object of that name stays, and ErrExists is returned; on a server that says that it does not know such conditions, what is
// there just before counts, which takes a credential that may look. A server that ignores them replaces it.
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
		DisableContentSha256: true, // of single chunks: the digest of all of it is signed
	}
	maps.Copy(opts.UserMetadata, metadata)
	send := func() error {
		// A section cannot be closed, and is read again by each attempt.
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
		// An attempt whose answer was lost may have put it there.
		if there, err := b.core.StatObject(ctx, b.bucket, key, minio.StatObjectOptions{}); err == nil && digestOf(there) == digest {
			return nil
		}
		return ErrExists
	}
	return b.explain(ctx, err)
}

// withoutConditions are the same options, and it does not matter what is there.
func withoutConditions(o minio.PutObjectOptions) minio.PutObjectOptions {
	return minio.PutObjectOptions{
		ContentType: o.ContentType, UserMetadata: o.UserMetadata, DisableMultipart: o.DisableMultipart, DisableContentSha256: o.DisableContentSha256,
	}
}

// Get writes an object to w. What it wrote is of no use when it returns an error: ErrDamaged when the digest that is kept with
// the object is another one. An object that something else put there may have none.
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

// digestOf is what was kept with an object. Servers write names of metadata in different ways.
func digestOf(o minio.ObjectInfo) string {
	for name, value := range o.UserMetadata {
		if strings.EqualFold(name, digestKey) {
			return value
		}
	}
	return ""
}

// status is the HTTP status that an error stands for, or 0.
func status(err error) int {
	if err == nil {
		return 0
	}
	return minio.ToErrorResponse(err).StatusCode
}

// explain says what a server's answer means to whoever asked.
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

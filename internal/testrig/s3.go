package testrig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The account of S3 servers, and the region that they call theirs.
const (
	S3Key    = "AKIDFORTESTS"
	S3Secret = "the-secret-of-tests/which+nothing=prints"
	S3Region = "us-east-1"
)

// S3 is a real S3 server, of its own for a test: tools/s3-server.
type S3 struct {
	Endpoint string // URL
	Objects  string // directory: Objects/BUCKET/KEY
}

// StartS3 starts a server that ends with the test, with empty buckets. It is built when it never was.
func StartS3(t testing.TB, buckets ...string) *S3 {
	t.Helper()
	dir := t.TempDir()
	for _, bucket := range buckets {
		if err := os.MkdirAll(filepath.Join(dir, "buckets", bucket), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	buildS3(t)
	for range 5 { // a free port may be somebody else's by the time
		address, err := freeAddress()
		if err != nil {
			t.Fatal(err)
		}
		ended := startS3(t, address, dir)
		endpoint := "http://" + address
		if err := awaitS3(t.Context(), endpoint, ended); err == nil {
			return &S3{Endpoint: endpoint, Objects: filepath.Join(dir, "buckets")}
		}
	}
	t.Fatal("no S3 server could be started: see scripts/tool s3-server")
	return nil
}

// buildS3 builds the server, before a port is chosen that is free for a moment only.
func buildS3(t testing.TB) {
	t.Helper()
	if said, _ := s3Command().CombinedOutput(); !strings.Contains(string(said), "usage: s3-server") {
		t.Fatalf("there is no S3 server: %s", said)
	}
}

func s3Command(args ...string) *exec.Cmd {
	_, here, _, _ := runtime.Caller(0)
	return exec.Command(filepath.Join(filepath.Dir(here), "..", "..", "scripts", "tool"), append([]string{"s3-server"}, args...)...) //nolint:gosec,noctx // this repository's; it ends with the test
}

func startS3(t testing.TB, address, dir string) (ended <-chan struct{}) {
	t.Helper()
	cmd := s3Command(address, dir)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+S3Key, "AWS_SECRET_ACCESS_KEY="+S3Secret)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	stdin, err := cmd.StdinPipe() // it ends with the server, or when this process does
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		<-done
		if t.Failed() {
			t.Logf("the S3 server says:\n%s", &log)
		}
	})
	return done
}

func freeAddress() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// awaitS3 waits until the server answers, and not somebody else who was faster to take its port.
func awaitS3(ctx context.Context, url string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, 5*patience)
	defer cancel()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.Header.Get("Server") == "VERSITYGW" {
				return nil
			}
		}
		select {
		case <-ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

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
	"strings"
	"testing"
	"time"
)

// Credentials and region of the test S3 server.
const (
	S3Key    = "AKIDFORTESTS"
	S3Secret = "the-secret-of-tests/which+nothing=prints"
	S3Region = "us-east-1"
)

// S3 is a running S3 server of one test: tools/s3-server.
type S3 struct {
	Endpoint string // URL
	Objects  string // directory: Objects/BUCKET/KEY
}

// StartS3 starts a server with empty buckets that ends with the test. It builds the server if necessary.
func StartS3(t testing.TB, buckets ...string) *S3 {
	t.Helper()
	dir := t.TempDir()
	for _, bucket := range buckets {
		if err := os.MkdirAll(filepath.Join(dir, "buckets", bucket), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	buildS3(t)
	for range 5 { // another process may take the free port first
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

// buildS3 builds the server before a port is chosen, because that port is free only for a moment.
func buildS3(t testing.TB) {
	t.Helper()
	if output, _ := s3Command().CombinedOutput(); !strings.Contains(string(output), "usage: s3-server") {
		t.Fatalf("there is no S3 server: %s", output)
	}
}

func s3Command(args ...string) *exec.Cmd {
	tool := filepath.Join("scripts", "tool") // of the repository that the test runs in: the path of this file is not known with -trimpath
	for range 5 {
		if _, err := os.Stat(tool); err == nil {
			break
		}
		tool = filepath.Join("..", tool)
	}
	return exec.Command(tool, append([]string{"s3-server"}, args...)...) //nolint:gosec,noctx // a script of this repository; it ends with the test
}

func startS3(t testing.TB, address, dir string) (ended <-chan struct{}) {
	t.Helper()
	cmd := s3Command(address, dir)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+S3Key, "AWS_SECRET_ACCESS_KEY="+S3Secret)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	stdin, err := cmd.StdinPipe() // the server ends when it is closed, also by the end of this process
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
			t.Logf("log of the S3 server:\n%s", &log)
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

// awaitS3 waits until the S3 server answers, and not another process that took its port.
func awaitS3(ctx context.Context, url string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, 5*startTimeout)
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

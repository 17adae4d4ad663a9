package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
)

// backupServer serves a backup over a faulty network: truncated, altered or delayed.
func backupServer(t *testing.T, content []byte, send func(w http.ResponseWriter)) *client.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer admin" {
			t.Errorf("asked with %q", got)
		}
		sum := sha256.Sum256(content)
		w.Header().Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
		w.Header().Set("Content-Disposition", `attachment; filename="fleet-r7.db"`)
		w.Header().Set("X-Fleet-Revision", "7")
		send(w)
	}))
	t.Cleanup(srv.Close)
	c, err := client.New(client.Config{URL: srv.URL, Token: "reader", WriteToken: "admin", MaxResponse: 1000, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A backup of any size must arrive complete and unaltered; otherwise Backup returns an error.
func TestBackup(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("content "), 100_000)
	changed := bytes.Clone(content)
	changed[500_000] ^= 1
	for name, test := range map[string]struct {
		send  func(w http.ResponseWriter)
		fails string
	}{
		"whole":     {func(w http.ResponseWriter) { _, _ = w.Write(content) }, ""},
		"changed":   {func(w http.ResponseWriter) { _, _ = w.Write(changed) }, "digest"},
		"too short": {func(w http.ResponseWriter) { _, _ = w.Write(content[:700_000]) }, "digest"},
		"cut off": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "800000")
			_, _ = w.Write(content[:700_000])
			panic(http.ErrAbortHandler)
		}, "the backup is incomplete"},
		"refused": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error":"forbidden","detail":"not yours"}`)
		}, "403"},
		"no digest": {func(w http.ResponseWriter) { w.Header().Del("Content-Digest"); _, _ = w.Write(content) }, "Content-Digest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			var last, of int64
			saved, err := client.Backup(t.Context(), backupServer(t, content, test.send), &got, func(n, all int64) { last, of = n, all })
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Fatalf("%v", err)
				}
				return
			}
			if err != nil || !bytes.Equal(got.Bytes(), content) || saved.Revision != 7 || saved.Name != "fleet-r7.db" ||
				saved.Size != int64(len(content)) || saved.SHA256 != sha256.Sum256(content) || last != saved.Size || of > last {
				t.Fatalf("%+v %v: %d of %d", saved, err, last, of)
			}
		})
	}
}

// The client waits minutes for a server that prepares a backup, but not forever for one that stalls in the middle.
func TestBackupThatStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go func() {
			_, _ = theirs.Read(make([]byte, 4096))
			time.Sleep(10 * time.Minute)
			_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Digest: sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:\r\nX-Fleet-Revision: 7\r\nContent-Length: 100\r\n\r\n")
			for range 50 {
				time.Sleep(20 * time.Second)
				_, _ = theirs.Write([]byte("x"))
			}
		}()
		c, err := client.New(client.Config{URL: "http://fleet.example.com", Retries: -1, Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return ours, nil },
		}})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		var got bytes.Buffer
		_, err = client.Backup(t.Context(), c, &got, nil)
		if err == nil || got.Len() != 50 || time.Since(begun) != 10*time.Minute+50*20*time.Second+client.DefaultTimeout {
			t.Fatalf("%d bytes, %v after %s", got.Len(), err, time.Since(begun))
		}
	})
}

package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// file is a backup's, and whether it was let go of.
type file struct {
	*bytes.Reader
	closed atomic.Bool
	takes  time.Duration // to close it
}

// Close implements io.Closer.
func (f *file) Close() error { time.Sleep(f.takes); f.closed.Store(true); return nil }

func backupOf(content []byte) *server.Backup {
	return &server.Backup{File: &file{Reader: bytes.NewReader(content)}, Name: "fleet-r7.db", Revision: 7}
}

// takes is a server that takes backups in this way.
func takes(backup func(ctx context.Context) (*server.Backup, error)) options {
	return options{serve: serveInMemory, configure: func(c *server.Config) { c.Backup = backup }}
}

func TestBackup(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // more than one piece
	made := backupOf(content)
	w := setupWith(t, options{configure: func(c *server.Config) {
		c.Backup = func(context.Context) (*server.Backup, error) { return made, nil }
	}})
	got := w.get("/backup").want(200)
	sum := sha256.Sum256(content)
	require.True(t, bytes.Equal(content, got.body))
	require.Equal(t, "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":", got.header.Get("Content-Digest"))
	require.Equal(t, `attachment; filename="fleet-r7.db"`, got.header.Get("Content-Disposition"))
	require.Equal(t, "application/vnd.sqlite3", got.header.Get("Content-Type"))
	require.Equal(t, "7", got.header.Get("X-Fleet-Revision"), "of the backup, not of this process")
	require.Empty(t, got.header.Get("Age"))
	require.True(t, made.File.(*file).closed.Load())
}

// A backup has the digests of all tokens, so it needs the role admin, and mode crud.
func TestBackupNeedsAdmin(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, role := range []string{"read", "write"} {
		token := w.issue(fmt.Sprintf(`{"name":%q,"role":%q}`, role, role))
		w.get("/backup", bearer(token.secret)...).problem(403, "forbidden")
	}
	w.get("/backup", bearer(w.issue(pollBody).secret)...).problem(403, "forbidden")
	w.get("/backup", bearer(readToken)...).problem(401, "unauthorized")
	w.get("/backup", "Authorization", "").problem(401, "unauthorized")
	w.get("/backup", bearer(w.issue(`{"name":"a","role":"admin"}`).secret)...).want(200)
	setupWith(t, options{mode: server.ModeReadOnly}).get("/backup").problem(404, "not_found")
}

// A backup is refused if the token was revoked while the backup was made.
func TestBackupByRevokedToken(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		working, proceed := make(chan struct{}), make(chan struct{})
		made := backupOf(nil)
		w := setupWith(t, takes(func(context.Context) (*server.Backup, error) {
			close(working)
			<-proceed
			return made, nil
		}))
		token := w.issue(`{"name":"a","role":"admin"}`)
		answers := make(chan *answer)
		go func() { answers <- w.get("/backup", bearer(token.secret)...) }()
		<-working
		w.delete("/tokens/" + token.id).want(200)
		close(proceed)
		refused := (<-answers).problem(401, "unauthorized")
		require.Empty(t, refused.header.Get("X-Fleet-Revision"))
		require.True(t, made.File.(*file).closed.Load())
	})
}

// One at a time. A disconnected client ends it, and a failed backup is an error; then the next one is made.
func TestBackupNotQueuedBehindPlans(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		fails := errors.New("the disk is full")
		var working atomic.Pointer[chan struct{}]
		w := setupWith(t, takes(func(ctx context.Context) (*server.Backup, error) {
			if block := working.Load(); block != nil {
				close(*block)
				<-ctx.Done() // as the store does
				return nil, ctx.Err()
			}
			return nil, fails
		}))
		begun := make(chan struct{})
		working.Store(&begun)
		ctx, hangUp := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			req := w.request(http.MethodGet, "/backup", "").WithContext(ctx)
			res, err := w.client.Do(req)
			if err == nil {
				_ = res.Body.Close()
			}
		}()
		<-begun
		time.Sleep(2 * time.Minute) // longer than other requests may take
		refused := w.get("/backup").problem(429, "too_many_requests")
		require.Equal(t, "5", refused.header.Get("Retry-After"))
		w.poll(demoPolls + "/namespaces").want(200)
		w.patch(demoCluster, `{"labels":{"a":"b"}}`).want(200)
		hangUp()
		<-ended
		synctest.Wait()
		working.Store(nil)
		w.get("/backup").problem(500, "internal_error")
		fails = fmt.Errorf("reading the log: %w", store.ErrCompacted)
		w.get("/backup").problem(503, "store_unavailable")
		fails = store.ErrUnavailable
		w.get("/backup").problem(503, "store_unavailable")
		forever := make(chan struct{})
		working.Store(&forever)
		w.get("/backup").problem(503, "store_unavailable") // a store that hangs is not waited for for ever
	})
}

// One backup is made at a time for all principals: each may be as large as the store.
func TestBackupsOfTwoPrincipals(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		begun, proceed := make(chan struct{}, 2), make(chan struct{})
		w := setupWith(t, takes(func(context.Context) (*server.Backup, error) {
			begun <- struct{}{}
			<-proceed
			return backupOf([]byte("fleet")), nil
		}))
		one, other := w.issue(`{"name":"one","role":"admin"}`), w.issue(`{"name":"other","role":"admin"}`)
		first, second := make(chan *answer), make(chan *answer)
		go func() { first <- w.get("/backup", bearer(one.secret)...) }()
		<-begun
		go func() { second <- w.get("/backup", bearer(other.secret)...) }()
		synctest.Wait()
		require.Empty(t, begun, "a second backup is made beside the first")
		close(proceed)
		(<-first).want(200)
		(<-second).problem(429, "too_many_requests")
		w.get("/backup", bearer(other.secret)...).want(200)
	})
}

// A client that has received the end of a backup may request the next one at once; the previous one is released.
func TestBackupsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"nothing": 0, "one piece": 128 << 10, "pieces": 3 << 20, "pieces and a byte": 3<<20 + 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				var before *file
				w := setupWith(t, takes(func(context.Context) (*server.Backup, error) {
					require.True(t, before == nil || before.closed.Load())
					made := backupOf(make([]byte, size))
					before = made.File.(*file)
					before.takes = time.Second
					return made, nil
				}))
				for range 3 { // each on a connection of its own
					require.Len(t, w.get("/backup", "Connection", "close").want(200).body, size)
					w.do(http.MethodHead, "/backup", "", "Connection", "close").want(200)
				}
			})
		})
	}
}

// A client that takes a byte per second is let go of, and one that is merely slow is not.
func TestBackupToStalledClient(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at    int // bytes, each second
		whole bool
	}{"stops": {1, false}, "slow": {40 << 10, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				const size = 8 << 20
				made := backupOf(make([]byte, size))
				w := setupWith(t, takes(func(context.Context) (*server.Backup, error) { return made, nil }))
				conn, err := w.http.Listener.(*memory).dial(t.Context())
				require.NoError(t, err)
				defer conn.Close()
				begun := time.Now()
				_, err = io.WriteString(conn, "GET /backup HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+writeToken+"\r\n\r\n")
				require.NoError(t, err)
				taken, piece := 0, make([]byte, test.at)
				for err == nil && taken < size {
					var n int
					n, err = io.ReadFull(conn, piece)
					taken += n
					if n > 0 && taken <= test.at {
						w.get("/backup").problem(429, "too_many_requests")
					}
					time.Sleep(time.Second)
				}
				synctest.Wait()
				if test.whole {
					require.GreaterOrEqual(t, taken, size)
					return
				}
				require.Less(t, taken, size)
				require.Less(t, time.Since(begun), time.Minute)
				require.True(t, made.File.(*file).closed.Load())
				require.NotEqual(t, http.StatusTooManyRequests, w.get("/backup").status)
			})
		})
	}
}

package postgres

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// A connection over which a commit takes many times the idle timeout is slow but healthy: the first load and the follower both
// finish. SLOW_MEGABYTES=60 SLOW_MBITS=10 takes two minutes.
func TestSlowLine(t *testing.T) {
	t.Parallel()
	megabytes, mbits := 4, 8
	for name, value := range map[string]*int{"SLOW_MEGABYTES": &megabytes, "SLOW_MBITS": &mbits} {
		if set := os.Getenv(name); set != "" {
			_, err := fmt.Sscan(set, value)
			require.NoError(t, err)
		}
	}
	url := newDatabase(t)
	p, through := newProxy(t, url)
	writer, reader := openStore(t, Config{URL: url}), openStore(t, Config{URL: through, ReadOnly: true})
	timeout := time.Second
	if megabytes > 20 {
		timeout = 0 // as the server has it
	}
	// follower loads the State and follows the store until ctx ends.
	follower := func() (*store.Replica, error) {
		r := store.NewReplica(store.Config{Store: reader, LoadTimeout: timeout, QueryTimeout: time.Minute})
		return r, r.Load(t.Context())
	}
	first, err := follower()
	require.NoError(t, err)
	p.Set(testrig.Trouble{Rate: bytesPerSecond(mbits)})

	require.NoError(t, writer.Commit(t.Context(), fleet.Head{}, bulk(fleet.Head{}, megabytes*20)))

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(done)
		first.Run(ctx)
	}()
	t.Cleanup(func() { <-done })
	t.Cleanup(cancel)
	waiting, stop := context.WithTimeout(t.Context(), max(time.Minute, time.Duration(megabytes)*8*time.Second/time.Duration(mbits)*2))
	defer stop()
	require.NoError(t, first.WaitFor(waiting, 1), "%v", first.Status().LastError)
	t.Logf("%d MB at %d Mbit/s were followed in %s", megabytes, mbits, time.Since(start).Round(time.Millisecond))
	_, err = follower()
	require.NoError(t, err, "the first load")
}

// bulk is a commit of so many documents of 50 KB.
func bulk(base fleet.Head, documents int) fleet.Commit {
	c := namespace(base, "ns")
	c.Changes = nil
	for i := range documents {
		id := fmt.Sprintf("ns%d", i)
		c.Changes = append(c.Changes, fleet.Change{Kind: fleet.KindNamespace, ID: id, After: fmt.Appendf(nil, `{"id":%q,"labels":{"x":%q}}`, id, noise(i, 50_000))})
	}
	return c
}

// A commit that takes longer than a small one may take comes to its end all the same, and is whole.
// COMMIT_MEGABYTES=300 COMMIT_MBITS=0 commits that much as fast as the machine can.
func TestLargeCommitOnASlowLine(t *testing.T) {
	t.Parallel()
	megabytes, mbits := 16, 10
	for name, value := range map[string]*int{"COMMIT_MEGABYTES": &megabytes, "COMMIT_MBITS": &mbits} {
		if set := os.Getenv(name); set != "" {
			_, err := fmt.Sscan(set, value)
			require.NoError(t, err)
		}
	}
	url := newDatabase(t)
	p, through := newProxy(t, url)
	s := openStore(t, Config{URL: through})
	p.Set(testrig.Trouble{RequestRate: bytesPerSecond(mbits)})
	c := bulk(fleet.Head{}, megabytes*20)
	start := time.Now()
	require.NoError(t, s.Commit(t.Context(), fleet.Head{}, c))
	t.Logf("%d MB at %d Mbit/s were committed in %s", megabytes, mbits, time.Since(start).Round(time.Millisecond))
	p.Set(testrig.Trouble{})
	got, err := s.Since(t.Context(), fleet.Head{}, 1)
	require.NoError(t, err)
	require.Equal(t, c.Changes, got[0].Changes)
}

// noise is incompressible text.
func noise(seed, n int) string {
	b := make([]byte, n)
	x := uint64(seed)*2654435761 + 88172645463325252
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = 'a' + byte(x%26)
	}
	return string(b)
}

// A connection that is cut off after every few megabytes transfers a commit of many times that size: received chunks are not
// requested again. FOLLOW_MEGABYTES=300 FOLLOW_MBITS=10 takes minutes.
func TestLineThatIsCutOff(t *testing.T) {
	t.Parallel()
	megabytes, mbits := 12, 0
	for name, value := range map[string]*int{"FOLLOW_MEGABYTES": &megabytes, "FOLLOW_MBITS": &mbits} {
		if set := os.Getenv(name); set != "" {
			_, err := fmt.Sscan(set, value)
			require.NoError(t, err)
		}
	}
	url := newDatabase(t)
	p, through := newProxy(t, url)
	writer, reader := openStore(t, Config{URL: url}), openStore(t, Config{URL: through, ReadOnly: true})
	r := store.NewReplica(store.Config{Store: reader, MaxBackoff: 100 * time.Millisecond})
	require.NoError(t, r.Load(t.Context()))
	require.NoError(t, writer.Commit(t.Context(), fleet.Head{}, bulk(fleet.Head{}, megabytes*20)))
	before := p.Answered()
	size := int64(megabytes) * 1_000_000
	p.Set(testrig.Trouble{CutAfter: func() int { return max(3_000_000, int(size/30)) }, Rate: bytesPerSecond(mbits)})

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() { <-done })
	t.Cleanup(cancel)
	waiting, stop := context.WithTimeout(t.Context(), max(time.Minute, time.Duration(megabytes)*5*time.Second))
	defer stop()
	require.NoError(t, r.WaitFor(waiting, 1), "%v", r.Status().LastError)
	came := p.Answered() - before
	t.Logf("%d MB were followed in %s, %d MB on the line", megabytes, time.Since(start).Round(time.Millisecond), came/1_000_000)
	require.Less(t, came, 3*size, "what has come is not asked for again")
}

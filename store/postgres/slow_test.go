package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// A line over which a commit takes many times as long as the follower has patience with silence is slow, and nothing else:
// the first load and the following both come to their end. SLOW_MEGABYTES=60 SLOW_MBITS=10 takes two minutes.
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
	patience := time.Second
	if megabytes > 20 {
		patience = 0 // as the server has it
	}
	// follower loads what there is and follows it until ctx ends.
	follower := func() (*store.Replica, error) {
		r := store.NewReplica(store.Config{Store: reader, LoadTimeout: patience, QueryTimeout: time.Minute})
		return r, r.Load(t.Context())
	}
	first, err := follower()
	require.NoError(t, err)
	p.setPace(1024 * 8 * time.Second / time.Duration(mbits*1_000_000))

	c := namespace(fleet.Head{}, "ns0")
	c.Changes = nil
	for i := range megabytes * 20 {
		id := fmt.Sprintf("ns%d", i)
		doc, err := json.Marshal(map[string]any{"id": id, "labels": map[string]string{"x": noise(i, 50_000)}})
		require.NoError(t, err)
		c.Changes = append(c.Changes, fleet.Change{Kind: fleet.KindNamespace, ID: id, After: doc})
	}
	require.NoError(t, writer.Commit(t.Context(), fleet.Head{}, c))

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

// noise is text that nothing compresses.
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

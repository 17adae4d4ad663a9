package poll

import (
	"bytes"
	"compress/gzip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

func answerOf(t *testing.T, body string) *fleet.Answer {
	t.Helper()
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, err := zw.Write([]byte(body))
	require.NoError(t, err)
	require.NoError(t, zw.Close())
	return &fleet.Answer{Gzip: zipped.Bytes(), Size: len(body)}
}

// Used bodies stay, unused ones are dropped, and the size never exceeds the limit.
func TestIdentityCacheBounded(t *testing.T) {
	t.Parallel()
	var p identityCache
	hot := answerOf(t, "hot")
	first, err := p.body(hot)
	require.NoError(t, err)
	padding := strings.Repeat("x", 1<<20)
	for range 3 * maxIdentityBytes >> 20 {
		body, err := p.body(answerOf(t, padding))
		require.NoError(t, err)
		require.Len(t, body, len(padding))
		again, err := p.body(hot)
		require.NoError(t, err)
		require.Equal(t, "hot", string(again))
		require.Same(t, &first[0], &again[0], "it is not unpacked again")
		kept := 0
		for _, generation := range []map[*byte][]byte{p.young, p.old} {
			for _, body := range generation {
				kept += len(body)
			}
		}
		require.LessOrEqual(t, kept, maxIdentityBytes)
	}
	require.Less(t, len(p.young)+len(p.old), 3*maxIdentityBytes>>20)
}

func TestIdentityCacheConcurrent(t *testing.T) {
	t.Parallel()
	var p identityCache
	answers := make([]*fleet.Answer, 8)
	for i := range answers {
		answers[i] = answerOf(t, strings.Repeat(string(rune('a'+i)), 3<<20))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range answers {
				body, err := p.body(answers[i])
				if err != nil || body[0] != byte('a'+i) {
					t.Errorf("%d: %v %.1q", i, err, body)
				}
			}
		})
	}
	wg.Wait()
}

package fleet

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Answers of all sizes are decompressed at once, by readers that other answers have used.
func TestAnswerBody(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for size := range 40 {
		wg.Go(func() {
			text := strings.Repeat("value ", 1<<(size%18))
			a, err := encodeAnswer([]any{text})
			if err != nil {
				t.Error(err)
				return
			}
			body, err := a.Body()
			if err != nil || string(body) != `{"inputs":["`+text+`"]}`+"\n" {
				t.Errorf("size %d: %v, %d bytes", a.Size, err, len(body))
			}
		})
	}
	wg.Wait()
}

// A damaged answer is an error, never a shorter list.
func TestDamagedAnswerBody(t *testing.T) {
	t.Parallel()
	a, err := encodeAnswer([]any{strings.Repeat("value ", 1000)})
	require.NoError(t, err)
	for name, damaged := range map[string]*Answer{
		"shorter than its size": {Gzip: a.Gzip, Size: a.Size + 1},
		"longer than its size":  {Gzip: a.Gzip, Size: a.Size - 1},
		"without its end":       {Gzip: a.Gzip[:len(a.Gzip)-9], Size: a.Size},
		"without its checksum":  {Gzip: a.Gzip[:len(a.Gzip)-8], Size: a.Size},
		"another checksum":      {Gzip: append(a.Gzip[:len(a.Gzip)-8:len(a.Gzip)-8], 1, 2, 3, 4, 5, 6, 7, 8), Size: a.Size},
		"no gzip":               {Gzip: []byte("text"), Size: 4},
		"empty":                 {},
	} {
		_, err := damaged.Body()
		require.Error(t, err, name)
	}
	body, err := a.Body()
	require.NoError(t, err)
	require.Len(t, body, a.Size)
}

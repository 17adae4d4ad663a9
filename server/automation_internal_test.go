package server

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPanicInTask: a task that panics is logged, and runs again. It does not end the process, which answers polls.
func TestPanicInTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		s := &Server{cfg: Config{Logger: slog.New(slog.NewJSONHandler(&logs, nil))}}
		s.metrics = newMetrics(s)
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		s.every(ctx, time.Second, func() {
			s.survive(ctx, "the task of a test", func() {
				if runs++; runs == 3 {
					cancel()
				}
				panic("of a test")
			})
		})
		require.Equal(t, 3, runs)
		require.Equal(t, 3, bytes.Count(logs.Bytes(), []byte(`"doing":"the task of a test","error":"panic: of a test\n`)))
	})
}

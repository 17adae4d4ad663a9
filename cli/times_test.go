package cli

import (
	"testing"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
)

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"90d": 90 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "168h": 168 * time.Hour, "1h30m": 90 * time.Minute, "0d": 0} {
		if got, err := args.DurationFrom("since", text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "-1d", "1.5d", "99999999999999999999d", "36501d", "36500w", "-5h", "soon", "7 d"} {
		if got, err := args.DurationFrom("since", text); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}

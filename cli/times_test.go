package cli

import (
	"testing"
	"time"
)

func TestAges(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]string{
		0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m", 2 * time.Hour: "2h", 47 * time.Hour: "47h", 48 * time.Hour: "2d",
		729 * 24 * time.Hour: "729d", 730 * 24 * time.Hour: "2y", -time.Second: "0s", -48 * time.Hour: "in 2d",
	} {
		if got := ageOf(age); got != want {
			t.Errorf("%s: %q, want %q", age, got, want)
		}
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"90d": 90 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "168h": 168 * time.Hour, "1h30m": 90 * time.Minute, "0d": 0} {
		if got, err := durationFrom("since", text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "-1d", "1.5d", "99999999999999999999d", "36501d", "36500w", "-5h", "soon", "7 d"} {
		if got, err := durationFrom("since", text); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}

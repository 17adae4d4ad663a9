package render

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

package webhooks

import (
	"math/rand/v2"
	"time"
)

// retryWaits are the waits after failed attempts; the last one repeats.
var retryWaits = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour}

// retryWait returns the wait after a number of failed attempts, with a random deviation of 20 percent.
func retryWait(attempts int, r Result) time.Duration {
	wait := retryWaits[min(max(attempts, 1), len(retryWaits))-1]
	wait = time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))
	return max(wait, r.RetryAfter)
}

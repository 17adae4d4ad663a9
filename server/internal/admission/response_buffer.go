package admission

import (
	"sync"

	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// Limits of buffered answers: plans and pages of the history that their clients have not received yet. A plan of 5,000
// clusters takes 90 MiB while it is computed; its answer has 24 MiB, and 0.3 MiB compressed.
const (
	maxBufferedPerPrincipal = 16 << 20               // compressed bytes of one principal; its only answer may be larger
	maxBuffered             = response.MaxCompressed // of all principals
)

// responseBuffer counts the bytes of buffered answers.
type responseBuffer struct {
	mu           sync.Mutex
	perPrincipal map[string]int
	total        int
}

// reserve counts an answer, and returns the function that releases it; nil at a limit.
func (b *responseBuffer) reserve(principal string, size int) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total+size > maxBuffered || b.perPrincipal[principal] > 0 && b.perPrincipal[principal]+size > maxBufferedPerPrincipal {
		return nil
	}
	b.total += size
	b.perPrincipal[principal] += size
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.total -= size
		if b.perPrincipal[principal] -= size; b.perPrincipal[principal] == 0 {
			delete(b.perPrincipal, principal)
		}
	}
}

// Reserve counts a buffered answer of the job, and returns the function that releases it; 429 when the buffer is full.
func (j *Job) Reserve(size int) (release func(), err error) {
	if release = j.queues.responses.reserve(j.principal, size); release == nil {
		return nil, j.queue.busyError("too many answers to " + j.queue.name + " have not been received yet: receive them first, or try again later")
	}
	return release, nil
}

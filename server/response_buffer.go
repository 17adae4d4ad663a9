package server

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Limits of buffered answers: plans and pages of the history that their clients have not received yet. A plan of 5,000
// clusters takes 90 MiB while it is computed; its answer has 24 MiB, and 0.3 MiB compressed.
const (
	maxBufferedPerPrincipal = 16 << 20 // compressed bytes of one principal; its only answer may be larger
	maxBuffered             = 64 << 20 // of all principals, and of one answer
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

// gzipResponse is a buffered answer, compressed with gzip.
type gzipResponse struct{ bytes.Buffer }

// Write implements io.Writer. It fails when the answer exceeds maxBuffered.
func (p *gzipResponse) Write(b []byte) (int, error) {
	if p.Len()+len(b) > maxBuffered {
		return 0, &fleet.Error{Code: fleet.CodeLimitExceeded, Detail: fmt.Sprintf(
			"the answer is larger than %d MiB, compressed: change fewer clusters, or less on each, at a time", maxBuffered>>20)}
	}
	return p.Buffer.Write(b)
}

// encodeResponse encodes a whole answer. It returns the error of stop, which it calls between list items.
func encodeResponse(v any, stop func() error) (*gzipResponse, error) {
	p := &gzipResponse{}
	zw, err := gzip.NewWriterLevel(p, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if err := writeItems(zw, v, stop); err != nil {
		return nil, err
	}
	return p, zw.Close()
}

// sendBuffered ends the job and sends its answer, or returns 429 when the buffer is full.
func (s *Server) sendBuffered(c echo.Context, answer *gzipResponse) error {
	job := requestOf(c).job
	leave := s.responseBuffer.reserve(job.principal, answer.Len())
	if leave == nil {
		return job.queue.busyError("too many answers to " + job.queue.name + " have not been received yet: receive them first, or try again later")
	}
	defer leave()
	return job.send(c, answer)
}

// send ends the job and sends its answer. The request then holds no more than the answer, so a slow client does not delay
// jobs.
func (j *job) send(c echo.Context, answer *gzipResponse) error {
	r := requestOf(c)
	r.state, r.body = nil, nil
	j.leave()
	h := c.Response().Header()
	h[headerContentType], h[headerVary] = contentJSON, varyEncoding
	if acceptsGzip(c.Request()) {
		h[headerContentEncoding], h[headerContentLength] = contentGzip, []string{strconv.Itoa(answer.Len())}
		c.Response().WriteHeader(http.StatusOK)
		_, err := answer.WriteTo(c.Response())
		return err
	}
	plain, err := gzip.NewReader(answer)
	if err != nil {
		return err
	}
	c.Response().WriteHeader(http.StatusOK)
	_, err = plain.WriteTo(c.Response())
	return err
}

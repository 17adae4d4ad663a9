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

// Room for the answers of plans, and for pages of the history, that their clients have not taken yet. A plan of 5,000 clusters
// takes 90 MiB while it is made, is answered by 24 MiB, and those are 0.3 MiB when they are packed.
const (
	maxBufferedPerPrincipal = 16 << 20 // packed bytes of one principal, who may always have one answer that is larger
	maxBuffered             = 64 << 20 // of all together, and the largest answer there is
)

// room is what answers take that are on their way.
type responseBuffer struct {
	mu           sync.Mutex
	perPrincipal map[string]int // by principal
	total        int
}

// take takes room for an answer of so many bytes, and returns how to give it back; nil when there is none.
func (b *responseBuffer) reserve(who string, size int) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total+size > maxBuffered || b.perPrincipal[who] > 0 && b.perPrincipal[who]+size > maxBufferedPerPrincipal {
		return nil
	}
	b.total += size
	b.perPrincipal[who] += size
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.total -= size
		if b.perPrincipal[who] -= size; b.perPrincipal[who] == 0 {
			delete(b.perPrincipal, who)
		}
	}
}

// packed is an answer as it waits for its client, compressed with gzip.
type gzipResponse struct{ bytes.Buffer }

// Write implements io.Writer. It does not let the answer become larger than there is room for.
func (p *gzipResponse) Write(b []byte) (int, error) {
	if p.Len()+len(b) > maxBuffered {
		return 0, &fleet.Error{Code: fleet.CodeLimitExceeded, Detail: fmt.Sprintf(
			"the answer is larger than %d MiB, compressed: change fewer clusters, or less on each, at a time", maxBuffered>>20)}
	}
	return p.Buffer.Write(b)
}

// pack makes an answer as a whole, or ends when stop says so.
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

// deliver ends the job and sends its answer, when there is room for it until the client has taken it.
func (s *Server) sendBuffered(c echo.Context, answer *gzipResponse) error {
	job := requestOf(c).job
	leave := s.responseBuffer.reserve(job.principal, answer.Len())
	if leave == nil {
		return job.queue.busyError("too many answers to " + job.queue.name + " are under way: take those that you asked for, or try again later")
	}
	defer leave()
	return job.send(c, answer)
}

// send ends the job and sends its answer. From here on the request holds nothing but that, so a client that takes its time
// keeps nobody waiting.
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

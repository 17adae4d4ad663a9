package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// streamList answers with a list whose items are computed while they are written: as a whole it may have hundreds of
// megabytes. It ends when the client is gone.
func streamList(c echo.Context, list response.List) error {
	c.Response().Header()[response.HeaderContentType] = response.ContentJSON
	c.Response().WriteHeader(http.StatusOK)
	began, client := time.Now(), &timedWriter{Writer: c.Response()}
	err := response.Write(client, list, c.Request().Context().Err)
	requestOf(c).job.charge(time.Since(began) - client.took)
	return err
}

// sendBuffered ends the job and sends its answer, or returns 429 when the buffer is full.
func (s *Server) sendBuffered(c echo.Context, answer *response.Compressed) error {
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
func (j *job) send(c echo.Context, answer *response.Compressed) error {
	r := requestOf(c)
	r.state, r.body = nil, nil
	j.leave()
	h := c.Response().Header()
	h[response.HeaderContentType], h[response.HeaderVary] = response.ContentJSON, response.VaryEncoding
	if response.AcceptsGzip(c.Request()) {
		h[response.HeaderContentEncoding], h[response.HeaderContentLength] = response.ContentGzip, []string{strconv.Itoa(answer.Len())}
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

package server

import (
	"io"
	"net/http"
	"strconv"

	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/server/internal/openapi"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// streamList answers with a list whose items are computed while they are written: as a whole it may have hundreds of
// megabytes. It ends when the client is gone.
func streamList(c echo.Context, list response.List) error {
	c.Response().Header()[response.HeaderContentType] = response.ContentJSON
	c.Response().WriteHeader(http.StatusOK)
	return requestOf(c).job.ChargeWriting(c.Response(), func(w io.Writer) error {
		return response.Write(w, list, c.Request().Context().Err)
	})
}

// sendBuffered ends the job and sends its answer as JSON, or returns 429 when the buffer is full.
func (s *Server) sendBuffered(c echo.Context, v any) error {
	answer, err := response.Compress(v, requestOf(c).job.Interrupted)
	if err != nil {
		return err
	}
	release, err := requestOf(c).job.Reserve(answer.Len())
	if err != nil {
		return err
	}
	defer release()
	return s.send(c, answer)
}

// send ends the job and sends its answer. The request then holds no more than the answer, so a slow client does not delay
// jobs.
func (s *Server) send(c echo.Context, answer *response.Compressed) error {
	r := requestOf(c)
	r.state, r.body = nil, openapi.Body{}
	r.job.Leave()
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

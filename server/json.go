package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// Headers of this API.
const (
	headerRevision     = "X-Fleet-Revision"
	headerAge          = "Age"
	headerTotalCount   = "X-Total-Count"
	headerChangeReason = "X-Change-Reason"
	headerChangeAuthor = "X-Change-Author"
	headerRemovesFrom  = "X-Fleet-Removes-From"
	headerETag         = "Etag" // the spelling of net/http
	headerIfNoneMatch  = "If-None-Match"
	headerMinRevision  = "X-Fleet-Min-Revision"

	headerVary            = echo.HeaderVary
	headerContentType     = echo.HeaderContentType
	headerContentLength   = echo.HeaderContentLength
	headerContentEncoding = echo.HeaderContentEncoding
)

// formatAge returns an age in whole seconds, for the Age header.
func formatAge(age time.Duration) string { return strconv.FormatInt(int64(age/time.Second), 10) }

func writeJSON(c echo.Context, status int, v any) error {
	h := c.Response().Header()
	if h.Get(echo.HeaderContentType) == "" {
		h.Set(echo.HeaderContentType, "application/json")
	}
	c.Response().Status = status // not written yet, so that an encoding error can still change it
	enc := json.NewEncoder(c.Response())
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// paginate returns the page of a list, and sets the headers with its length and the next page.
func paginate[T any](c echo.Context, items []T, limit, offset *int) []T {
	total, from := len(items), 0
	c.Response().Header().Set(headerTotalCount, strconv.Itoa(total))
	if offset != nil {
		from = min(*offset, total)
	}
	to := total
	if limit != nil && *limit < total-from {
		to = from + *limit
		linkNext(c, url.Values{"limit": {strconv.Itoa(*limit)}, "offset": {strconv.Itoa(to)}})
	}
	return items[from:to]
}

// linkNext sets the Link header to this request with some query parameters changed.
func linkNext(c echo.Context, change url.Values) {
	query := c.Request().URL.Query()
	maps.Copy(query, change)
	c.Response().Header().Set("Link", fmt.Sprintf("<%s?%s>; rel=\"next\"", c.Request().URL.EscapedPath(), query.Encode()))
}

const (
	maxWarnings     = 15
	maxWarningBytes = 250
)

// addWarnings adds Warning headers to a response, as the Kubernetes API does.
func addWarnings(c echo.Context, warnings []string) {
	if extra := len(warnings) - maxWarnings; extra > 0 {
		// Proxies limit the size of headers: warnings must not make a change fail.
		warnings = append(warnings[:maxWarnings:maxWarnings], fmt.Sprintf("and %d more", extra))
	}
	for _, w := range warnings {
		if len(w) > maxWarningBytes {
			w = w[:maxWarningBytes] + "..."
		}
		w = strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '?'
			}
			return r
		}, w)
		c.Response().Header().Add("Warning", "299 - "+strconv.Quote(w))
	}
}

// streamList answers with a list whose items are computed while they are written: as a whole it may have hundreds of
// megabytes. It ends when the client is gone.
func streamList(c echo.Context, list lazyList) error {
	c.Response().Header()[headerContentType] = contentJSON
	c.Response().WriteHeader(http.StatusOK)
	began, client := time.Now(), &timedWriter{Writer: c.Response()}
	err := writeItems(client, list, c.Request().Context().Err)
	requestOf(c).job.charge(time.Since(began) - client.took)
	return err
}

// lazyList is a list of n items, which item computes when they are written.
type lazyList struct {
	n    int
	item func(i int) any
}

// writeItems writes an object or a lazyList as JSON. It calls stop before each item of a list, and returns its error.
func writeItems(w io.Writer, v any, stop func() error) error {
	s := streamer{out: bufio.NewWriterSize(w, 32<<10), interrupted: stop}
	s.enc = json.NewEncoder(&s.item)
	s.enc.SetEscapeHTML(false)
	var err error
	if list, ok := v.(lazyList); ok {
		err = s.writeList(list)
	} else {
		err = s.writeObject(reflect.ValueOf(v))
	}
	if err != nil {
		return err
	}
	if err := s.out.WriteByte('\n'); err != nil {
		return err
	}
	return s.out.Flush()
}

type streamer struct {
	out         *bufio.Writer
	item        bytes.Buffer
	enc         *json.Encoder
	interrupted func() error
}

// writeObject writes the fields of an answer. It omits optional fields that are nil, and no empty ones.
func (s *streamer) writeObject(v reflect.Value) error {
	before := `{"`
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if v.Field(i).Kind() == reflect.Pointer && v.Field(i).IsNil() && options == "omitempty" {
			continue
		}
		if _, err := s.out.WriteString(before + name + `":`); err != nil {
			return err
		}
		before = `,"`
		var err error
		field := v.Field(i)
		if field.Kind() == reflect.Slice && !field.IsNil() {
			err = s.writeList(lazyList{field.Len(), func(i int) any { return field.Index(i).Interface() }})
		} else {
			err = s.writeItem(field.Interface())
		}
		if err != nil {
			return err
		}
	}
	return s.out.WriteByte('}')
}

func (s *streamer) writeList(list lazyList) error {
	if err := s.out.WriteByte('['); err != nil {
		return err
	}
	for i := range list.n {
		if err := s.interrupted(); err != nil {
			return err
		}
		if i > 0 {
			if err := s.out.WriteByte(','); err != nil {
				return err
			}
		}
		if err := s.writeItem(list.item(i)); err != nil {
			return err
		}
	}
	return s.out.WriteByte(']')
}

func (s *streamer) writeItem(v any) error {
	s.item.Reset()
	if err := s.enc.Encode(v); err != nil {
		return err
	}
	_, err := s.out.Write(bytes.TrimSuffix(s.item.Bytes(), []byte("\n")))
	return err
}

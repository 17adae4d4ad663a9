package response

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
)

// WriteJSON answers with a value as JSON. An encoding error is returned before anything is written.
func WriteJSON(c echo.Context, status int, v any) error {
	h := c.Response().Header()
	if h.Get(echo.HeaderContentType) == "" {
		h.Set(echo.HeaderContentType, "application/json")
	}
	c.Response().Status = status // not written yet, so that an encoding error can still change it
	enc := json.NewEncoder(c.Response())
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Page returns the page of a list, and sets the headers with its length and the next page.
func Page[T any](c echo.Context, items []T, limit, offset *int) []T {
	total, from := len(items), 0
	c.Response().Header().Set(HeaderTotalCount, strconv.Itoa(total))
	if offset != nil {
		from = min(*offset, total)
	}
	to := total
	if limit != nil && *limit < total-from {
		to = from + *limit
		LinkNext(c, url.Values{"limit": {strconv.Itoa(*limit)}, "offset": {strconv.Itoa(to)}})
	}
	return items[from:to]
}

// LinkNext sets the Link header to this request with some query parameters changed.
func LinkNext(c echo.Context, change url.Values) {
	query := c.Request().URL.Query()
	maps.Copy(query, change)
	c.Response().Header().Set("Link", fmt.Sprintf("<%s?%s>; rel=\"next\"", c.Request().URL.EscapedPath(), query.Encode()))
}

const (
	maxWarnings     = 15
	maxWarningBytes = 250
)

// AddWarnings adds Warning headers to a response, as the Kubernetes API does.
func AddWarnings(c echo.Context, warnings []string) {
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

// List is a list of N items, which Item computes when they are written.
type List struct {
	N    int
	Item func(i int) any
}

// Write writes an object or a List as JSON. It calls stop before each item of a list, and returns its error.
func Write(w io.Writer, v any, stop func() error) error {
	s := streamer{out: bufio.NewWriterSize(w, 32<<10), interrupted: stop}
	s.enc = json.NewEncoder(&s.item)
	s.enc.SetEscapeHTML(false)
	var err error
	if list, ok := v.(List); ok {
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
		if kind := v.Field(i).Kind(); (kind == reflect.Pointer || kind == reflect.Slice) && v.Field(i).IsNil() && options == "omitempty" {
			continue
		}
		if _, err := s.out.WriteString(before + name + `":`); err != nil {
			return err
		}
		before = `,"`
		var err error
		field := v.Field(i)
		if field.Kind() == reflect.Slice && !field.IsNil() {
			err = s.writeList(List{N: field.Len(), Item: func(i int) any { return field.Index(i).Interface() }})
		} else {
			err = s.writeItem(field.Interface())
		}
		if err != nil {
			return err
		}
	}
	return s.out.WriteByte('}')
}

func (s *streamer) writeList(list List) error {
	if err := s.out.WriteByte('['); err != nil {
		return err
	}
	for i := range list.N {
		if err := s.interrupted(); err != nil {
			return err
		}
		if i > 0 {
			if err := s.out.WriteByte(','); err != nil {
				return err
			}
		}
		if err := s.writeItem(list.Item(i)); err != nil {
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

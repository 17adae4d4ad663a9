package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// streamList answers with a list whose items are made when they are written: as a whole it may be hundreds of megabytes,
// which many would ask for at once. It ends when the client is gone.
func streamList(c echo.Context, list lazyList) error {
	c.Response().Header()[headerContentType] = contentJSON
	c.Response().WriteHeader(http.StatusOK)
	began, client := time.Now(), &timedWriter{Writer: c.Response()}
	err := writeItems(client, list, c.Request().Context().Err)
	requestOf(c).job.charge(time.Since(began) - client.took)
	return err
}

// lazyList is a list whose items are made when they are written.
type lazyList struct {
	n    int
	item func(i int) any
}

// writeItems writes an object or a lazyList as JSON, the items of lists one by one, until stop says otherwise.
func writeItems(w io.Writer, v any, stop func() error) error {
	s := streamer{out: bufio.NewWriterSize(w, 32<<10), stop: stop}
	s.enc = json.NewEncoder(&s.one)
	s.enc.SetEscapeHTML(false)
	var err error
	if list, ok := v.(lazyList); ok {
		err = s.list(list)
	} else {
		err = s.object(reflect.ValueOf(v))
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
	out  *bufio.Writer
	one  bytes.Buffer
	enc  *json.Encoder
	stop func() error
}

// object writes the fields of an answer. It leaves out optional fields that are nil, and no other ones that are empty.
func (s *streamer) object(v reflect.Value) error {
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
			err = s.list(lazyList{field.Len(), func(i int) any { return field.Index(i).Interface() }})
		} else {
			err = s.item(field.Interface())
		}
		if err != nil {
			return err
		}
	}
	return s.out.WriteByte('}')
}

func (s *streamer) list(list lazyList) error {
	if err := s.out.WriteByte('['); err != nil {
		return err
	}
	for i := range list.n {
		if err := s.stop(); err != nil {
			return err
		}
		if i > 0 {
			if err := s.out.WriteByte(','); err != nil {
				return err
			}
		}
		if err := s.item(list.item(i)); err != nil {
			return err
		}
	}
	return s.out.WriteByte(']')
}

func (s *streamer) item(v any) error {
	s.one.Reset()
	if err := s.enc.Encode(v); err != nil {
		return err
	}
	_, err := s.out.Write(bytes.TrimSuffix(s.one.Bytes(), []byte("\n")))
	return err
}

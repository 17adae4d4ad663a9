package jsontext

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
)

// Text is an object or a list that is not parsed. Canonical writes it unchanged.
type Text []byte

// Canonical writes a document in the form that is stored and compared: compact, keys sorted; of numbers Parse returns the form.
func Canonical(v any) (json.RawMessage, error) {
	w := writers.Get().(*writer)
	err := w.value(v)
	text := bytes.Clone(w.text) // of its exact size, since documents stay in memory
	if cap(w.text) <= longestKept {
		w.text, w.keys = w.text[:0], w.keys[:0]
		writers.Put(w)
	}
	return text, err
}

// longestKept is the size in bytes of the largest buffer that is used again.
const longestKept = 1 << 16

var writers = sync.Pool{New: func() any { return new(writer) }}

// MayHaveKey reports whether a text written by Canonical may contain a key. If not, the caller need not parse the text. The
// key must need no escaping. The search omits the key's opening quote, because a search for text that begins with a frequent
// byte takes 60 times as long.
func MayHaveKey(body []byte, key string) bool { return bytes.Contains(body, []byte(key+`"`)) }

// Same reports whether two texts are equal byte by byte.
func Same(a, b json.RawMessage) bool { return bytes.Equal(a, b) }

// writer writes the types that the parser produces, since a change of many documents does little else, and leaves all other
// types to encoding/json.
type writer struct {
	text []byte
	keys []string // of the objects being written, the innermost one's last
}

func (w *writer) value(v any) error {
	switch v := v.(type) {
	case map[string]any:
		return w.object(v)
	case []any:
		return w.array(v)
	case string:
		return w.string(v)
	case Text:
		w.text = append(w.text, v...)
	case bool:
		w.text = strconv.AppendBool(w.text, v)
	case nil:
		w.text = append(w.text, "null"...)
	default:
		return w.encode(v)
	}
	return nil
}

func (w *writer) object(obj map[string]any) error {
	if obj == nil {
		return w.value(nil)
	}
	begin := len(w.keys)
	for k := range obj {
		w.keys = append(w.keys, k)
	}
	end := len(w.keys)
	slices.Sort(w.keys[begin:])
	w.text = append(w.text, '{')
	for i := begin; i < end; i++ {
		if i > begin {
			w.text = append(w.text, ',')
		}
		k := w.keys[i]
		if err := w.string(k); err != nil {
			return err
		}
		w.text = append(w.text, ':')
		if err := w.value(obj[k]); err != nil {
			return err
		}
	}
	w.text, w.keys = append(w.text, '}'), w.keys[:begin]
	return nil
}

func (w *writer) array(items []any) error {
	if items == nil {
		return w.value(nil)
	}
	w.text = append(w.text, '[')
	for i, item := range items {
		if i > 0 {
			w.text = append(w.text, ',')
		}
		if err := w.value(item); err != nil {
			return err
		}
	}
	w.text = append(w.text, ']')
	return nil
}

func (w *writer) string(s string) error {
	if !Plain(s) {
		return w.encode(s)
	}
	w.text = append(append(append(w.text, '"'), s...), '"')
	return nil
}

func (w *writer) encode(v any) error {
	encoded, err := encode(v)
	w.text = append(w.text, encoded...)
	return err
}

// Plain reports whether a string needs no escaping in JSON.
func Plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

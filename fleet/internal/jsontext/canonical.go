package jsontext

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Text is an object or a list that is not taken apart. Canonical writes it as it is.
type Text []byte

// Canonical writes a document as it is stored and compared: compact, keys sorted, numbers as they were written.
func Canonical(v any) (json.RawMessage, error) {
	return appendCanonical(nil, v)
}

// appendCanonical writes what parsed JSON is made of by itself, since a change of many documents does little else, and
// leaves everything else to the encoder.
func appendCanonical(b []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return append(b, "null"...), nil
		}
		b = append(b, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendCanonical(b, k); err != nil {
				return nil, err
			}
			if b, err = appendCanonical(append(b, ':'), v[k]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	case []any:
		if v == nil {
			return append(b, "null"...), nil
		}
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendCanonical(b, item); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case string:
		if Plain(v) {
			return append(append(append(b, '"'), v...), '"'), nil
		}
	case Text:
		return append(b, v...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case nil:
		return append(b, "null"...), nil
	}
	encoded, err := encode(v)
	return append(b, encoded...), err
}

// Plain tells whether a string needs no escape in JSON.
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

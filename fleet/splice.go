package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// A batch changes one field of thousands of documents. Their text is changed where that field stands: to decode and
// write again all the rest would be most of the time it takes.

// member is one field of an object, as it is written.
type member struct {
	key   string
	value json.RawMessage
}

// members cuts the text of an object, which must be valid JSON, into its fields.
func members(text []byte) ([]member, error) {
	cut := elements(text)
	out := make([]member, len(cut))
	for i, m := range cut {
		end := stringEnd(m)
		if !bytes.HasPrefix(m, []byte(`"`)) || end == len(m) {
			return nil, fmt.Errorf("%.40q is not a field of an object", m)
		}
		key := string(m[1 : end-1])
		if !plain(key) {
			if err := json.Unmarshal(m[:end], &key); err != nil {
				return nil, err
			}
		}
		out[i] = member{key, bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(m[end:]), []byte(":")))}
	}
	return out, nil
}

// elements cuts the text of an object or a list, which must be valid JSON, at its commas.
func elements(text []byte) [][]byte {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return nil
	}
	var out [][]byte
	depth, start := 0, 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += stringEnd(text[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth > 0 {
				continue
			}
			if last := bytes.TrimSpace(text[start:i]); len(last) > 0 {
				out = append(out, last)
			}
			return out
		case ',':
			if depth == 1 {
				out = append(out, bytes.TrimSpace(text[start:i]))
				start = i + 1
			}
		}
	}
	return out
}

// stringEnd is where the string that a text begins with ends.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// listOf joins what elements cut.
func listOf(elements [][]byte) json.RawMessage {
	return slices.Concat([]byte("["), bytes.Join(elements, []byte(",")), []byte("]"))
}

// setFields writes an object with some of its fields set, or removed where the new text is nil. Keys that were sorted stay
// so. It uses up the members.
func setFields(all []member, fields map[string]json.RawMessage) (text json.RawMessage, err error) {
	for key, value := range fields {
		all = slices.DeleteFunc(all, func(m member) bool { return m.key == key })
		if value == nil {
			continue
		}
		at := slices.IndexFunc(all, func(m member) bool { return m.key > key })
		if at < 0 {
			at = len(all)
		}
		all = slices.Insert(all, at, member{key, value})
	}
	size := len(`{}`)
	for _, m := range all {
		size += len(m.key) + len(m.value) + len(`"":,`)
	}
	b := append(make([]byte, 0, size), '{') // it is kept: no more than it takes
	for i, m := range all {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendCanonical(b, m.key); err != nil {
			return nil, err
		}
		b = append(append(b, ':'), m.value...)
	}
	return append(b, '}'), nil
}

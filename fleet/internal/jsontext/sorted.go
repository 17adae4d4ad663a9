package jsontext

import (
	"bytes"
	"slices"
)

// Sorted returns the same as Canonical after Decode, for text that our encoder wrote: nearly all of it is unchanged, so only
// the fields of objects are sorted.
func Sorted(body []byte) ([]byte, error) {
	s := sorter{p: parser{body: body, ours: true}, text: make([]byte, 0, len(body)), fields: make([]field, 0, usualFields)}
	if s.peek() == '{' && s.object() && s.p.at == len(body) {
		return s.text, nil
	}
	obj, _, err := Decode(body)
	if err != nil {
		return nil, err
	}
	return Canonical(obj)
}

// usualFields is a capacity that the fields of an object and of those around it rarely exceed.
const usualFields = 24

// sorter rewrites a text. It gives up, by returning false, at anything that needs a decoder.
type sorter struct {
	p      parser
	text   []byte
	fields []field // of the objects being written, the innermost one's last
}

// field is a field of an object: its name with quotes, and the offsets of its value in the text.
type field struct {
	name       []byte
	start, end int
}

func (s *sorter) value() bool {
	switch s.peek() {
	case '{':
		return s.object()
	case '[':
		return s.array()
	case '"':
		text, ok := s.plain()
		s.text = append(s.text, text...)
		return ok
	case 0:
		return false
	default:
		word := s.p.word()
		s.text = append(s.text, word...)
		return word != ""
	}
}

// peek returns the next character; 0 at the end of the text, or at white space, which our encoder does not write.
func (s *sorter) peek() byte {
	if s.p.at >= len(s.p.body) || s.p.body[s.p.at] <= ' ' {
		return 0
	}
	return s.p.body[s.p.at]
}

// plain returns the next string, with its quotes, if it has the form that Canonical writes.
func (s *sorter) plain() ([]byte, bool) {
	text := s.p.body[s.p.at:]
	text = text[:stringEnd(text)]
	s.p.at += len(text)
	return text, len(text) >= 2 && Plain(string(text[1:len(text)-1]))
}

func (s *sorter) object() bool {
	begin, at := len(s.fields), len(s.text)
	s.p.at++
	for s.peek() != '}' {
		if len(s.fields) > begin && !s.skip(',') {
			return false
		}
		if s.peek() != '"' {
			return false
		}
		name, ok := s.plain()
		if !ok || !s.skip(':') {
			return false
		}
		start := len(s.text)
		if !s.value() {
			return false
		}
		s.fields = append(s.fields, field{name, start, len(s.text)})
	}
	s.p.at++
	fields := s.fields[begin:]
	slices.SortFunc(fields, func(a, b field) int { return bytes.Compare(a.name[:len(a.name)-1], b.name[:len(b.name)-1]) })
	values := slices.Clone(s.text[at:])
	s.text = append(s.text[:at], '{')
	for i, f := range fields {
		if i > 0 {
			if bytes.Equal(f.name, fields[i-1].name) {
				return false
			}
			s.text = append(s.text, ',')
		}
		s.text = append(append(s.text, f.name...), ':')
		s.text = append(s.text, values[f.start-at:f.end-at]...)
	}
	s.text, s.fields = append(s.text, '}'), s.fields[:begin]
	return true
}

func (s *sorter) array() bool {
	s.p.at++
	s.text = append(s.text, '[')
	for first := true; s.peek() != ']'; first = false {
		if !first {
			if !s.skip(',') {
				return false
			}
			s.text = append(s.text, ',')
		}
		if !s.value() {
			return false
		}
	}
	s.p.at++
	s.text = append(s.text, ']')
	return true
}

func (s *sorter) skip(c byte) bool {
	ok := s.peek() == c
	s.p.at++
	return ok
}

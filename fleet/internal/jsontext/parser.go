package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of untrusted JSON, far above legitimate use.
const (
	maxJSONProblems = 100
	maxKeyBytes     = 4096
)

var errManyProblems = errors.New("it has more problems than are worth listing")

// parser parses valid JSON only, so it only has to find the ends of values.
type parser struct {
	body     []byte
	at       int   // offset in the body
	path     []any // keys and indices on the way to the current place; a pointer is written only for a problem
	problems []Problem
	ours     bool            // written by Canonical: no checks
	twice    bool            // a key occurs twice
	cut      int             // from this depth on, objects and lists are not parsed; 0: all are
	only     map[string]bool // the fields of objects that are parsed; nil: all
}

// problem records a problem at the current place.
func (p *parser) problem(detail string) error {
	p.problems = append(p.problems, Problem{Pointer: Pointer(p.path...), Detail: detail})
	if len(p.problems) >= maxJSONProblems {
		return errManyProblems
	}
	return nil
}

// value parses the next value.
func (p *parser) value(depth int) (any, error) {
	if depth > maxDepth && !p.ours {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	c := p.next()
	if p.cut > 0 && depth >= p.cut && (c == '{' || c == '[') {
		return p.whole(), nil
	}
	switch c {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		t, err := p.string()
		if err != nil {
			return nil, err
		}
		return t, p.text(t)
	case 't', 'f':
		return p.word() == "true", nil
	case 'n':
		p.word()
		return nil, nil
	default:
		n := json.Number(p.word())
		return p.canonical(n), p.number(n)
	}
}

// next skips white space and returns the following character.
func (p *parser) next() byte {
	for {
		switch c := p.body[p.at]; c {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return c
		}
	}
}

// word reads a number or a literal.
func (p *parser) word() string {
	end := p.at
	for end < len(p.body) && p.body[end] > ' ' && p.body[end] != ',' && p.body[end] != ']' && p.body[end] != '}' {
		end++
	}
	word := string(p.body[p.at:end])
	p.at = end
	return word
}

func (p *parser) string() (string, error) {
	text := p.body[p.at : p.at+stringEnd(p.body[p.at:])]
	p.at += len(text)
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1]), nil
	}
	var s string
	err := json.Unmarshal(text, &s)
	return s, err
}

// whole reads an object or a list without parsing it.
func (p *parser) whole() Text {
	start := p.at
	for depth := 0; ; p.at++ {
		switch p.body[p.at] {
		case '"':
			p.at += stringEnd(p.body[p.at:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				p.at++
				return Text(p.body[start:p.at])
			}
		}
	}
}

// skip advances past the next value.
func (p *parser) skip() {
	switch p.next() {
	case '{', '[':
		p.whole()
	case '"':
		p.at += stringEnd(p.body[p.at:])
	default:
		p.word()
	}
}

// stringEnd returns the end of the string at the start of a text.
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

// more advances to the next item of an object or list, or past its end.
func (p *parser) more(end byte) bool {
	c := p.next()
	if c == ',' {
		p.at++
		c = p.next()
	}
	if c == end {
		p.at++
	}
	return c != end
}

// text refuses characters that YAML, the format of everything on the cluster, cannot carry or would change.
func (p *parser) text(s string) error {
	if p.ours || Plain(s) {
		return nil
	}
	if strings.ContainsRune(s, 0) {
		return p.problem(`must not contain \u0000`)
	}
	if i := strings.IndexFunc(s, notForYAML); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		return p.problem(fmt.Sprintf("must not contain the control character %U", r))
	}
	return nil
}

// notForYAML reports whether YAML cannot carry a character or would change it.
func notForYAML(r rune) bool {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return false
	case r < ' ' || r >= 0x7f && r <= 0x9f:
		return true
	}
	return r == 0xfffe || r == 0xffff || r == 0xfeff
}

func (p *parser) object(depth int) (any, error) {
	obj := map[string]any{}
	p.at++
	for p.more('}') {
		key, err := p.string()
		if err != nil {
			return nil, err
		}
		p.next()
		p.at++ // the colon
		if p.only != nil && !p.only[key] {
			p.skip()
			continue
		}
		if len(key) > maxKeyBytes && !p.ours {
			return nil, fmt.Errorf("it has a key of more than %d bytes", maxKeyBytes)
		}
		p.path = append(p.path, key)
		if _, dup := obj[key]; dup {
			if p.twice = true; !p.ours {
				err = p.problem("the key appears twice")
			}
		}
		if err == nil {
			err = p.text(key)
		}
		if err != nil {
			return nil, err
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		obj[key] = v
		p.path = p.path[:len(p.path)-1]
		if len(obj) == len(p.only) {
			break
		}
	}
	return obj, nil
}

func (p *parser) array(depth int) (any, error) {
	items := []any{}
	p.at++
	for p.more(']') {
		p.path = append(p.path, len(items))
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
		p.path = p.path[:len(p.path)-1]
	}
	return items, nil
}

// canonical writes a number as YAML and JSON encoders write it, so that applying an export changes nothing: 2.0 as 2, 1e6 as
// 1000000, -0 as 0. An integer stays as it is.
func (p *parser) canonical(n json.Number) json.Number {
	if p.ours || !strings.ContainsAny(string(n), ".eE") && n != "-0" {
		return n
	}
	f, err := n.Float64()
	if err != nil { // refused
		return n
	}
	if f == 0 {
		return "0"
	}
	text, err := json.Marshal(f)
	if err != nil {
		return n
	}
	return json.Number(text)
}

// Limits of a number. Validation compares numbers exactly, and an exact 1e-1000000 has a million digits.
const (
	maxNumber   = 64 // characters
	maxExponent = 400
)

// number refuses numbers that other programs would round, or that are too long.
func (p *parser) number(n json.Number) error {
	if p.ours {
		return nil
	}
	if len(n) > maxNumber {
		return p.problem("the number has more than 64 characters; send it as a string")
	}
	if at := strings.IndexAny(string(n), "eE"); at >= 0 {
		switch exponent, err := strconv.Atoi(string(n[at+1:])); {
		case err != nil || exponent > maxExponent:
			return p.problem("the number is too large")
		case exponent < -maxExponent:
			return p.problem("the number is too small")
		}
	}
	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) {
		return p.problem("the number is too large")
	}
	if strings.ContainsAny(string(n), ".eE") {
		if math.Abs(f) >= MaxSafeInteger {
			return p.problem("a number of 2^53 or more would arrive rounded; send it as a string")
		}
		return nil
	}
	if i, err := strconv.ParseInt(string(n), 10, 64); err != nil || i > MaxSafeInteger || i < -MaxSafeInteger {
		return p.problem("an integer above 2^53 would arrive rounded; send it as a string")
	}
	return nil
}

// Decode parses an object that Canonical wrote: Parse without the checks that only untrusted JSON needs. It reports a
// duplicate key, which Canonical never writes.
func Decode(body []byte) (obj map[string]any, twice bool, err error) {
	if !json.Valid(body) {
		return nil, false, errors.New(syntaxError(body))
	}
	p := &parser{body: body, ours: true}
	v, err := p.value(1)
	if err != nil || v == nil {
		return nil, false, err
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, false, errors.New("it is not an object")
	}
	return obj, p.twice, nil
}

// Open parses one level of an object or a list that Canonical wrote: nested objects and lists remain Text. It fails on a
// duplicate key.
func Open(text Text) (any, error) { return OpenFields(text, nil) }

// OpenFields is Open, but of an object it parses only the given fields, unless only is nil.
func OpenFields(text Text, only map[string]bool) (any, error) {
	p := &parser{body: text, ours: true, cut: 2, only: only}
	v, err := p.value(1)
	if err == nil && p.twice {
		err = errors.New("a field is there twice")
	}
	return v, err
}

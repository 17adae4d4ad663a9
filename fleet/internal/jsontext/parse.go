package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the maximum nesting depth of untrusted JSON.
const maxDepth = 64

// MaxSafeInteger is 2^53. Flux Operator reads numbers as 64-bit floats, which cannot distinguish larger integers.
const MaxSafeInteger = 1 << 53

// Problem is one problem of a text: its place (a JSON pointer) and a description.
type Problem struct {
	Pointer, Detail string
	Other           string // another key of the object that is involved, if any
}

// Parse parses untrusted JSON into maps, slices, strings, booleans and json.Number. It reports input that a typed decoder
// would silently repair or round: invalid UTF-8, halves of surrogate pairs, duplicate keys, \u0000, integers above 2^53, and
// nesting deeper than 64.
func Parse(body []byte) (any, []Problem) {
	if problem := malformed(body); problem != nil {
		return nil, []Problem{*problem}
	}
	return (&parser{body: body}).all()
}

// Split parses an object with lists like Parse, but leaves objects and lists inside list items as Text. So a text of any
// size can be processed with few parsed values in memory.
func Split(body []byte) (any, []Problem) {
	if problem := malformed(body); problem != nil {
		return nil, []Problem{*problem}
	}
	return (&parser{body: body, cut: 3}).all()
}

// Parse parses a Text of Split.
func (t Text) Parse() (any, []Problem) { return (&parser{body: t}).all() }

// malformed returns the reason if a text is no JSON. Its values are checked when they are parsed.
func malformed(body []byte) *Problem {
	if !utf8.Valid(body) {
		return &Problem{Detail: "the body is not valid UTF-8"}
	}
	if !json.Valid(body) {
		return &Problem{Detail: "the body is not valid JSON: " + syntaxError(body)}
	}
	return nil
}

// all parses the text, which is valid JSON.
func (p *parser) all() (any, []Problem) {
	v, err := p.value(1)
	if errors.Is(err, errManyProblems) {
		return nil, p.problems
	}
	if err != nil {
		return nil, []Problem{{Detail: "the body is not valid JSON: " + err.Error()}}
	}
	if i := loneSurrogate(p.body); i >= 0 {
		p.problems = append(p.problems, Problem{Detail: fmt.Sprintf("half of a surrogate pair (at byte %d) stands for no character", i)})
	}
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	return v, nil
}

// loneSurrogate finds the first \u escape in valid JSON that is half of a surrogate pair, or returns -1. The decoder
// would put U+FFFD in its place.
func loneSurrogate(body []byte) int {
	unit := func(i int) rune {
		if i+6 > len(body) || body[i] != '\\' || body[i+1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(body[i+2:i+6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	for i := 0; i < len(body); i++ {
		next := bytes.IndexByte(body[i:], '\\')
		if next < 0 {
			return -1
		}
		i += next
		r := unit(i)
		switch {
		case !utf16.IsSurrogate(r):
			i++ // the escaped character
		case utf16.DecodeRune(r, unit(i+6)) == utf8.RuneError:
			return i
		default:
			i += 11
		}
	}
	return -1
}

// syntaxError describes a syntax error of a text.
func syntaxError(body []byte) string {
	var syntax *json.SyntaxError
	var value json.RawMessage
	switch err := json.NewDecoder(bytes.NewReader(body)).Decode(&value); {
	case err == nil:
		return "there is something after the JSON document"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	case errors.As(err, &syntax):
		return fmt.Sprintf("%s (at byte %d)", syntax.Error(), syntax.Offset)
	default:
		return err.Error()
	}
}

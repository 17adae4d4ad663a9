package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep JSON from outside may be nested.
const maxDepth = 64

// ParseJSON reads JSON from outside into maps, slices, strings, booleans and json.Number. It reports what a typed
// decoder would silently repair or round: invalid UTF-8, halves of surrogate pairs, duplicate keys, \u0000, integers
// above 2^53, and nesting deeper than 64.
func ParseJSON(body []byte) (any, error) {
	if !utf8.Valid(body) {
		return nil, Invalid([]Problem{{Pointer: "", Detail: "the body is not valid UTF-8"}})
	}
	p := &jsonParser{dec: json.NewDecoder(bytes.NewReader(body))}
	p.dec.UseNumber()
	v, err := p.value("", 1)
	if err == nil {
		if _, trailing := p.dec.Token(); !errors.Is(trailing, io.EOF) {
			err = errors.New("there is something after the JSON document")
		}
	}
	if err != nil {
		return nil, Invalid([]Problem{{Pointer: "", Detail: "the body is not valid JSON: " + jsonError(err)}})
	}
	if i := loneSurrogate(body); i >= 0 {
		p.problem("", fmt.Sprintf("half of a surrogate pair (at byte %d) stands for no character", i))
	}
	if err := Invalid(p.problems); err != nil {
		return nil, err
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
		if body[i] != '\\' {
			continue
		}
		r := unit(i)
		switch {
		case !utf16.IsSurrogate(r):
			i++ // whatever is escaped
		case utf16.DecodeRune(r, unit(i+6)) == utf8.RuneError:
			return i
		default:
			i += 11
		}
	}
	return -1
}

// ParseObject is ParseJSON for a body that must be an object.
func ParseObject(body []byte) (map[string]any, error) {
	v, err := ParseJSON(body)
	if err != nil {
		return nil, err
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, Invalid([]Problem{{Pointer: "", Detail: "must be a JSON object"}})
	}
	return obj, nil
}

func jsonError(err error) string {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	case errors.As(err, &syntax):
		return fmt.Sprintf("%s (at byte %d)", syntax.Error(), syntax.Offset)
	}
	return err.Error()
}

type jsonParser struct {
	dec      *json.Decoder
	problems []Problem
}

func (p *jsonParser) problem(at, detail string) {
	p.problems = append(p.problems, Problem{Pointer: at, Detail: detail})
}

func (p *jsonParser) value(at string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	tok, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := tok.(type) {
	case json.Delim:
		if t == '{' {
			return p.object(at, depth)
		}
		return p.array(at, depth)
	case string:
		if strings.ContainsRune(t, 0) {
			p.problem(at, `must not contain \u0000`)
		}
		return t, nil
	case json.Number:
		p.number(at, t)
		return t, nil
	}
	return tok, nil
}

func (p *jsonParser) object(at string, depth int) (any, error) {
	obj := map[string]any{}
	for p.dec.More() {
		tok, err := p.dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := tok.(string)
		here := at + pointer(key)
		if _, dup := obj[key]; dup {
			p.problem(here, "the key appears twice")
		}
		if strings.ContainsRune(key, 0) {
			p.problem(here, `a key must not contain \u0000`)
		}
		v, err := p.value(here, depth+1)
		if err != nil {
			return nil, err
		}
		obj[key] = v
	}
	_, err := p.dec.Token()
	return obj, err
}

func (p *jsonParser) array(at string, depth int) (any, error) {
	items := []any{}
	for p.dec.More() {
		v, err := p.value(fmt.Sprintf("%s/%d", at, len(items)), depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	_, err := p.dec.Token()
	return items, err
}

func (p *jsonParser) number(at string, n json.Number) {
	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) {
		p.problem(at, "the number is too large")
		return
	}
	if strings.ContainsAny(string(n), ".eE") {
		return
	}
	if i, err := strconv.ParseInt(string(n), 10, 64); err != nil || i > maxSafeInteger || i < -maxSafeInteger {
		p.problem(at, "an integer above 2^53 would arrive rounded; send it as a string")
	}
}

// decodeOwn reads JSON that canonical wrote: ParseObject without the checks that only JSON from outside needs.
func decodeOwn(body []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var obj map[string]any
	err := dec.Decode(&obj)
	return obj, err
}

// canonical writes a document as it is stored and compared: compact, keys sorted, numbers as they were written.
func canonical(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// mergePatch is RFC 7396: null removes, objects are merged, anything else replaces.
func mergePatch(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	out := make(map[string]any, len(t)+len(p))
	maps.Copy(out, t)
	for k, v := range p {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = mergePatch(out[k], v)
	}
	return out
}

// overlay is the meaning of PUT: fields present and not null replace, the rest stays. Entries of a list that have an
// id keep the fields which the request does not mention, so that a client which knows less than we do loses nothing.
func overlay(stored, request map[string]any) map[string]any {
	out := make(map[string]any, len(stored)+len(request))
	maps.Copy(out, stored)
	for k, v := range request {
		if v == nil {
			continue
		}
		if items, ok := v.([]any); ok {
			v = overlayEntries(out[k], items)
		}
		out[k] = v
	}
	return out
}

func overlayEntries(stored any, items []any) []any {
	before := map[string]map[string]any{}
	list, _ := stored.([]any)
	for _, item := range list {
		if entry, id, ok := entryID(item); ok {
			before[id] = entry
		}
	}
	out := make([]any, len(items))
	for i, item := range items {
		out[i] = item
		entry, id, ok := entryID(item)
		if !ok || before[id] == nil {
			continue
		}
		merged := make(map[string]any, len(entry))
		maps.Copy(merged, before[id])
		maps.Copy(merged, entry)
		out[i] = merged
	}
	return out
}

func entryID(item any) (entry map[string]any, id string, ok bool) {
	entry, ok = item.(map[string]any)
	if !ok {
		return nil, "", false
	}
	id, ok = entry["id"].(string)
	return entry, id, ok
}

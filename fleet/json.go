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
	if !json.Valid(body) {
		return nil, Invalid([]Problem{{Pointer: "", Detail: "the body is not valid JSON: " + syntaxError(body)}})
	}
	p := &jsonParser{body: body}
	v, err := p.value(1)
	if errors.Is(err, errManyProblems) {
		return nil, Invalid(p.problems)
	}
	if err != nil {
		return nil, Invalid([]Problem{{Pointer: "", Detail: "the body is not valid JSON: " + err.Error()}})
	}
	if i := loneSurrogate(body); i >= 0 {
		p.problems = append(p.problems, Problem{Detail: fmt.Sprintf("half of a surrogate pair (at byte %d) stands for no character", i)})
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

// syntaxError says what is wrong with a text that is no JSON.
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

// Limits on JSON from outside, beyond which nobody means well.
const (
	maxJSONProblems = 100
	maxKeyBytes     = 4096
)

var errManyProblems = errors.New("it has more problems than are worth listing")

// jsonParser takes a text apart that is known to be valid JSON, so it need not look for anything but where a value ends.
type jsonParser struct {
	body     []byte
	at       int   // in the body
	path     []any // keys and indices on the way to where we are; a pointer is only written when one is needed
	problems []Problem
	ours     bool // written by canonical: nothing is checked
	twice    bool // a key is there twice
}

// problem notes what is wrong at the present place.
func (p *jsonParser) problem(detail string) error {
	p.problems = append(p.problems, Problem{Pointer: pointer(p.path...), Detail: detail})
	if len(p.problems) >= maxJSONProblems {
		return errManyProblems
	}
	return nil
}

func (p *jsonParser) value(depth int) (any, error) {
	if depth > maxDepth && !p.ours {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	switch c := p.next(); c {
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
		return n, p.number(n)
	}
}

// next skips space and answers the character that follows.
func (p *jsonParser) next() byte {
	for {
		switch c := p.body[p.at]; c {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return c
		}
	}
}

// word reads up to what ends a number or a literal.
func (p *jsonParser) word() string {
	end := p.at
	for end < len(p.body) && p.body[end] > ' ' && p.body[end] != ',' && p.body[end] != ']' && p.body[end] != '}' {
		end++
	}
	word := string(p.body[p.at:end])
	p.at = end
	return word
}

func (p *jsonParser) string() (string, error) {
	text := p.body[p.at : p.at+stringEnd(p.body[p.at:])]
	p.at += len(text)
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1]), nil
	}
	var s string
	err := json.Unmarshal(text, &s)
	return s, err
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

// more steps to the next item of an object or list, or behind its end.
func (p *jsonParser) more(end byte) bool {
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

// text refuses characters that YAML, which everything becomes on the cluster, cannot carry or would change.
func (p *jsonParser) text(s string) error {
	if p.ours || plain(s) {
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

func notForYAML(r rune) bool {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return false
	case r < ' ' || r >= 0x7f && r <= 0x9f:
		return true
	}
	return r == 0xfffe || r == 0xffff || r == 0xfeff
}

func (p *jsonParser) object(depth int) (any, error) {
	obj := map[string]any{}
	p.at++
	for p.more('}') {
		key, err := p.string()
		if err != nil {
			return nil, err
		}
		p.next()
		p.at++ // the colon
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
	}
	return obj, nil
}

func (p *jsonParser) array(depth int) (any, error) {
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

func (p *jsonParser) number(n json.Number) error {
	if p.ours {
		return nil
	}
	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) {
		return p.problem("the number is too large")
	}
	if strings.ContainsAny(string(n), ".eE") {
		if math.Abs(f) >= maxSafeInteger {
			return p.problem("a number of 2^53 or more would arrive rounded; send it as a string")
		}
		return nil
	}
	if i, err := strconv.ParseInt(string(n), 10, 64); err != nil || i > maxSafeInteger || i < -maxSafeInteger {
		return p.problem("an integer above 2^53 would arrive rounded; send it as a string")
	}
	return nil
}

// decodeOwn reads JSON that canonical wrote: ParseObject without the checks that only JSON from outside needs.
func decodeOwn(body []byte) (map[string]any, error) {
	obj, _, err := decodeStored(body)
	return obj, err
}

// decodeStored is decodeOwn that tells whether somebody else has written it, with a key that is there twice.
func decodeStored(body []byte) (obj map[string]any, twice bool, err error) {
	if !json.Valid(body) {
		return nil, false, errors.New(syntaxError(body))
	}
	p := &jsonParser{body: body, ours: true}
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

// canonical writes a document as it is stored and compared: compact, keys sorted, numbers as they were written.
func canonical(v any) (json.RawMessage, error) {
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
		for i, k := range sortedKeys(v) {
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
		if plain(v) {
			return append(append(append(b, '"'), v...), '"'), nil
		}
	case bool:
		return strconv.AppendBool(b, v), nil
	case nil:
		return append(b, "null"...), nil
	}
	encoded, err := encode(v)
	return append(b, encoded...), err
}

// plain tells whether a string needs no escape in JSON.
func plain(s string) bool {
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

// released are the overrides that a PUT releases by leaving them out of an entry, as the reference's clients do: they do
// not send null. What those clients do not know they must not erase.
var released = []string{"oci_tag", "component_path"}

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
		for _, pin := range released {
			delete(merged, pin)
		}
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

// Package strictyaml reads JSON and YAML of people and pipelines, as JSON. It is strict: after a duplicate key, text after the value, or
// the end of a file in the middle of a line, half of the input would otherwise be taken for the whole.
//
//	text ── Truncated? ── Stream: a value for each document ──> JSON
//
// Numbers of JSON stay as written.
package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"sigs.k8s.io/yaml"
)

// ErrDuplicateKey reports a key that an object has twice.
var ErrDuplicateKey = errors.New("is there twice")

// EndMarker is the line that ends a YAML document.
const EndMarker = "..."

// Budget limits what texts take that are not trusted. Reading consumes it.
type Budget struct {
	// Values is the number of values in all texts: lines, list entries and members, counted by their punctuation. Each takes some
	// microseconds.
	Values int
	// DocumentValues is the number of values in one document. Each takes up to 500 bytes of memory until the document is read.
	DocumentValues int
	// Bytes is the size of YAML in which each alias is replaced by what it refers to.
	Bytes int
}

// documentCost is the number of values that take as long as an empty document.
const documentCost = 20

// Stream returns the values of a JSON or YAML stream as JSON, without empty documents. It returns ErrDuplicateKey for a duplicate key.
// The text is trusted, but its aliases must not fill the memory.
func Stream(data []byte) ([]json.RawMessage, error) {
	return (&Budget{math.MaxInt, math.MaxInt, 512 << 20}).Stream(data)
}

// Stream returns the values of a stream as [Stream] does, or an error that is ErrBudget.
func (b *Budget) Stream(data []byte) ([]json.RawMessage, error) {
	before := *b
	parts, err := b.json(data)
	if err == nil || errors.Is(err, ErrDuplicateKey) || errors.Is(err, ErrBudget) { // YAML would lose the precision of large numbers
		return parts, err
	}
	*b = before
	text, err := utf8Text(data)
	if err != nil {
		return nil, err
	}
	parts = nil
	documents := yamlDocuments(text)
	for _, part := range documents {
		converted, err := b.convert(part)
		if err != nil && len(documents) > 1 {
			err = fmt.Errorf("document %d: %w", len(parts)+1, err)
		}
		if err != nil {
			return nil, err
		}
		if string(converted) != "null" {
			parts = append(parts, converted)
		}
	}
	return parts, nil
}

// JSON returns the values of a JSON stream. It returns ErrDuplicateKey for a duplicate key.
func JSON(data []byte) ([]json.RawMessage, error) {
	return (&Budget{math.MaxInt, math.MaxInt, math.MaxInt}).json(data)
}

func (b *Budget) json(data []byte) ([]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var parts []json.RawMessage
	for {
		var part json.RawMessage
		err := dec.Decode(&part)
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err == nil {
			err = b.spendValues(part)
		}
		if err == nil {
			err = uniqueKeys(json.NewDecoder(bytes.NewReader(part)))
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
}

// ErrBudget is the error of a text that exceeds its budget.
var ErrBudget = errors.New("too large")

// spendValues counts the values of a document before it is read. Each has a character that begins it, ends it or separates it.
func (b *Budget) spendValues(text []byte) error {
	n := documentCost
	for _, c := range text {
		switch c {
		case '\n', '\r', ',', ':', '[', '{', '-', '?', '&', '*', '!':
			n++
		}
	}
	switch {
	case n > b.DocumentValues:
		return fmt.Errorf("a document is %w: it has more than %d values; use several documents or files", ErrBudget, b.DocumentValues)
	case n > b.Values:
		return fmt.Errorf("all files together are %w: they have too many values", ErrBudget)
	}
	b.Values -= n
	return nil
}

// uniqueKeys reads one value and returns ErrDuplicateKey for a duplicate key.
func uniqueKeys(dec *json.Decoder) error {
	var path []string // of the value, in reverse
	if err := uniqueKeysBelow(dec, &path); err != nil {
		slices.Reverse(path)
		if errors.Is(err, ErrDuplicateKey) {
			return fmt.Errorf("the key %s %w", strings.TrimPrefix(strings.Join(path, ""), "."), ErrDuplicateKey)
		}
		return err
	}
	return nil
}

// uniqueKeysBelow returns the error in a value, and its path, which only a failure needs.
func uniqueKeysBelow(dec *json.Decoder, path *[]string) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	open, nested := token.(json.Delim)
	if !nested {
		return nil
	}
	seen := map[string]bool{}
	for i := 0; dec.More(); i++ {
		var key string
		if open == '{' {
			token, err := dec.Token()
			if err != nil {
				return err
			}
			if key, _ = token.(string); seen[key] {
				*path = append(*path, step(key))
				return ErrDuplicateKey
			}
			seen[key] = true
		}
		if err := uniqueKeysBelow(dec, path); err != nil {
			if open == '{' {
				*path = append(*path, step(key))
			} else {
				*path = append(*path, fmt.Sprintf("[%d]", i))
			}
			return err
		}
	}
	_, err = dec.Token() // the closing brace
	return err
}

// step returns the notation of a member behind the path of its object.
func step(key string) string {
	if strings.ContainsAny(key, ".[]/ ") {
		return "[" + key + "]"
	}
	return "." + key
}

// utf8Text returns a text with a byte order mark, such as the UTF-16 of Windows PowerShell, as UTF-8.
func utf8Text(data []byte) ([]byte, error) {
	text, _, err := transform.Bytes(unicode.BOMOverride(transform.Nop), data)
	return text, err
}

// convert returns a text that must be one YAML document without duplicate keys as JSON. The library that converts reads only the first
// document and the last of two equal keys, without an error. It takes the keys on, y and 010 for booleans and a number, and lets a merge
// key (<<) override the keys before it: the former are quoted, the latter come first.
func (b *Budget) convert(part string) ([]byte, error) {
	if strings.TrimSpace(part) == "" {
		return []byte("null"), nil
	}
	if err := b.spendValues([]byte(part)); err != nil {
		return nil, err
	}
	dec := goyaml.NewDecoder(strings.NewReader(part))
	var node, rest goyaml.Node
	err := dec.Decode(&node)
	if err == nil {
		if err = dec.Decode(&rest); err == nil {
			err = errors.New("there is text after the end of the document")
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := b.spendBytes(&node); err != nil {
		return nil, err
	}
	changed, err := prepareKeys(&node)
	if err != nil {
		return nil, err
	}
	text := []byte(part)
	if changed {
		if text, err = goyaml.Marshal(&node); err != nil {
			return nil, err
		}
	}
	return yaml.YAMLToJSON(text)
}

// notText matches keys that YAML 1.1 does not read as text.
var notText = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|[-+.]?[0-9][-+0-9a-fox_.:]*)$`)

// prepareKeys quotes such keys in and below a node, moves merge keys to the front and reports whether it changed any. It returns
// ErrDuplicateKey for a duplicate key.
func prepareKeys(node *goyaml.Node) (changed bool, err error) {
	seen := map[string]bool{}
	for i, child := range node.Content {
		if node.Kind == goyaml.MappingNode && i%2 == 0 {
			key := child
			if key.Kind == goyaml.AliasNode {
				key = key.Alias
			}
			if key.Kind == goyaml.ScalarNode && seen[key.Value] {
				return false, fmt.Errorf("line %d: the key %s %w", child.Line, key.Value, ErrDuplicateKey)
			}
			seen[key.Value] = true
			if child.Kind == goyaml.ScalarNode && child.Style == 0 && notText.MatchString(child.Value) {
				child.Tag, child.Style, changed = "!!str", goyaml.DoubleQuotedStyle, true
			}
			if child.Tag == "!!merge" && i > 0 {
				merge := slices.Clone(node.Content[i : i+2])
				copy(node.Content[2:], node.Content[:i])
				copy(node.Content, merge)
				changed = true
			}
		}
	}
	for _, child := range node.Content {
		below, err := prepareKeys(child)
		if err != nil {
			return false, err
		}
		changed = changed || below
	}
	return changed, nil
}

// spendBytes counts the size of a document in which each alias is replaced by what it refers to.
func (b *Budget) spendBytes(root *goyaml.Node) error {
	const open = -1 // the size of a node that is being computed
	sizes := map[*goyaml.Node]int{}
	var size func(node *goyaml.Node) (int, error)
	size = func(node *goyaml.Node) (int, error) {
		if node.Kind == goyaml.AliasNode {
			node = node.Alias
		}
		if node.Anchor != "" {
			known, ok := sizes[node]
			if known == open {
				return 0, fmt.Errorf("line %d: the anchor %s contains itself", node.Line, node.Anchor)
			}
			if ok {
				return known, nil
			}
			sizes[node] = open
		}
		total := len(node.Value) + 4
		for _, child := range node.Content {
			below, err := size(child)
			if err != nil {
				return 0, err
			}
			if total += below; total > b.Bytes {
				return 0, fmt.Errorf("the text is %w: its aliases stand for too much text", ErrBudget)
			}
		}
		if node.Anchor != "" {
			sizes[node] = total
		}
		return total, nil
	}
	total, err := size(root)
	b.Bytes -= total
	return err
}

// Decode decodes JSON; numbers stay as written, as json.Number.
func Decode(raw json.RawMessage) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

// yamlDocuments splits a YAML stream at the markers of document starts and ends, which cannot occur inside a document. The directive of
// the YAML version is left out, because the versions read these files alike, and so is a byte order mark.
func yamlDocuments(data []byte) []string {
	var parts []string
	var part strings.Builder
	blank := true // part has no text yet
	for line := range strings.Lines(string(data)) {
		if rest, ok := marker(line, "---"); ok {
			parts = append(parts, part.String())
			part.Reset()
			line, blank = rest, true
		} else if rest, ok := marker(line, EndMarker); ok {
			parts = append(parts, part.String())
			part.Reset()
			line, blank = rest, true
		} else if blank { // of a file that was joined from others
			if line = strings.TrimPrefix(line, "\ufeff"); strings.HasPrefix(line, "%YAML ") {
				continue
			}
		}
		blank = blank && strings.TrimSpace(line) == ""
		part.WriteString(line)
	}
	return append(parts, part.String())
}

func marker(line, mark string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(line, mark)
	return rest, ok && (rest == "" || strings.ContainsAny(rest[:1], " \t\r\n"))
}

// IsEnd reports whether a line is the marker of a document's end.
func IsEnd(line string) bool {
	_, ok := marker(line, EndMarker)
	return ok
}

// Truncated reports whether YAML may end in the middle of a line: half a line can be valid, such as the role "c" of
// "cluster-admin". Truncated JSON is invalid, and an end marker proves that nothing is missing.
func Truncated(data []byte) bool {
	if text, err := utf8Text(data); err == nil {
		data = text
	}
	if len(data) == 0 || bytes.HasSuffix(data, []byte("\n")) {
		return false
	}
	if _, err := JSON(data); err == nil || errors.Is(err, ErrDuplicateKey) {
		return false
	}
	return !IsEnd(string(data[bytes.LastIndexByte(data, '\n')+1:]))
}

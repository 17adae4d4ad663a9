// Package input reads the JSON and YAML that users supply, as JSON. It is strict: after a duplicate key, text after the value, or the
// end of a file in the middle of a line, half of the input would otherwise be taken for the whole.
//
//	file or argument ── Truncated? ── Stream: a value for each document ──> JSON
//	                                  Object: one object
//	--set, --values  ── HelmValues ──> values by path, as the API takes them
//
// Numbers stay as written. All errors are about the command line.
package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	goyaml "go.yaml.in/yaml/v3"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"sigs.k8s.io/yaml"
)

// ErrDuplicateKey reports a key that an object has twice.
var ErrDuplicateKey = errors.New("is there twice")

// JSON returns the values of a JSON stream. It returns ErrDuplicateKey for a duplicate key.
func JSON(data []byte) ([]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var parts []json.RawMessage
	for {
		var part json.RawMessage
		err := dec.Decode(&part)
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		if err := uniqueKeys(json.NewDecoder(bytes.NewReader(part)), ""); err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
}

// uniqueKeys reads one value and returns ErrDuplicateKey for a duplicate key.
func uniqueKeys(dec *json.Decoder, at string) error {
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
		place := fmt.Sprintf("%s[%d]", at, i)
		if open == '{' {
			token, err := dec.Token()
			if err != nil {
				return err
			}
			key, _ := token.(string)
			if place = strings.TrimPrefix(at+render.Step(key), "."); seen[key] {
				return fmt.Errorf("the key %s %w", place, ErrDuplicateKey)
			}
			seen[key] = true
		}
		if err := uniqueKeys(dec, place); err != nil {
			return err
		}
	}
	_, err = dec.Token() // the closing brace
	return err
}

// Stream returns the values of a JSON or YAML stream as JSON, without empty documents.
func Stream(data []byte) ([]json.RawMessage, error) {
	parts, err := JSON(data)
	if err == nil || errors.Is(err, ErrDuplicateKey) { // YAML would lose the precision of large numbers
		return parts, err
	}
	text, err := utf8Text(data)
	if err != nil {
		return nil, err
	}
	parts = nil
	documents := yamlDocuments(text)
	for _, part := range documents {
		var converted []byte
		document, err := onlyDocument(part)
		if err == nil {
			converted, err = yaml.YAMLToJSON(document)
		}
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

// utf8Text returns a text with a byte order mark, such as the UTF-16 of Windows PowerShell, as UTF-8.
func utf8Text(data []byte) ([]byte, error) {
	text, _, err := transform.Bytes(unicode.BOMOverride(transform.Nop), data)
	return text, err
}

// onlyDocument returns a text that must be one YAML document without duplicate keys, for a conversion that reads only the first
// document and the last of two equal keys, without an error. That conversion takes the keys on, y and 010 for booleans and a number,
// and lets a merge key (<<) override the keys before it: the former are quoted, the latter come first.
func onlyDocument(part string) ([]byte, error) {
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
	changed, err := prepareKeys(&node)
	if err == nil && changed {
		return goyaml.Marshal(&node)
	}
	return []byte(part), err
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

// oneValue returns the value of a file that must contain one.
func oneValue(data []byte) (json.RawMessage, error) {
	parts, err := Stream(data)
	if err == nil && len(parts) != 1 {
		err = fmt.Errorf("it holds %d documents, and must hold one", len(parts))
	}
	if err != nil {
		return nil, err
	}
	return parts[0], nil
}

// Object reads YAML or JSON that holds one object. The source is its name in errors.
func Object(data []byte, source string) (json.RawMessage, error) {
	value, err := oneValue(data)
	if errors.Is(err, ErrDuplicateKey) {
		return nil, args.Errorf("%s: %w", source, err)
	}
	if err != nil {
		return nil, args.Errorf("%s is neither JSON nor YAML of one object: %w", source, err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil || fields == nil {
		return nil, args.Errorf("%s must hold one object of fields", source)
	}
	return value, nil
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
	for line := range strings.Lines(string(data)) {
		if rest, ok := marker(line, "---"); ok {
			parts = append(parts, part.String())
			part.Reset()
			line = rest
		} else if rest, ok := marker(line, render.EndMarker); ok {
			parts = append(parts, part.String())
			part.Reset()
			line = rest
		} else if strings.TrimSpace(part.String()) == "" { // of a file that was joined from others
			if line = strings.TrimPrefix(line, "\ufeff"); strings.HasPrefix(line, "%YAML ") {
				continue
			}
		}
		part.WriteString(line)
	}
	return append(parts, part.String())
}

func marker(line, mark string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(line, mark)
	return rest, ok && (rest == "" || strings.ContainsAny(rest[:1], " \t\r\n"))
}

// ExportTruncated reports whether a YAML stream is certainly truncated: an export without its end.
func ExportTruncated(data []byte) bool {
	if json.Valid(data) {
		return false
	}
	open := false
	for line := range strings.Lines(string(data)) {
		switch _, end := marker(line, render.EndMarker); {
		case strings.TrimRight(line, " \t\r\n") == render.ExportHeader && open:
			return true
		case strings.TrimRight(line, " \t\r\n") == render.ExportHeader:
			open = true
		case end:
			open = false
		}
	}
	return open
}

// SourceName returns the name of a file in messages.
func SourceName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
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
	_, ended := marker(string(data[bytes.LastIndexByte(data, '\n')+1:]), render.EndMarker)
	return !ended
}

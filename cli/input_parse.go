package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	goyaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// Input from users is parsed strictly: after a duplicate key, or text after the value, half of the input would otherwise be taken
// for the whole.

// errTwice reports a duplicate key in an object.
var errTwice = errors.New("is there twice")

// jsonValues returns the values of a JSON stream. It returns errTwice for a duplicate key.
func jsonValues(data []byte) ([]json.RawMessage, error) {
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

// uniqueKeys reads one value and returns errTwice for a duplicate key.
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
				return fmt.Errorf("the key %s %w", place, errTwice)
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

// valuesIn returns the values of a JSON or YAML stream as JSON, without empty documents.
func valuesIn(data []byte) ([]json.RawMessage, error) {
	parts, err := jsonValues(data)
	if err == nil || errors.Is(err, errTwice) { // YAML would lose the precision of large numbers
		return parts, err
	}
	parts = nil
	for _, part := range yamlDocuments(data) {
		if err := checkEndOfInput(part); err != nil {
			return nil, err
		}
		converted, err := yaml.YAMLToJSONStrict([]byte(part))
		if err != nil {
			return nil, err
		}
		if string(converted) != "null" {
			parts = append(parts, converted)
		}
	}
	return parts, nil
}

// checkEndOfInput checks that the text is one YAML document: the conversion reads only the first, without an error.
func checkEndOfInput(part string) error {
	dec := goyaml.NewDecoder(strings.NewReader(part))
	var node goyaml.Node
	err := dec.Decode(&node)
	if err == nil {
		if err = dec.Decode(&node); err == nil {
			err = errors.New("there is text after the end of the document")
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// oneValue returns the value of a file that must contain one.
func oneValue(data []byte) (json.RawMessage, error) {
	parts, err := valuesIn(data)
	if err == nil && len(parts) != 1 {
		err = fmt.Errorf("it holds %s, and must hold one", summarize.Count(len(parts), "document"))
	}
	if err != nil {
		return nil, err
	}
	return parts[0], nil
}

// yamlDocuments splits a YAML stream at the markers of document starts and ends, which cannot occur inside a document.
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
		}
		part.WriteString(line)
	}
	return append(parts, part.String())
}

func marker(line, mark string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(line, mark)
	return rest, ok && (rest == "" || strings.ContainsAny(rest[:1], " \t\r\n"))
}

// exportTruncated reports whether a YAML stream is certainly truncated: an export without its end.
func exportTruncated(data []byte) bool {
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

// input reads a file of JSON or YAML; "-" is standard input.
func (s *session) input(name string) ([]byte, error) {
	data, err := s.environment().Input(name)
	if err != nil {
		return nil, err
	}
	if lastLineTruncated(data) {
		return nil, args.Errorf("%s seems truncated: its last line has no newline, so nothing was read; if it is complete, add a newline", sourceName(name))
	}
	return data, nil
}

// sourceName returns the name of a file in messages.
func sourceName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// lastLineTruncated reports whether YAML may end in the middle of a line: half a line can be valid, such as the role "c" of
// "cluster-admin". Truncated JSON is invalid, and an end marker proves that nothing is missing.
func lastLineTruncated(data []byte) bool {
	if len(data) == 0 || bytes.HasSuffix(data, []byte("\n")) {
		return false
	}
	if _, err := jsonValues(data); err == nil || errors.Is(err, errTwice) {
		return false
	}
	_, ended := marker(string(data[bytes.LastIndexByte(data, '\n')+1:]), render.EndMarker)
	return !ended
}

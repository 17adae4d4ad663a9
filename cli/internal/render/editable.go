package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
)

// Editable returns a JSON object as YAML to edit: with its fields in their order, without the named ones.
func Editable(object json.RawMessage, without []string) ([]byte, error) {
	var doc goyaml.Node
	if err := goyaml.Unmarshal(EscapeForYAML(object), &doc); err != nil { // JSON is YAML
		return nil, err
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != goyaml.MappingNode {
		return nil, errors.New("it is not an object")
	}
	fields := doc.Content[0]
	for i := len(fields.Content) - 2; i >= 0; i -= 2 {
		if slices.Contains(without, fields.Content[i].Value) {
			fields.Content = slices.Delete(fields.Content, i, i+2)
		}
	}
	removeStyle(fields)
	var b bytes.Buffer
	enc := goyaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := errors.Join(enc.Encode(fields), enc.Close())
	return b.Bytes(), err
}

// removeStyle removes the style of JSON, so that values are quoted only where YAML requires it, would have one of lineEnds, or
// would merge the value of a key.
func removeStyle(n *goyaml.Node) {
	if !strings.ContainsAny(n.Value, lineEnds) && n.Value != "<<" {
		n.Style = 0
	}
	for _, child := range n.Content {
		removeStyle(child)
	}
}

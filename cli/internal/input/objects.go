// Package input reads the JSON, YAML and Helm values that users supply. All errors are about the command line.
//
//	file or argument ── Object: one object ──> JSON
//	--set, --values  ── HelmValues ──> values by path, as the API takes them
package input

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
)

// oneValue returns the value of a file that must contain one.
func oneValue(data []byte) (json.RawMessage, error) {
	parts, err := strictyaml.Stream(data)
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
	if errors.Is(err, strictyaml.ErrDuplicateKey) {
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

// SourceName returns the name of a file in messages.
func SourceName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

package input

import (
	"errors"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// HelmValues returns the values of the flags --values, --set, --set-string, --set-json, --set-file and --unset: by path, null to
// remove. flag returns the arguments of a flag, document reads a file of --values, content one of --set-file. Later ones override,
// in helm's order: files, JSON, typed values, strings, contents of files.
func HelmValues(flag func(name string) []string, document, content func(file string) ([]byte, error)) (map[string]any, error) {
	values := map[string]any{}
	for _, name := range flag("values") {
		data, err := document(name)
		if err != nil {
			return nil, err
		}
		if err := flatten(values, data, name); err != nil {
			return nil, err
		}
	}
	for _, kind := range []struct {
		flag string
		read func(value string) (any, error)
	}{
		{"set-json", jsonValue},
		{"set", func(v string) (any, error) { return v, nil }},
		{"set-string", func(v string) (any, error) { return literal(v), nil }},
		{"set-file", func(v string) (any, error) {
			data, err := content(v)
			return literal(string(data)), err
		}},
	} {
		for _, pair := range flag(kind.flag) {
			path, text, ok := cutPath(pair)
			if !ok {
				return nil, args.Errorf("--%s %q is not PATH=VALUE", kind.flag, pair)
			}
			value, err := kind.read(text)
			if err != nil {
				return nil, args.Errorf("--%s %s: %w", kind.flag, path, err)
			}
			values[path] = value
		}
	}
	for _, path := range flag("unset") {
		if _, isSet := values[path]; isSet {
			return nil, args.Errorf("%q is both set and unset", path)
		}
		if path == "" {
			return nil, args.Errorf("--unset needs a path")
		}
		values[path] = nil
	}
	if len(values) == 0 {
		return nil, args.Errorf("nothing to change: use at least one of --set, --set-string, --set-json, --set-file, -f or --unset")
	}
	return values, nil
}

// cutPath splits at the first equals sign that is not escaped.
func cutPath(pair string) (path, value string, ok bool) {
	for i := 0; i < len(pair); i++ {
		switch pair[i] {
		case '\\':
			i++
		case '=':
			return pair[:i], pair[i+1:], i > 0
		}
	}
	return "", "", false
}

// null is the value that removes a chart's default, as with helm. A JSON null in a request removes the value instead.
const null = "null"

func jsonValue(text string) (any, error) {
	parts, err := strictyaml.JSON([]byte(text))
	if errors.Is(err, strictyaml.ErrDuplicateKey) {
		return nil, args.Errorf("%q: %w", text, err)
	}
	if err != nil || len(parts) != 1 {
		return nil, args.Errorf("%q is not JSON", text)
	}
	v, err := strictyaml.Decode(parts[0])
	if err != nil {
		return nil, err
	}
	if v == nil {
		return null, nil
	}
	return stringsLiteral(v), nil
}

// Patch returns a value of Helm values as the API takes it at a path, such that the chart gets exactly this value: null as the string
// "null", and a string quoted if the server would type it. A string with references stays a string with their values.
func Patch(v any) any {
	switch v := v.(type) {
	case nil:
		return null
	case string:
		return literal(v)
	}
	return v
}

// stringsLiteral quotes a JSON or YAML string at the top level, so that it stays a string. It leaves a string with references as it is:
// the server types the result, unless the string has quotes inside. Strings inside lists and objects are never typed.
func stringsLiteral(v any) any {
	if text, ok := v.(string); ok && !variables.In(text) {
		return literal(text)
	}
	return v
}

// literal returns a value that reaches the chart as this very string, or as the result of its references. The server types a string as
// helm --set does, unless it is quoted; it is quoted if typing could change it.
func literal(text string) string {
	switch {
	case text == "":
		return text
	case variables.In(text):
		return `"` + text + `"`
	case strings.ContainsAny(text[:1], "0123456789+-'\""),
		strings.EqualFold(text, "true"), strings.EqualFold(text, "false"), strings.EqualFold(text, "null"):
		return `"` + text + `"`
	}
	return text
}

// flatten adds the leaves of a YAML file to values, by path.
func flatten(values map[string]any, data []byte, source string) error {
	converted, err := oneValue(data)
	if err != nil {
		return args.Errorf("%s is not YAML of one object: %w", source, err)
	}
	root, err := strictyaml.Decode(converted)
	if err != nil {
		return args.Errorf("%s: %w", source, err)
	}
	tree, ok := root.(map[string]any)
	if !ok {
		return args.Errorf("%s must hold one object of values", source)
	}
	return flattenInto(values, "", tree)
}

func flattenInto(values map[string]any, path string, v any) error {
	switch v := v.(type) {
	case nil:
		values[path] = null
		return nil
	case map[string]any:
		if len(v) == 0 {
			break
		}
		for name, child := range v {
			at := EscapeName(name)
			if path != "" {
				at = path + "." + at
			}
			if err := flattenInto(values, at, child); err != nil {
				return err
			}
		}
		return nil
	case []any:
		if len(v) == 0 {
			break
		}
		for i, child := range v {
			if err := flattenInto(values, path+"["+strconv.Itoa(i)+"]", child); err != nil {
				return err
			}
		}
		return nil
	}
	if path != "" { // an empty file sets nothing
		values[path] = stringsLiteral(v)
	}
	return nil
}

// EscapeName escapes a name for use in a value path.
func EscapeName(name string) string { return nameEscapes.Replace(name) }

var nameEscapes = strings.NewReplacer(`\`, `\\`, `.`, `\.`, `[`, `\[`, `,`, `\,`, `=`, `\=`)

package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"k8s.io/client-go/util/jsonpath"
)

// Templates are the formats of -o with a template, as kubectl has them.
var Templates = []string{"jsonpath", "go-template", "custom-columns"}

// Names returns all formats as they are typed.
func Names() []string {
	names := slices.Clone(Formats)
	for _, name := range Templates {
		names = append(names, name+"=…")
	}
	return names
}

// Check returns an error for an invalid format.
func Check(format string) error {
	_, err := compile(format)
	if err == nil && !slices.Contains(Formats, format) && !isTemplate(format) {
		return fmt.Errorf("there is no output format %q; there are %s", format, strings.Join(Names(), ", "))
	}
	return err
}

func isTemplate(format string) bool {
	name, _, given := strings.Cut(format, "=")
	return given && slices.Contains(Templates, name)
}

// printer writes a decoded document.
type printer func(w io.Writer, document any, as Style) error

// compile returns the printer of a template; nil: the format is no template.
func compile(format string) (printer, error) {
	name, text, given := strings.Cut(format, "=")
	if !slices.Contains(Templates, name) {
		return nil, nil
	}
	if !given || text == "" {
		return nil, fmt.Errorf("-o %s needs a template, such as -o %s", name, map[string]string{
			"jsonpath": "jsonpath='{.id}'", "go-template": "go-template='{{.id}}'", "custom-columns": "custom-columns=ID:.id,DNS:.cluster_dns",
		}[name])
	}
	switch name {
	case "jsonpath":
		if _, err := pathOf(text); err != nil {
			return nil, err
		}
		return func(w io.Writer, document any, _ Style) error { return printPath(w, text, document) }, nil
	case "go-template":
		t, err := template.New("output").Parse(text)
		if err != nil {
			return nil, err
		}
		return func(w io.Writer, document any, _ Style) error { return printTemplate(w, t, document) }, nil
	}
	return columns(text)
}

// printTemplate executes a Go template on a document. A template that fails on a list is executed on the list under .items.
func printTemplate(w io.Writer, t *template.Template, document any) error {
	var b bytes.Buffer
	err := t.Execute(&b, document)
	if wrapped, ok := underItems(document, t.Root.String()); ok && err != nil {
		b.Reset()
		err = t.Execute(&b, wrapped)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// underItems wraps a list as kubectl does, for an expression that starts at .items.
func underItems(document any, expression string) (any, bool) {
	list, ok := document.([]any)
	return map[string]any{"items": list}, ok && strings.Contains(expression, ".items")
}

// pathOf compiles a JSONPath of Kubernetes. A field that a document lacks prints nothing. The result can be used once, because its
// execution changes it.
func pathOf(text string) (*jsonpath.JSONPath, error) {
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(text); err != nil {
		return nil, fmt.Errorf("jsonpath %q: %w", text, err)
	}
	return path, nil
}

// columns compiles HEADER:PATH,… into a table with a row for the document, or for each one of a list.
func columns(text string) (printer, error) {
	var header []string
	var paths []*jsonpath.JSONPath
	for column := range strings.SplitSeq(text, ",") {
		name, path, ok := strings.Cut(column, ":")
		if !ok || name == "" || path == "" {
			return nil, fmt.Errorf("custom-columns: %q is not HEADER:PATH, such as ID:.id", column)
		}
		path = strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}")
		if !strings.HasPrefix(path, ".") && !strings.HasPrefix(path, "[") {
			path = "." + path
		}
		compiled, err := pathOf("{" + path + "}")
		if err != nil {
			return nil, err
		}
		header, paths = append(header, name), append(paths, compiled)
	}
	return func(w io.Writer, document any, as Style) error {
		documents, list := document.([]any)
		if !list {
			documents = []any{document}
		}
		t := Table{Header: header}
		for _, doc := range documents {
			row := make([]string, len(paths))
			for i, path := range paths {
				cell, err := cellOf(path, doc)
				if err != nil {
					return err
				}
				row[i] = cell
			}
			t.Rows = append(t.Rows, row)
		}
		t.write(w, as)
		return nil
	}, nil
}

// cellOf joins what a path finds in a document with commas.
func cellOf(path *jsonpath.JSONPath, doc any) (string, error) {
	found, err := path.FindResults(doc)
	if err != nil {
		return "", err
	}
	var cells []string
	for _, values := range found {
		for _, value := range values {
			var b bytes.Buffer
			if err := path.PrintResults(&b, []reflect.Value{value}); err != nil {
				return "", err
			}
			cells = append(cells, b.String())
		}
	}
	if len(cells) == 0 {
		return "<none>", nil
	}
	return strings.Join(cells, ","), nil
}

// writeTemplate writes a document with a template. A template that does not fit the document is an error without output.
func (out Output) writeTemplate(w io.Writer, write printer, as Style) (err error) {
	defer func() { // the library of Kubernetes panics on unexpected values
		if r := recover(); r != nil {
			err = errors.Join(err, fmt.Errorf("the template cannot be used on this: %v", r))
		}
	}()
	encoded, err := JSON(out.Document)
	if err != nil {
		return err
	}
	document, err := Numbers(encoded)
	if err != nil {
		return err
	}
	return write(w, document, as)
}

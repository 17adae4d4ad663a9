package cli

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"text/template"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	sprig "github.com/go-task/slim-sprig/v3"
	"github.com/gosimple/slug"
	"sigs.k8s.io/yaml"
)

// kubeObject is a Kubernetes object.
type kubeObject = map[string]any

// executeTemplate runs a ResourceSet's template on one input, with the delimiters, functions and strictness that Flux
// Operator documents, and answers the objects it made.
func executeTemplate(text string, input map[string]any) ([]kubeObject, error) {
	t, err := template.New("resourcesTemplate").
		Delims("<<", ">>").
		Option("missingkey=error").
		Funcs(templateFunctions()).
		Funcs(template.FuncMap{"inputs": func() any { return input }}).
		Parse(text)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	if err := t.Execute(&b, nil); err != nil {
		return nil, err
	}
	return parseObjects(b.String())
}

var templateFunctions = sync.OnceValue(func() template.FuncMap {
	// A slug is a label's value at most, and is cut between words.
	slug.MaxLength, slug.EnableSmartTruncate = 63, true
	functions := sprig.HermeticTxtFuncMap()
	functions["slugify"] = slug.Make
	functions["mustToYaml"] = toYAML
	functions["toYaml"] = func(v any) string {
		text, err := toYAML(v)
		if err != nil {
			return "" // what the operator does: only mustToYaml fails
		}
		return text
	}
	return functions
})

func toYAML(v any) (string, error) {
	text, err := yaml.Marshal(v)
	return string(text), err
}

// parseObjects reads a stream of YAML documents. Empty ones are left out, lists are taken apart.
func parseObjects(text string) ([]kubeObject, error) {
	var objects []kubeObject
	for _, doc := range splitDocuments(text) {
		obj, err := parseObject(doc)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w in\n%s", err, indent(doc))
		case len(obj) == 0:
			continue
		}
		items, isList := obj["items"].([]any)
		if !isList || !strings.HasSuffix(textAt(obj, "kind"), "List") {
			if err := checkObject(obj); err != nil {
				return nil, fmt.Errorf("%w in\n%s", err, indent(doc))
			}
			objects = append(objects, obj)
			continue
		}
		for _, item := range items {
			if item, ok := item.(kubeObject); ok {
				objects = append(objects, item)
			}
		}
	}
	return objects, nil
}

// splitDocuments cuts at the lines that begin a YAML document.
func splitDocuments(text string) []string {
	var docs []string
	var doc strings.Builder
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "---"); ok {
			if rest = strings.TrimSpace(rest); rest == "" || rest[0] == '#' {
				docs = append(docs, doc.String())
				doc.Reset()
				continue
			}
		}
		doc.WriteString(line)
	}
	return append(docs, doc.String())
}

func parseObject(doc string) (kubeObject, error) {
	asJSON, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		return nil, err
	}
	v, err := render.Numbers(asJSON)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case kubeObject:
		return v, nil
	}
	return nil, errors.New("not an object")
}

func checkObject(obj kubeObject) error {
	switch {
	case textAt(obj, "kind") == "":
		return errors.New("an object without kind")
	case textAt(obj, "apiVersion") == "":
		return errors.New("an object without apiVersion")
	}
	return nil
}

// textAt is the string at a path of an object; "" when there is none.
func textAt(obj kubeObject, path ...string) string {
	for _, name := range path[:len(path)-1] {
		obj, _ = obj[name].(kubeObject)
	}
	s, _ := obj[path[len(path)-1]].(string)
	return s
}

// indent is the beginning of a document for a message.
func indent(doc string) string {
	const most = 20
	lines := strings.Split(strings.TrimRight(doc, "\n"), "\n")
	if len(lines) > most {
		lines = append(lines[:most], "...")
	}
	return "    " + strings.Join(lines, "\n    ")
}

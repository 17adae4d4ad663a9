package objectidentity

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// names collects the objects of a skeleton.
type names struct {
	*skeleton
	direct, others []string // paths
	presence       []string
	written        []string // expressions of identities
	lines          []int    // lines that affect the set of objects
	offset         int      // of the current document's lines
}

// makers are kinds of objects that create other objects: the parts of their spec that name them.
var makers = map[string][]string{
	"HelmRelease":   {"releaseName", "targetNamespace", "storageNamespace", "chart", "chartRef"},
	"Kustomization": {"path", "targetNamespace", "namePrefix", "nameSuffix", "sourceRef"},
	"ResourceSet":   {"resources", "resourcesTemplate", "resourcesTemplateFrom", "inputs"},
}

var separator = regexp.MustCompile(`^---(\s|$)`)

// identity analyzes the YAML documents of the skeleton.
func (s *skeleton) identity() Identity {
	n := &names{skeleton: s}
	var document []string
	lines := strings.Split(string(s.text), "\n")
	for i, line := range lines {
		if !separator.MatchString(line) {
			document = append(document, line)
			continue
		}
		n.document(document)
		document, n.offset = []string{line[3:]}, i
		n.lines = append(n.lines, i)
	}
	n.document(document)
	for _, b := range s.blocks {
		for _, line := range n.lines {
			if !b.empty && b.first <= line && line <= b.last {
				if b.presence {
					n.presence = append(n.presence, b.fields...)
				} else {
					n.others = append(n.others, b.fields...)
				}
				n.written = append(n.written, b.source)
				break
			}
		}
	}
	all := Identity{Fields: served(append(n.others, n.direct...)), Direct: served(n.direct), Names: digest(n.written...)}
	for _, p := range served(n.presence) {
		if !Covers(all.Fields, p) {
			all.Presence = append(all.Presence, p)
		}
	}
	return all
}

// document analyzes one YAML document of the skeleton.
func (n *names) document(lines []string) {
	text := strings.Join(lines, "\n")
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(text), &root); err != nil || hasAlias(&root) {
		n.unclear(text)
		n.lines = append(n.lines, n.offset)
		return
	}
	if len(root.Content) > 0 {
		n.object(root.Content[0])
	}
}

// hasAlias reports whether a node holds an alias: its anchor is elsewhere in the document, so the whole document counts.
func hasAlias(node *yaml.Node) bool {
	return node.Kind == yaml.AliasNode || slices.ContainsFunc(node.Content, hasAlias)
}

// unclear handles text that the analysis does not understand: any output in it may name an object.
func (n *names) unclear(text string) {
	n.written = append(n.written, anonymous(text))
	for _, v := range n.in(text) {
		n.others = append(n.others, v.fields...)
		n.written = append(n.written, v.source)
	}
}

var placeholder = regexp.MustCompile(string(open) + `([0-9]+)` + string(shut))

// anonymous returns a text without the numbers of its outputs.
func anonymous(text string) string {
	return placeholder.ReplaceAllString(text, string(open)+string(shut))
}

// in returns the outputs in a text.
func (n *names) in(text string) []value {
	var out []value
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		if i, err := strconv.Atoi(m[1]); err == nil && i < len(n.outputs) {
			out = append(out, n.outputs[i])
		}
	}
	return out
}

// all returns the scalars in a node, keys included, joined.
func all(node *yaml.Node) string {
	if node.Kind == yaml.ScalarNode {
		return node.Value + "\n"
	}
	var text strings.Builder
	for _, c := range node.Content {
		text.WriteString(all(c))
	}
	return text.String()
}

// object analyzes one object of a document.
func (n *names) object(node *yaml.Node) {
	n.lines = append(n.lines, n.offset+node.Line-1)
	if node.Kind != yaml.MappingNode {
		n.unclear(all(node))
		return
	}
	var kinds []string
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == "kind" {
			kinds = append(kinds, node.Content[i+1].Value)
		}
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case strings.ContainsRune(key.Value, open) || key.Value == "<<":
			n.unclear(all(key) + all(value))
		case key.Value == "apiVersion" || key.Value == "kind":
			n.name(key.Value, value)
		case key.Value == "metadata":
			n.metadata(value)
		case key.Value == "items" && value.Kind == yaml.SequenceNode:
			for _, item := range value.Content {
				n.object(item)
			}
		case key.Value == "items":
			n.unclear(all(value))
		case key.Value == "spec":
			n.spec(kinds, value)
		}
	}
}

// metadata analyzes the name and namespace of an object.
func (n *names) metadata(node *yaml.Node) {
	if node.Kind != yaml.MappingNode {
		n.unclear(all(node))
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		switch key, value := node.Content[i], node.Content[i+1]; {
		case strings.ContainsRune(key.Value, open) || key.Value == "<<":
			n.unclear(all(key) + all(value))
		case key.Value == "name" || key.Value == "namespace" || key.Value == "generateName":
			n.name(key.Value, value)
		}
	}
}

// name handles a value that is part of an object's identity.
func (n *names) name(key string, node *yaml.Node) {
	text := all(node)
	n.lines = append(n.lines, n.offset+node.Line-1)
	n.written = append(n.written, key, anonymous(text))
	for _, v := range n.in(text) {
		n.direct = append(n.direct, v.fields...)
		n.written = append(n.written, v.source)
	}
}

// spec handles objects that create others.
func (n *names) spec(kinds []string, node *yaml.Node) {
	for _, kind := range kinds {
		parts, known := makers[kind]
		if strings.ContainsRune(kind, open) || known && node.Kind != yaml.MappingNode {
			n.unclear(all(node))
			return
		}
		for i := 0; known && i+1 < len(node.Content); i += 2 {
			key := node.Content[i].Value
			for _, part := range parts {
				if key == part || strings.ContainsRune(key, open) {
					n.lines = append(n.lines, n.offset+node.Content[i].Line-1)
					n.unclear(key + "\n" + all(node.Content[i+1]))
					break
				}
			}
		}
	}
}

package render

import (
	"fmt"
	"io"
	"reflect"

	"k8s.io/client-go/util/jsonpath"
)

// printPath prints the matches of a JSONPath template in a document, or in a list under .items. A template without any match is an
// error, because empty output with exit code 0 looks like a result. Of an empty list it prints nothing.
func printPath(w io.Writer, text string, document any) error {
	path, found, err := evaluatePath(text, document)
	if wrapped, ok := underItems(document, text); ok && err == nil && found == nil {
		path, found, err = evaluatePath(text, wrapped)
	}
	if err != nil {
		return err
	}
	if found == nil {
		if list, ok := document.([]any); ok && len(list) == 0 {
			return nil
		}
		return fmt.Errorf("jsonpath %q matches nothing in the output; -o json shows the document", text)
	}
	for _, values := range found {
		if err := path.PrintResults(w, values); err != nil {
			return err
		}
	}
	return nil
}

// evaluatePath returns the matches of each part of a JSONPath template; nil: its expressions match nothing.
func evaluatePath(text string, document any) (*jsonpath.JSONPath, [][]reflect.Value, error) {
	parsed, err := jsonpath.Parse("output", text)
	if err != nil {
		return nil, nil, err
	}
	path, err := pathOf(text)
	if err != nil {
		return nil, nil, err
	}
	found, err := path.FindResults(document)
	if err != nil {
		return nil, nil, err
	}
	texts, expressions := partsOf(parsed.Root)
	matched := -texts // text outside of ranges always matches
	for _, values := range found {
		if len(values) > 0 {
			matched++
		}
	}
	if expressions > 0 && matched <= 0 {
		return path, nil, nil
	}
	return path, found, nil
}

// partsOf counts the parts of a template that are plain text, outside of ranges, and the expressions.
func partsOf(root *jsonpath.ListNode) (texts, expressions int) {
	depth := 0
	for _, node := range root.Nodes {
		switch {
		case beginsWith(node, "range"):
			depth++
			expressions++
		case beginsWith(node, "end"):
			depth--
		case !isText(node):
			expressions++
		case depth == 0:
			texts++
		}
	}
	return texts, expressions
}

func beginsWith(node jsonpath.Node, identifier string) bool {
	list, ok := node.(*jsonpath.ListNode)
	if !ok || len(list.Nodes) == 0 {
		return false
	}
	first, ok := list.Nodes[0].(*jsonpath.IdentifierNode)
	return ok && first.Name == identifier
}

// isText reports whether a node is text, bare or as a quoted literal in braces.
func isText(node jsonpath.Node) bool {
	list, ok := node.(*jsonpath.ListNode)
	if !ok {
		return node.Type() == jsonpath.NodeText
	}
	for _, inner := range list.Nodes {
		if inner.Type() != jsonpath.NodeText {
			return false
		}
	}
	return true
}

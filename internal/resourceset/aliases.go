package resourceset

import (
	"fmt"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
)

// maxExpanded is the maximum size, in bytes, of the documents with aliases in one text after these are expanded.
const maxExpanded = 4 << 20

// checkAliases refuses a document whose aliases expand to much more than their own size, before they are resolved. left is what the
// documents of a text may still expand to.
func checkAliases(document string, left *int) error {
	if !strings.Contains(document, "*") {
		return nil
	}
	var root goyaml.Node
	if err := goyaml.Unmarshal([]byte(document), &root); err != nil {
		return err
	}
	const deepest = 1000
	var expand func(n *goyaml.Node, depth int)
	expand = func(n *goyaml.Node, depth int) {
		if *left -= 1 + len(n.Value); *left < 0 || depth > deepest {
			*left = -1
			return
		}
		if n.Kind == goyaml.AliasNode {
			expand(n.Alias, depth+1)
			return
		}
		for _, child := range n.Content {
			if expand(child, depth+1); *left < 0 {
				return
			}
		}
	}
	if expand(&root, 0); *left < 0 {
		return fmt.Errorf("it is larger than %d MiB, or nested deeper than %d levels, with its aliases resolved", maxExpanded>>20, deepest)
	}
	return nil
}

package summarize

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Served names the inputs and fields that a revision changed, in a history with view=effective. It is empty when it changed none.
func Served(rev api.RevisionSummary) string {
	var texts []string
	for _, list := range slices.Sorted(maps.Keys(rev.Effect)) {
		e := rev.Effect[list]
		for _, added := range e.Added {
			var in struct{ ID string }
			if json.Unmarshal(added, &in) == nil {
				texts = append(texts, "+"+list+"/"+in.ID)
			}
		}
		for _, changed := range e.Changed {
			var fields []string
			for _, f := range changed.Fields {
				fields = append(fields, f.Pointer)
			}
			texts = append(texts, list+"/"+changed.ID+": "+shortList(fields))
		}
		for _, id := range e.Removed {
			texts = append(texts, "-"+list+"/"+id)
		}
		if e.Reordered {
			texts = append(texts, list+": reordered")
		}
	}
	switch rev.Clusters {
	case 0:
		return shortList(texts)
	case 1:
		return "on 1 cluster: " + shortList(texts)
	}
	return fmt.Sprintf("on %d clusters: %s", rev.Clusters, shortList(texts))
}

// shortList joins the first of some texts, and counts the others.
func shortList(texts []string) string {
	const shown = 3
	if more := len(texts) - shown; more > 0 {
		texts = append(slices.Clone(texts[:shown]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

package fleetview

import (
	"encoding/json"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// VariableText returns the text that a reference to a variable becomes.
func VariableText(value api.Variable) string {
	var text string
	if json.Unmarshal(value, &text) != nil { // a number or a boolean
		text = string(value)
	}
	return text
}

// Variables returns variables as NAME=TEXT.
func Variables(variables api.Variables) string {
	out := make([]string, 0, len(variables))
	for _, name := range render.SortedKeys(variables) {
		out = append(out, name+"="+VariableText(variables[name]))
	}
	return strings.Join(out, ",")
}

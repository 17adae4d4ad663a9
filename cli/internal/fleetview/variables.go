package fleetview

import (
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// Variables returns variables as NAME=TEXT.
func Variables(vars api.Variables) string {
	out := make([]string, 0, len(vars))
	for _, name := range render.SortedKeys(vars) {
		text, _ := variables.Text(vars[name]) // the server has checked that it is one
		out = append(out, name+"="+text)
	}
	return strings.Join(out, ",")
}

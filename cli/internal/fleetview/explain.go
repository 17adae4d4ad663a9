package fleetview

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/oapi-codegen/nullable"
)

// Explanation returns the source of each value of inputs as output. document is its JSON.
func Explanation(ex api.Explanation, document json.RawMessage, kindName KindName) render.Output {
	return render.Output{
		Document: document,
		Tables: func() ([]render.Table, error) {
			t := render.Table{Header: []string{"INPUT", "POINTER", "VALUE", "SOURCE", "OVERRIDES", "SOURCE POINTER", "REVISION", "ACTOR"}, Narrow: 5}
			for _, in := range ex.Inputs {
				for _, v := range in.Values {
					var overridden []string
					for _, source := range v.InsteadOf {
						overridden = append(overridden, kindName.source(source)+" "+valueText(source.Value))
					}
					t.Rows = append(t.Rows, []string{
						in.List + "/" + in.ID, v.Pointer, valueText(v.Value), kindName.sources(v), strings.Join(overridden, ", "),
						v.SetBy.Pointer, setInRevision(v.SetBy), v.SetBy.Actor,
					})
				}
			}
			if len(ex.Inputs) == 1 { // the command line names the input, and the column is wide
				t = t.Without(0)
			}
			return []render.Table{t}, nil
		},
		Names: func() ([]string, error) {
			var names []string
			for _, in := range ex.Inputs {
				names = append(names, in.List+"/"+in.ID)
			}
			return names, nil
		},
	}
}

// sources is source, with the text of a value that has references, and what set these.
func (name KindName) sources(v api.ExplainedValue) string {
	if len(v.References) == 0 {
		return name.source(v.SetBy)
	}
	all := []string{name.source(v.SetBy) + " " + valueText(v.SetBy.Value)}
	for _, ref := range v.References {
		all = append(all, ref.Reference+" of "+name.source(ref.SetBy))
	}
	return strings.Join(all, ", ")
}

// source names the document that set a value, and the rollout that changes it for the cluster.
func (name KindName) source(of api.ValueSource) string {
	text := strings.ReplaceAll(name(of.Kind), "_", " ") + "/" + of.ID
	if of.Rollout != "" {
		text += " (rollout/" + of.Rollout + ")"
	}
	return text
}

// setInRevision returns the revision that set a value: "<N" when it is older than N, the oldest revision that the server keeps;
// empty for a default.
func setInRevision(source api.ValueSource) string {
	switch {
	case source.SetBefore > 0:
		return fmt.Sprintf("<%d", source.SetBefore)
	case source.Revision > 0:
		return strconv.FormatInt(source.Revision, 10)
	}
	return ""
}

// valueText returns a value as JSON; empty without a value.
func valueText(value nullable.Nullable[json.RawMessage]) string {
	if value.IsNull() {
		return "null"
	}
	raw, _ := value.Get() // or it is not specified
	return string(raw)
}

package planview

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/rogpeppe/go-internal/diff"
)

// renderedLines is the number of lines for the objects of a group of clusters.
const renderedLines = 60

// Objects has the changes of objects that a plan leads to.
type Objects struct {
	api.RenderedPlan
	Templates string // the file; empty: the shipped ones
}

// ChangesNothing reports whether it is certain that no object changes.
func (p *Objects) ChangesNothing() bool {
	changes := slices.ContainsFunc(p.Clusters, func(c api.RenderedCluster) bool { return len(c.Objects) > 0 })
	return !changes && p.Left == 0 && len(p.Unread) == 0
}

// templatesText names the templates.
func (p *Objects) templatesText() string {
	if p.Templates != "" {
		return "the templates of " + p.Templates
	}
	return "the shipped templates"
}

// objects writes the changes of objects, grouped by clusters with the same changes.
func (w *writer) objects(plan api.Plan, p *Objects) {
	var groups []summarize.Group
	for _, group := range plan.Groups {
		if group.Forgotten {
			g, _ := w.groupOf(group)
			groups = append(groups, g)
		}
	}
	for _, c := range p.Clusters {
		g := summarize.Group{Names: []string{c.Cluster}}
		for _, ch := range c.Objects {
			g.Lines = append(g.Lines, w.objectLines(ch, c.Cluster)...)
		}
		if len(c.Objects) == 0 {
			g.Lines = []summarize.Line{{Text: "(no object differs)"}}
		}
		groups = append(groups, g)
	}
	w.most = renderedLines
	w.groups(summarize.Regroup(groups, w.Full), "cluster")
	w.most = 0
	if p.Left > 0 {
		hint := "; --full renders more"
		if w.Full {
			hint = ""
		}
		w.linef("\n%s were not rendered%s.", summarize.Count(p.Left, "more cluster"), hint)
	}
	for _, list := range p.Unread {
		w.linef("\n%s", render.Printable("No template here reads "+list+": set --templates to one that does."))
	}
}

// objectLines formats the change of an object like diff -u. A created or deleted object is only named, unless all is shown.
func (w *writer) objectLines(ch api.ObjectChange, cluster string) []summarize.Line {
	name := ch.Name
	if own, ok := strings.CutSuffix(name, "-"+cluster); ok {
		name = own + "-CLUSTER" // clusters with the same change become one group
	}
	if ch.Namespace != "" {
		name = ch.Namespace + "/" + name
	}
	name = render.Printable(ch.Kind + " " + name)
	head := map[string]string{
		"create": w.paint(render.Green, "+ "+name),
		"update": w.paint(render.Bold, "~ "+name),
		"delete": w.paint(render.Red, "- "+name+"   REMOVED"),
	}[ch.Action]
	lines := []summarize.Line{{Text: head}}
	if ch.Action != "update" && !w.Full {
		return lines
	}
	hunks := string(diff.Diff("before", objectText(ch.Before), "after", objectText(ch.After)))
	for line := range strings.Lines(hunks) {
		line = strings.TrimRight(render.Printable(strings.TrimSuffix(line, "\n")), " ")
		colour := ""
		switch {
		case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "--- before"), strings.HasPrefix(line, "+++ after"), line == "":
			continue
		case strings.HasPrefix(line, "@@"):
			lines = append(lines, summarize.Line{Text: "    @@", Values: strings.TrimPrefix(line, "@@")})
			continue
		case line[0] == '+':
			colour = render.Green
		case line[0] == '-':
			colour = render.Red
		}
		text, value, valued := strings.Cut(line, ": ")
		if valued {
			value = ": " + value
		}
		lines = append(lines, summarize.Line{Text: "    " + w.paint(colour, text), Values: w.paint(colour, value)})
	}
	return lines
}

// objectText returns an object as YAML; empty for none.
func objectText(obj json.RawMessage) []byte {
	text, err := render.YAML(obj)
	if err != nil {
		return obj
	}
	return text
}

// noEffect writes that a change of inputs changes no object.
func (w *writer) noEffect(plan api.Plan, made *Objects) {
	forgets := slices.ContainsFunc(plan.Groups, func(g api.EffectGroup) bool { return g.Forgotten })
	if plan.Totals.Clusters > 0 && made.ChangesNothing() && !forgets {
		w.linef("%s", w.paint(render.Yellow, fmt.Sprintf("It changes data, but no object on any cluster: %s render the same.", render.Printable(made.templatesText()))))
	}
}

package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/urfave/cli/v2"
)

// renderedLines is the number of lines for the objects of a group of clusters.
const renderedLines = 60

// renderedPlan returns the objects of a plan with --rendered. Without it, objects are compared only if few clusters have changed
// values, and the result is nil unless no object changes: such a change is usually a mistake.
func (s *session) renderedPlan(c *cli.Context, conn client, plan api.Plan, ops []operation) (*renderedPlan, error) {
	most := renderedClusters
	if c.Bool("full") {
		most = 0
	}
	if c.Bool("rendered") {
		made, err := renderer{s}.renderPlan(c, conn, plan, ops, most)
		return &made, err
	}
	t, given := plan.Totals, c.IsSet("templates")
	if !given && (t.Added+t.Removed+t.Removals > 0 || t.Clusters == 0 || t.Clusters > silentlyRendered || !s.printsForPeople(c)) {
		return nil, nil
	}
	made, err := renderer{s}.renderPlan(c, conn, plan, ops, most)
	if err != nil && given {
		return nil, err
	}
	if err != nil || !made.changesNothing() {
		return nil, nil //nolint:nilerr // the plan was asked for, and is good; what it comes to elsewhere could not be found out
	}
	made.Clusters = nil // the plan shows these clusters
	return &made, nil
}

// printsForPeople reports whether a plan is shown as text.
func (s *session) printsForPeople(c *cli.Context) bool {
	format, err := s.format(c)
	return err == nil && (format == "table" || format == "wide")
}

// changesNothing reports whether it is certain that no object changes.
func (p *renderedPlan) changesNothing() bool {
	return p.objects() == 0 && p.Left == 0 && len(p.Unread) == 0
}

// templatesText names the templates.
func (p *renderedPlan) templatesText() string {
	if p.Templates != "" {
		return "the templates of " + p.Templates
	}
	return "the shipped templates"
}

// addTo adds the objects to a plan's document.
func (p *renderedPlan) addTo(document json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(document, &fields); err != nil {
		return nil, err
	}
	raw, err := render.Encode(p)
	if err != nil {
		return nil, err
	}
	fields["rendered"] = raw
	return render.Encode(fields)
}

// objects writes the changes of objects, grouped by clusters with the same changes.
func (w *planWriter) objects(plan api.Plan, p *renderedPlan) {
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
	w.groups(summarize.Regroup(groups, w.wide), "cluster")
	w.most = 0
	if p.Left > 0 {
		w.linef("\n%s were not rendered; --full renders all.", summarize.Count(p.Left, "more cluster"))
	}
	for _, list := range p.Unread {
		w.linef("\n%s", render.Printable("No template here reads "+list+": set --templates to one that does."))
	}
}

// objectLines formats the change of an object like diff -u. A created or deleted object is only named, unless all is shown.
func (w *planWriter) objectLines(ch objectChange, cluster string) []summarize.Line {
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
	if ch.Action != "update" && !w.wide {
		return lines
	}
	hunks := string(diff.Diff("before", []byte(ch.was), "after", []byte(ch.is)))
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
		lines = append(lines, summarize.Line{Text: "    " + w.shade(colour, text), Values: w.shade(colour, value)})
	}
	return lines
}

// shade paints text, unless the color is empty.
func (w *planWriter) shade(colour, text string) string {
	if colour == "" || text == "" {
		return text
	}
	return w.paint(colour, text)
}

// noEffect writes that a change of inputs changes no object.
func (w *planWriter) noEffect(plan api.Plan, made *renderedPlan) {
	forgets := slices.ContainsFunc(plan.Groups, func(g api.EffectGroup) bool { return g.Forgotten })
	if plan.Totals.Clusters > 0 && made.changesNothing() && !forgets {
		w.linef("%s", w.paint(render.Yellow, fmt.Sprintf("It changes data, but no object on any cluster: %s render the same.", render.Printable(made.templatesText()))))
	}
}

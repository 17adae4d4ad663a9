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

// renderedLines is how many lines are shown of what becomes of the objects of a group of clusters.
const renderedLines = 60

// rendered is a plan as objects, if that is asked for. If it is not, they are compared where few clusters receive other values
// of what they have, and nil is answered unless nothing comes of that: such a change is made by mistake more often than not.
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
	made.Clusters = nil // they are shown as they are planned
	return &made, nil
}

// readByPerson tells whether a plan is shown as text.
func (s *session) printsForPeople(c *cli.Context) bool {
	format, err := s.format(c)
	return err == nil && (format == "table" || format == "wide")
}

// idle tells whether no object differs, and that is known of all clusters.
func (p *renderedPlan) changesNothing() bool {
	return p.objects() == 0 && p.Left == 0 && len(p.Unread) == 0
}

// with are the templates, for people.
func (p *renderedPlan) templatesText() string {
	if p.Templates != "" {
		return "the templates of " + p.Templates
	}
	return "the shipped templates"
}

// planned adds the objects to a plan's document.
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

// objects writes how objects differ, clusters on which they do so alike together.
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
		w.linef("\n%s were not rendered; --full renders all.", count(p.Left, "more cluster"))
	}
	for _, list := range p.Unread {
		w.linef("\n%s", render.Printable("No template here reads "+list+": --templates gives one that does."))
	}
}

// objectLines are an object and, in the manner of diff -u, how it differs. One that comes or goes is only named, unless all is
// to be shown.
func (w *planWriter) objectLines(ch objectChange, cluster string) []summarize.Line {
	name := ch.Name
	if own, ok := strings.CutSuffix(name, "-"+cluster); ok {
		name = own + "-CLUSTER" // so that clusters with the same are one group
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

// shade paints what has a colour.
func (w *planWriter) shade(colour, text string) string {
	if colour == "" || text == "" {
		return text
	}
	return w.paint(colour, text)
}

// nothingComes says that a change of inputs changes no object.
func (w *planWriter) noEffect(plan api.Plan, made *renderedPlan) {
	forgets := slices.ContainsFunc(plan.Groups, func(g api.EffectGroup) bool { return g.Forgotten })
	if plan.Totals.Clusters > 0 && made.changesNothing() && !forgets {
		w.linef("%s", w.paint(render.Yellow, fmt.Sprintf("It changes data, but no object on any cluster: %s render the same.", render.Printable(made.templatesText()))))
	}
}

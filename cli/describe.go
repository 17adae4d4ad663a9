package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s clusterCommands) describeCommand() *cli.Command {
	return &cli.Command{
		Name: "describe", Usage: "Show a cluster, what it runs of each component, and its last changes, for people",
		ArgsUsage: "NAME",
		Action: func(c *cli.Context) error {
			args, err := arguments(c, "NAME")
			if err != nil {
				return err
			}
			conn, err := s.ready(c)
			if err != nil {
				return err
			}
			text, document, err := s.describe(c, conn, args[0])
			if err != nil {
				return err
			}
			out := render.Output{
				Document: document, Text: func(bool) string { return text },
				Names: func() ([]string, error) { return []string{clusters.name + "/" + args[0]}, nil },
			}
			if !c.IsSet("output") {
				return s.printAs(c, "table", out)
			}
			return s.print(c, out)
		},
	}
}

func (s clusterCommands) describe(c *cli.Context, conn client, id string) (string, json.RawMessage, error) {
	a, err := receive(conn.GetCluster(c.Context, id, nil))
	if err != nil {
		return "", nil, err
	}
	var doc api.Cluster
	if err := a.decode(&doc); err != nil {
		return "", nil, err
	}
	polled, err := receive(conn.PollPlatformComponents(c.Context, doc.ClusterDNS, nil))
	if err != nil {
		return "", nil, err
	}
	var inputs struct{ Inputs []api.FluxPlatformComponent }
	if err := polled.decode(&inputs); err != nil {
		return "", nil, err
	}
	changed, err := receive(conn.GetClusterHistory(c.Context, id, nil, query(url.Values{"limit": {"5"}})))
	var history []api.RevisionSummary
	if err == nil {
		err = changed.decode(&history)
	}
	if err != nil {
		return "", nil, err
	}
	has, err := s.effectiveOf(c, conn, a)
	if err != nil {
		return "", nil, err
	}
	by, err := s.saidBy(c, conn, id)
	if err != nil {
		return "", nil, err
	}
	w := planWriter{paint: func(code, text string) string { return s.paint(s.env.StdoutTerminal, code, text) }}
	w.cluster(has, inputs.Inputs, by)
	w.history(history, s.width())
	return w.b.String(), a.body, nil
}

// effectiveOf is what a cluster has of which the document is known; of an older server that is all there is.
func (s clusterCommands) effectiveOf(c *cli.Context, conn client, document answer) (api.Cluster, error) {
	var own, has api.Cluster
	if err := document.decode(&own); err != nil {
		return own, err
	}
	a, err := s.effective(c, conn, own.ID)
	if apiclient.ErrorCode(err) == "validation_error" {
		return own, nil
	}
	if err == nil {
		err = a.decode(&has)
	}
	has.Excludes = own.Excludes
	return has, err
}

// sayers are who says the values of inputs: by list and id, and by pointer.
type sayers map[string]map[string]api.Saying

// saidBy asks who says what of a cluster; an older server does not tell.
func (s clusterCommands) saidBy(c *cli.Context, conn client, id string) (sayers, error) {
	a, err := receive(conn.ExplainCluster(c.Context, id, nil))
	if lacksRoute(c.Context, conn, err) {
		return nil, nil
	}
	var ex api.Explanation
	if err == nil {
		err = a.decode(&ex)
	}
	by := sayers{}
	for _, in := range ex.Inputs {
		of := map[string]api.Saying{}
		for _, v := range in.Values {
			of[v.Pointer] = v.SaidBy
		}
		by[in.List+"/"+in.ID] = of
	}
	return by, err
}

// origin is " from layer/ID" for what only layers give.
func (b sayers) origin(list, id string) string {
	if say := b[list+"/"+id]["/id"]; say.Kind == layers.kind {
		return " from " + shortSaying(say)
	}
	return ""
}

// settings are who says something else than the catalog about a component: its own, or the layers.
func (b sayers) settings(id string) []string {
	var by []string
	for _, pointer := range []string{"/component_version", "/source/oci_tag", "/component_path", "/values_from"} {
		if name := sayerName(b[components.inputs.name+"/"+id][pointer]); name != "" && !slices.Contains(by, name) {
			by = append(by, name)
		}
	}
	return by
}

// patches are how many values each says that are not the catalog's.
func (b sayers) patches(id string) []string {
	counts := map[string]int{}
	for pointer, say := range b[components.inputs.name+"/"+id] {
		if name := sayerName(say); name != "" && strings.HasPrefix(pointer, "/patches/") {
			counts[name]++
		}
	}
	var by []string
	for _, name := range render.SortedKeys(counts) {
		by = append(by, fmt.Sprintf("%d %s", counts[name], name))
	}
	return by
}

func sayerName(say api.Saying) string {
	switch say.Kind {
	case clusters.kind:
		return "its own"
	case layers.kind:
		return shortSaying(say)
	}
	return ""
}

// cluster writes a cluster, what it runs of each component, and who says so.
func (w *planWriter) cluster(doc api.Cluster, components []api.FluxPlatformComponent, by sayers) {
	field := func(name, value string) { w.linef("%-14s %s", name+":", render.Printable(first(value, "-"))) }
	field("Name", doc.ID)
	field("DNS name", doc.ClusterDNS)
	field("Environment", doc.Environment)
	field("Labels", pairs(doc.Labels))
	field("Protected", strconv.FormatBool(doc.DeletionProtection))
	if len(doc.Layers) > 0 {
		field("Layers", strings.Join(doc.Layers, ", "))
	}
	field("Revision", fmt.Sprintf("%d, %s", doc.Revision, when(doc.UpdatedAt)))
	w.linef("Components:")
	w.components(components, by)
	var spaces, bindings []string
	for _, ref := range doc.Namespaces {
		spaces = append(spaces, ref.ID+by.origin("namespaces", ref.ID))
	}
	for _, ref := range doc.Rolebindings {
		bindings = append(bindings, ref.ID+by.origin("rolebindings", ref.ID))
	}
	field("Namespaces", strings.Join(spaces, ", "))
	field("Role bindings", strings.Join(bindings, ", "))
	for _, id := range render.SortedKeys(doc.Resources) {
		var names []string
		for _, ref := range doc.Resources[id] {
			names = append(names, ref.ID+by.origin(id, ref.ID))
		}
		field(id, strings.Join(names, ", "))
	}
	if x := doc.Excludes; x != nil {
		names := slices.Concat(x.Namespaces, x.Rolebindings)
		for _, id := range render.SortedKeys(x.Resources) {
			names = append(names, x.Resources[id]...)
		}
		field("Excludes", strings.Join(names, ", "))
	}
}

// components writes what a cluster runs, in columns: what, how, at which version, and what is particular about it.
func (w *planWriter) components(components []api.FluxPlatformComponent, by sayers) {
	rows := make([][3]string, len(components))
	var widths [3]int
	for i, in := range components {
		version := in.ComponentVersion
		if in.Source.OCITag != "latest" {
			version += ", tag " + in.Source.OCITag
		}
		if says := by.settings(in.ID); len(says) > 0 {
			version += fmt.Sprintf(" (%s)", strings.Join(says, ", "))
		}
		rows[i] = [3]string{render.Printable(in.ID), render.Printable(in.Type), render.Printable(version)}
		for n, cell := range rows[i] {
			widths[n] = max(widths[n], utf8.RuneCountInString(cell))
		}
	}
	for i, in := range components {
		var notes []string
		if !in.Enabled {
			notes = append(notes, w.paint(render.Yellow, "disabled"))
		}
		if from := by.origin("platform-components", in.ID); from != "" {
			notes = append(notes, render.Printable(strings.TrimSpace(from)))
		}
		if says := by.patches(in.ID); len(says) > 0 {
			notes = append(notes, "patches: "+render.Printable(strings.Join(says, ", ")))
		}
		var line strings.Builder
		for n, cell := range rows[i] {
			line.WriteString(cell + strings.Repeat(" ", widths[n]-utf8.RuneCountInString(cell)+3))
		}
		w.linef("  %s", strings.TrimRight(line.String()+strings.Join(notes, ", "), " "))
	}
}

// history writes the last changes of something, cut to lines of so many characters; 0: any number.
func (w *planWriter) history(revisions []api.RevisionSummary, width int) {
	w.linef("Last changes:")
	var number, name int
	for _, rev := range revisions {
		number = max(number, len(strconv.FormatInt(rev.Revision, 10)))
		name = max(name, utf8.RuneCountInString(render.Printable(who(rev))))
	}
	for _, rev := range revisions {
		line := fmt.Sprintf("  %-*d   %s   %-*s   %s", number, rev.Revision, when(rev.At), name, render.Printable(who(rev)), render.Printable(what(rev)))
		if width > 0 {
			line = render.Cut(line, width)
		}
		w.linef("%s", line)
	}
}

package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/exclusions"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s clusterCommands) describeCommand() *cli.Command {
	return &cli.Command{
		Name: "describe", Usage: "Show a cluster with its components, other entries and last changes",
		ArgsUsage: "NAME",
		Action: func(c *cli.Context) error {
			operands, err := arguments(c, "NAME")
			if err != nil {
				return err
			}
			conn, err := s.connect(c)
			if err != nil {
				return err
			}
			text, document, err := s.describe(c, conn, operands[0])
			if err != nil {
				return err
			}
			out := render.Output{
				Document: document, Text: func(bool) string { return text },
				Names: func() ([]string, error) { return []string{clusters.name + "/" + operands[0]}, nil },
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
	effective, err := s.effectiveOf(c, conn, id, a.body)
	if err != nil {
		return "", nil, err
	}
	by, err := s.loadOrigins(c, conn, id)
	if err != nil {
		return "", nil, err
	}
	w := describer{paint: func(code, text string) string { return s.paint(s.env.StdoutTerminal, code, text) }}
	if err := w.cluster(definitions(), a.body, effective, inputs.Inputs, by); err != nil {
		return "", nil, err
	}
	w.history(history, s.width())
	return w.b.String(), a.body, nil
}

// effectiveOf returns a cluster's document with the entries of its layers; of an older server, the document.
func (s clusterCommands) effectiveOf(c *cli.Context, conn client, id string, document json.RawMessage) (json.RawMessage, error) {
	a, err := s.effectiveCluster(c, conn, id)
	if apiclient.ErrorCode(err) == "validation_error" {
		return document, nil
	}
	return a.body, err
}

// describer writes the text about a cluster.
type describer struct {
	b     strings.Builder
	paint func(code, text string) string
}

func (w *describer) linef(format string, args ...any) {
	_, _ = fmt.Fprintf(&w.b, format+"\n", args...)
}

// valueOrigins are the documents that set values of inputs: by list and id, and by pointer.
type valueOrigins map[string]map[string]api.ValueSource

// loadOrigins requests the origins of a cluster's values; nil from an older server.
func (s clusterCommands) loadOrigins(c *cli.Context, conn client, id string) (valueOrigins, error) {
	a, err := receive(conn.ExplainCluster(c.Context, id, nil))
	if lacksRoute(c.Context, conn, err) {
		return nil, nil
	}
	var ex api.Explanation
	if err == nil {
		err = a.decode(&ex)
	}
	by := valueOrigins{}
	for _, in := range ex.Inputs {
		of := map[string]api.ValueSource{}
		for _, v := range in.Values {
			of[v.Pointer] = v.SaidBy
		}
		by[in.List+"/"+in.ID] = of
	}
	return by, err
}

// origin is " from layer/ID" for an entry that only layers assign.
func (b valueOrigins) origin(list, id string) string {
	if source := b[list+"/"+id]["/id"]; source.Kind == layers.kind {
		return " from " + shortOrigin(source)
	}
	return ""
}

// settings returns the origins of a component's settings other than the catalog: the cluster or its layers.
func (b valueOrigins) settings(id string) []string {
	var by []string
	for _, pointer := range []string{"/component_version", "/source/oci_tag", "/component_path", "/values_from"} {
		if name := originName(b[components.inputs.name+"/"+id][pointer]); name != "" && !slices.Contains(by, name) {
			by = append(by, name)
		}
	}
	return by
}

// patches counts the values of each origin other than the catalog.
func (b valueOrigins) patches(id string) []string {
	counts := map[string]int{}
	for pointer, source := range b[components.inputs.name+"/"+id] {
		if name := originName(source); name != "" && strings.HasPrefix(pointer, "/patches/") {
			counts[name]++
		}
	}
	var by []string
	for _, name := range render.SortedKeys(counts) {
		by = append(by, fmt.Sprintf("%d %s", counts[name], name))
	}
	return by
}

func originName(source api.ValueSource) string {
	switch source.Kind {
	case clusters.kind:
		return "its own"
	case layers.kind:
		return shortOrigin(source)
	}
	return ""
}

// cluster writes a cluster with its components, then its entries of all other kinds with the layers that assign them. own is its
// document, effective the document with the entries of its layers.
func (w *describer) cluster(kinds []documentKind, own, effective json.RawMessage, inputs []api.FluxPlatformComponent, by valueOrigins) error {
	var doc api.Cluster
	if err := json.Unmarshal(effective, &doc); err != nil {
		return fmt.Errorf("unexpected response of the server: %w", err)
	}
	excluded, err := exclusions.Read(own)
	if err != nil {
		return err
	}
	field := func(name, value string) { w.linef("%-14s %s", name+":", render.Printable(firstNonEmpty(value, "-"))) }
	field("Name", doc.ID)
	field("DNS name", doc.ClusterDNS)
	field("Environment", doc.Environment)
	field("Labels", render.Labels(doc.Labels))
	field("Protected", strconv.FormatBool(doc.DeletionProtection))
	if len(doc.Layers) > 0 {
		field("Layers", strings.Join(doc.Layers, ", "))
	}
	field("Revision", fmt.Sprintf("%d, %s", doc.Revision, render.Time(doc.UpdatedAt)))
	w.linef("Components:")
	w.components(inputs, by)
	for _, n := range kinds {
		if n.kind == components.kind {
			continue
		}
		entries, err := n.entries(effective)
		if err != nil {
			return err
		}
		ids := make([]string, len(entries))
		for i, entry := range entries {
			if err := json.Unmarshal(entry["id"], &ids[i]); err != nil {
				return fmt.Errorf("unexpected response of the server: %w", err)
			}
			ids[i] += by.origin(n.inputs.name, ids[i])
		}
		field(strings.ToUpper(n.plural[:1])+n.plural[1:], strings.Join(ids, ", "))
	}
	for _, id := range render.SortedKeys(doc.Resources) {
		var names []string
		for _, ref := range doc.Resources[id] {
			names = append(names, ref.ID+by.origin(id, ref.ID))
		}
		field(id, strings.Join(names, ", "))
	}
	if ids := excluded.IDs(); len(ids) > 0 {
		field("Excludes", strings.Join(ids, ", "))
	}
	return nil
}

// components writes a cluster's components in columns: name, state, version, and settings that differ from the catalog.
func (w *describer) components(components []api.FluxPlatformComponent, by valueOrigins) {
	rows := make([][3]string, len(components))
	var widths [3]int
	for i, in := range components {
		version := in.ComponentVersion
		if in.Source.OCITag != "latest" {
			version += ", tag " + in.Source.OCITag
		}
		if sources := by.settings(in.ID); len(sources) > 0 {
			version += fmt.Sprintf(" (%s)", strings.Join(sources, ", "))
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
		if sources := by.patches(in.ID); len(sources) > 0 {
			notes = append(notes, "patches: "+render.Printable(strings.Join(sources, ", ")))
		}
		var line strings.Builder
		for n, cell := range rows[i] {
			line.WriteString(cell + strings.Repeat(" ", widths[n]-utf8.RuneCountInString(cell)+3))
		}
		w.linef("  %s", strings.TrimRight(line.String()+strings.Join(notes, ", "), " "))
	}
}

// history writes the latest revisions, cut to lines of width characters; 0: unlimited.
func (w *describer) history(revisions []api.RevisionSummary, width int) {
	w.linef("Last changes:")
	var number, name int
	for _, rev := range revisions {
		number = max(number, len(strconv.FormatInt(rev.Revision, 10)))
		name = max(name, utf8.RuneCountInString(render.Printable(planview.Author(rev))))
	}
	for _, rev := range revisions {
		line := fmt.Sprintf("  %-*d   %s   %-*s   %s", number, rev.Revision, render.Time(rev.At), name, render.Printable(planview.Author(rev)), render.Printable(planview.Summary(rev, nameOfKind)))
		if width > 0 {
			line = render.Cut(line, width)
		}
		w.linef("%s", line)
	}
}

package fleetview

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Description is the content of the text about a cluster.
type Description struct {
	Cluster  api.Cluster // with the entries of its layers
	Entries  []Entries   // of all kinds but components
	Excluded []string    // ids that the cluster excludes
	Inputs   []api.FluxPlatformComponent
	Origins  Origins
	History  []api.RevisionSummary // the latest

	KindName KindName
	Paint    func(code, text string) string // colors text with a code of package render
	Width    int                            // of lines of the history, in characters; 0: unlimited
}

// Entries are a cluster's entries of one kind.
type Entries struct {
	Title string   // of the kind
	List  string   // as clusters poll it
	IDs   []string // in the order of the cluster
}

// String formats the description: the cluster with its components, then its entries of all other kinds with the layers that assign
// them, and its latest revisions.
func (d Description) String() string {
	w := describer{paint: d.Paint}
	w.cluster(d)
	w.history(d.History, d.KindName, d.Width)
	return w.b.String()
}

// describer writes the text about a cluster.
type describer struct {
	b     strings.Builder
	paint func(code, text string) string
}

func (w *describer) linef(format string, args ...any) {
	_, _ = fmt.Fprintf(&w.b, format+"\n", args...)
}

const listComponents = "platform-components"

// Origins are the documents that set values of inputs: by list and id, and by pointer.
type Origins map[string]map[string]api.ValueSource

// OriginsOf returns the origins of all values in an explanation.
func OriginsOf(ex api.Explanation) Origins {
	by := Origins{}
	for _, in := range ex.Inputs {
		of := map[string]api.ValueSource{}
		for _, v := range in.Values {
			of[v.Pointer] = v.SetBy
		}
		by[in.List+"/"+in.ID] = of
	}
	return by
}

// origin is " from layer/ID" for an entry that only layers assign.
func (b Origins) origin(list, id string) string {
	if source := b[list+"/"+id]["/id"]; source.Kind == "layer" {
		return " from layer/" + source.ID
	}
	return ""
}

// settings returns the origins of a component's settings other than the catalog: the cluster or its layers.
func (b Origins) settings(id string) []string {
	var by []string
	for _, pointer := range []string{"/component_version", "/source/oci_tag", "/source/oci_digest", "/component_path", "/values_from", "/images"} {
		if name := originName(b[listComponents+"/"+id][pointer]); name != "" && !slices.Contains(by, name) {
			by = append(by, name)
		}
	}
	for _, pointer := range render.SortedKeys(b[listComponents+"/"+id]) {
		if name := originName(b[listComponents+"/"+id][pointer]); strings.HasPrefix(pointer, "/flux/") && name != "" && !slices.Contains(by, name) {
			by = append(by, name)
		}
	}
	return by
}

// patches counts the values of each origin other than the catalog.
func (b Origins) patches(id string) []string {
	counts := map[string]int{}
	for pointer, source := range b[listComponents+"/"+id] {
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
	case "cluster":
		return "its own"
	case "layer":
		return "layer/" + source.ID
	}
	return ""
}

// cluster writes a cluster with its entries.
func (w *describer) cluster(d Description) {
	doc, by := d.Cluster, d.Origins
	field := func(name, value string) { w.linef("%-14s %s", name+":", render.Printable(cmp.Or(value, "-"))) }
	field("Name", doc.ID)
	field("DNS name", doc.ClusterDNS)
	field("Environment", doc.Environment)
	field("Labels", render.Labels(doc.Labels))
	if len(doc.Variables) > 0 {
		field("Variables", Variables(doc.Variables))
	}
	field("Protected", strconv.FormatBool(doc.DeletionProtection))
	if pin := doc.Pinned; pin != nil {
		until := "until it is unpinned"
		if pin.Until != nil {
			until = "until " + render.Time(*pin.Until)
		}
		field("Pinned", until+": "+pin.Reason+". It is served the inputs from before the pin.")
	}
	if len(doc.Layers) > 0 {
		field("Layers", strings.Join(doc.Layers, ", "))
	}
	field("Revision", fmt.Sprintf("%d, %s", doc.Revision, render.Time(doc.UpdatedAt)))
	w.linef("Components:")
	w.components(d.Inputs, by)
	for _, of := range d.Entries {
		names := make([]string, len(of.IDs))
		for i, id := range of.IDs {
			names[i] = id + by.origin(of.List, id)
		}
		field(of.Title, strings.Join(names, ", "))
	}
	for _, id := range render.SortedKeys(doc.Resources) {
		var names []string
		for _, ref := range doc.Resources[id] {
			names = append(names, ref.ID+by.origin(id, ref.ID))
		}
		field(id, strings.Join(names, ", "))
	}
	if len(d.Excluded) > 0 {
		field("Excludes", strings.Join(d.Excluded, ", "))
	}
}

// components writes a cluster's components in columns: name, state, version, and settings that differ from the catalog.
func (w *describer) components(components []api.FluxPlatformComponent, by Origins) {
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
		if from := by.origin(listComponents, in.ID); from != "" {
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
func (w *describer) history(revisions []api.RevisionSummary, kindName KindName, width int) {
	w.linef("Last changes:")
	var number, name int
	for _, rev := range revisions {
		number = max(number, len(strconv.FormatInt(rev.Revision, 10)))
		name = max(name, utf8.RuneCountInString(render.Printable(planview.Author(rev))))
	}
	for _, rev := range revisions {
		line := fmt.Sprintf("  %-*d   %s   %-*s   %s", number, rev.Revision, render.Time(rev.At), name, render.Printable(planview.Author(rev)), render.Printable(planview.Summary(rev, kindName)))
		if width > 0 {
			line = render.Cut(line, width)
		}
		w.linef("%s", line)
	}
}

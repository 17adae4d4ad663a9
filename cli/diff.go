package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/argv"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// fieldDiff is one field of a document that differs. A field that one side does not have is absent there.
type fieldDiff struct {
	Path   string          `json:"path"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// documentDiff is a document that would change.
type documentDiff struct {
	Kind   string      `json:"kind"`
	ID     string      `json:"id"`
	Action string      `json:"action"`
	Fields []fieldDiff `json:"fields"`

	source string
}

// changes are the fields in which a document differs from what the fleet has. As in the server, fields that it does
// not have do not count, nor do those that an entry of platform_components does not have, but for oci_tag and
// component_path, which are released then; null is the same as none.
func (d document) changes(now json.RawMessage) ([]fieldDiff, error) {
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(now, &stored); err != nil {
		return nil, err
	}
	before, after := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	var out []fieldDiff
	for name, value := range d.fields {
		if name == "platform_components" {
			value = overlayEntries(stored[name], value)
		}
		leafValues(before, name, stored[name])
		leafValues(after, name, value)
		if was, is := commonOrder(stored[name], value); !slices.Equal(was, is) {
			field := fieldDiff{Path: name + " (order)"}
			field.Before, _ = encode(was)
			field.After, _ = encode(is)
			out = append(out, field)
		}
	}
	for _, path := range sortedKeys(before, after) {
		if was, is := before[path], after[path]; string(was) != string(is) {
			out = append(out, fieldDiff{path, was, is})
		}
	}
	slices.SortStableFunc(out, func(a, b fieldDiff) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// overlayEntries gives the entries of a list what those with the same id have now and they do not mention.
func overlayEntries(now, list json.RawMessage) json.RawMessage {
	var stored, entries []map[string]json.RawMessage
	if json.Unmarshal(now, &stored) != nil || json.Unmarshal(list, &entries) != nil {
		return list // the server will say what is wrong with it
	}
	for _, entry := range entries {
		for _, old := range stored {
			if entry == nil || string(entry["id"]) != string(old["id"]) {
				continue
			}
			for name, value := range old {
				if _, has := entry[name]; !has && name != "oci_tag" && name != "component_path" {
					entry[name] = value
				}
			}
		}
	}
	whole, err := encode(entries)
	if err != nil {
		return list
	}
	return whole
}

// leafValues collects what a value is made of, by path. Entries of a list that have an id are called by it, so that one
// more at the front is one difference. Lists of other things are one value.
func leafValues(into map[string]json.RawMessage, path string, value json.RawMessage) {
	var (
		fields map[string]json.RawMessage
		list   []json.RawMessage
	)
	switch {
	case len(value) == 0 || string(value) == "null":
	case json.Unmarshal(value, &fields) == nil:
		for name, field := range fields {
			leafValues(into, path+step(name), field)
		}
	case json.Unmarshal(value, &list) == nil && (len(list) == 0 || listIDs(value) != nil):
		for i, id := range listIDs(value) {
			into[path+"["+id+"]"] = present
			leafValues(into, path+"["+id+"]", list[i])
			delete(into, path+"["+id+"].id")
		}
	default:
		into[path] = compact(value)
	}
}

// present stands for an entry of a list being there.
var present = json.RawMessage(`{}`)

func step(name string) string {
	if strings.ContainsAny(name, ".[]/ ") {
		return "[" + name + "]"
	}
	return "." + name
}

// compact writes a value in the one way in which equal values are equal. Numbers stay as they are.
func compact(value json.RawMessage) json.RawMessage {
	dec := json.NewDecoder(strings.NewReader(string(value)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return value
	}
	out, err := encode(v)
	if err != nil {
		return value
	}
	return out
}

// listIDs are the ids of a list of objects that have one each; nil when it is not such a list.
func listIDs(value json.RawMessage) []string {
	var list []struct {
		ID *string `json:"id"`
	}
	if json.Unmarshal(value, &list) != nil {
		return nil
	}
	ids := make([]string, len(list))
	for i, entry := range list {
		if entry.ID == nil || slices.Contains(ids[:i], *entry.ID) {
			return nil
		}
		ids[i] = *entry.ID
	}
	return ids
}

// commonOrder is the order in which two lists have the ids that both have.
func commonOrder(before, after json.RawMessage) (was, is []string) {
	old, now := listIDs(before), listIDs(after)
	was = slices.DeleteFunc(slices.Clone(old), func(id string) bool { return !slices.Contains(now, id) })
	is = slices.DeleteFunc(slices.Clone(now), func(id string) bool { return !slices.Contains(old, id) })
	return was, is
}

func (s *session) diffCommand() *cli.Command {
	return &cli.Command{
		Name:  "diff",
		Usage: "Show in which fields the documents of files differ from the fleet",
		Description: "What is printed is text, also when it is not read on a terminal; -o json and -o yaml give a list.\n" +
			"Exit code 0: nothing differs, 1: something does, 2: the command line is wrong, 3: an error.\n\n" +
			argv.ExampleText("diff -f fleet/", "export > fleet.yaml && $EDITOR fleet.yaml && flux-resourceset-cli diff -f fleet.yaml"),
		Flags: slices.Concat([]cli.Flag{documentsFlag()}, pruneFlags()),
		Action: func(c *cli.Context) error {
			a, err := s.newApplication(c)
			if err != nil {
				return err
			}
			conn, err := s.ready(c)
			if err != nil {
				return err
			}
			diffs, err := a.diff(conn)
			if err != nil {
				return err
			}
			if err := s.printDiff(c, diffs); err != nil {
				return err
			}
			if len(diffs) > 0 {
				return errDiffers
			}
			return nil
		},
	}
}

// diff compares. What changes is the server's to say: it fills in defaults and writes some things in one way only.
func (a *application) diff(conn client) ([]documentDiff, error) {
	diffs := []documentDiff{}
	ops, err := a.operations(conn)
	if err != nil {
		return nil, err
	}
	_, plan, err := a.s.requestPlan(a.c, conn, ops)
	if err != nil {
		return nil, located(ops, err, a.describe)
	}
	for _, ref := range plan.Changes {
		d, err := a.diffOf(ref)
		if err != nil {
			return nil, err
		}
		diffs = append(diffs, d)
	}
	return diffs, nil
}

func (a *application) diffOf(ref api.ChangeRef) (documentDiff, error) {
	out := documentDiff{Kind: ref.Kind, ID: ref.ID, Action: ref.Action, Fields: []fieldDiff{}}
	now := a.found[ref.Kind][ref.ID]
	for _, d := range a.docs {
		if d.noun.kind != ref.Kind || d.id != ref.ID {
			continue
		}
		if now == nil {
			now = json.RawMessage(`{}`)
		}
		fields, err := d.changes(now)
		out.Fields, out.source = append(out.Fields, fields...), d.source
		return out, err
	}
	gone := map[string]json.RawMessage{}
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(now, &stored); err != nil {
		return out, err
	}
	for name, value := range stored {
		if !slices.Contains(readOnly, name) {
			leafValues(gone, name, value)
		}
	}
	for _, path := range sortedKeys(gone) {
		out.Fields = append(out.Fields, fieldDiff{Path: path, Before: gone[path]})
	}
	return out, nil
}

func (s *session) printDiff(c *cli.Context, diffs []documentDiff) error {
	document, err := encode(diffs)
	if err != nil {
		return err
	}
	names := make([]string, len(diffs))
	for i, d := range diffs {
		names[i] = nameOfKind(d.Kind) + "/" + d.ID
	}
	out := output{
		document: document,
		text:     func(bool) string { return s.diffText(diffs) },
		names:    func() ([]string, error) { return names, nil },
	}
	if !c.IsSet("output") {
		return s.printAs(c, "table", out)
	}
	return s.print(c, out)
}

// diffText writes diffs in the manner of diff -u, a line for each field.
func (s *session) diffText(diffs []documentDiff) string {
	var b strings.Builder
	field := func(path string, value json.RawMessage) string {
		if string(value) == string(present) {
			return path
		}
		return path + ": " + string(value)
	}
	line := func(colour, format string, args ...any) {
		b.WriteString(s.paint(s.env.StdoutTerminal, colour, printable(fmt.Sprintf(format, args...))) + "\n")
	}
	for _, d := range diffs {
		name := nameOfKind(d.Kind) + "/" + d.ID
		was, is := name, name+"   "+d.source
		switch d.Action {
		case "create":
			was = "(none)"
		case "delete":
			is = "(none)"
		}
		line(bold, "--- %s", was)
		line(bold, "+++ %s", is)
		for _, f := range d.Fields {
			if f.Before != nil {
				line(red, "-%s", field(f.Path, f.Before))
			}
			if f.After != nil {
				line(green, "+%s", field(f.Path, f.After))
			}
		}
	}
	return b.String()
}

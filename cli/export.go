package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// exporter writes documents as files.
type exporter struct{ *session }

// exportCommand prints documents in the form that apply reads.
func (s exporter) exportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "Print the documents of the fleet, or of some kinds, in the form that apply reads",
		ArgsUsage: "[KIND|KIND/NAME]...",
		Description: "Applied at once, the output changes nothing; applied later, it restores every field that it contains. It is YAML without -o.\n\n" +
			args.ExampleText("export > fleet.yaml", "export --split fleet/", "export cluster/demo-cluster-01 namespaces"),
		Action: func(c *cli.Context) error {
			wanted, err := wantedFrom(c.Args().Slice())
			if err != nil {
				return err
			}
			conn, err := s.connect(c)
			if err != nil {
				return err
			}
			return s.export(c, conn, wanted)
		},
		Flags: []cli.Flag{&cli.StringFlag{Name: "split", Usage: "write a file for each document below this `DIR`, which must be empty or not exist: DIR/clusters/demo-cluster-01.yaml"}},
	}
}

// wantedFrom reads KIND and KIND/NAME: the names by kind, nil for all documents of a kind. No argument means all. The definitions
// of all resource types are the kind resource, those of one type resource/TYPE.
func wantedFrom(operands []string) (map[string][]string, error) {
	wanted := map[string][]string{}
	for _, arg := range operands {
		word, id, one := strings.Cut(arg, "/")
		if one && isResource(word) {
			of, name, named := strings.Cut(id, "/")
			word, id, one = resourcePrefix+of, name, named
		}
		n, ok := findKind(word)
		if isResource(word) {
			n, ok = documentKind{kind: resourceKind}, true
		}
		if !ok {
			return nil, args.Errorf("there is no kind %s; there are %s", strconv.Quote(word), args.ListOf(kindWords()))
		}
		ids, seen := wanted[n.kind]
		switch {
		case !one:
			wanted[n.kind] = nil
		case checkID("NAME", id) != nil:
			return nil, checkID("NAME", id)
		case !seen || ids != nil:
			wanted[n.kind] = append(ids, id)
		}
	}
	if len(operands) == 0 {
		for _, kind := range kindWords() {
			wanted[kind] = nil
		}
	}
	return wanted, nil
}

func (s exporter) export(c *cli.Context, conn client, wanted map[string][]string) error {
	types, err := s.typesOf(c.Context, conn)
	if err != nil {
		return err
	}
	everything := len(wanted) == len(kindWords())
	if everything && len(types) == 0 {
		delete(wanted, resourceTypes.kind) // a server without the route has none
	}
	layered, err := s.hasLayers(c.Context, conn)
	if err != nil {
		return err
	}
	if everything && !layered {
		delete(wanted, layers.kind) // likewise
	}
	lists := map[string][]string{}
	var members []string // in the server's order
	var names []string
	var files []exportedFile
	for _, n := range documentKinds(exportedResourceKinds(types, wanted)...) {
		ids, ok := wanted[n.kind]
		if _, every := wanted[resourceKind]; every && n.resourceType != "" {
			ids, ok = nil, true
		}
		if !ok {
			continue
		}
		docs, err := s.exported(c, conn, n, ids)
		if err != nil {
			return err
		}
		if _, begun := lists[n.list]; !begun {
			members, lists[n.list] = append(members, n.list), []string{}
		}
		for _, doc := range docs {
			id, err := documentID(doc)
			if err != nil {
				return err
			}
			applicable, err := applicable(doc, n.kind, len(types) > 0, layered)
			if err != nil {
				return err
			}
			lists[n.list] = append(lists[n.list], string(applicable))
			names = append(names, n.name+"/"+id)
			files = append(files, exportedFile{n, id, applicable})
		}
	}
	if c.IsSet("split") {
		return s.split(c, files)
	}
	for i, list := range members {
		members[i] = strconv.Quote(list) + ":[" + strings.Join(lists[list], ",") + "]"
	}
	out := render.Output{
		Document: json.RawMessage("{" + strings.Join(members, ",") + "}"),
		Names:    func() ([]string, error) { return names, nil },
		Ends:     true,
	}
	switch format := c.String("output"); format {
	case "":
		return s.printAs(c, "yaml", out)
	case "table", "wide":
		return args.Errorf("documents are not exported as a %s; -o is yaml, json or name", format)
	}
	return s.print(c, out)
}

// exportedResourceKinds returns the kinds of the fleet's resource types, and those that the command line names.
func exportedResourceKinds(types []api.ResourceType, wanted map[string][]string) []documentKind {
	ids := map[string]bool{}
	for _, of := range types {
		ids[of.ID] = true
	}
	for kind := range wanted {
		if n, ok := findResourceKind(kind); ok {
			ids[n.resourceType] = true
		}
	}
	var out []documentKind
	for _, id := range render.SortedKeys(ids) {
		out = append(out, resourcesOfID(id))
	}
	return out
}

// exported reads documents sorted by id: all, or the named ones without duplicates.
func (s exporter) exported(c *cli.Context, conn client, n documentKind, ids []string) ([]json.RawMessage, error) {
	if ids == nil {
		return s.listAll(c, conn, n)
	}
	slices.Sort(ids)
	var docs []json.RawMessage
	for _, id := range slices.Compact(ids) {
		a, err := receive(n.api.get(c.Context, conn, id))
		if err != nil {
			return nil, err
		}
		docs = append(docs, a.body)
	}
	return docs, nil
}

// applicable returns a document in the form that apply reads: without the fields that the server sets, in its own order. Settings
// that an entry of a cluster's lists does not override are null, because apply keeps fields that are not mentioned. For the same
// reason empty resources and excludes of a cluster are written.
func applicable(doc json.RawMessage, kind string, typed, layered bool) (json.RawMessage, error) {
	saysResources, saysExcludes := typed && (kind == clusters.kind || kind == layers.kind), layered && kind == clusters.kind
	keys, fields, err := ordered(doc)
	if err != nil {
		return nil, err
	}
	var members []string
	for _, key := range keys {
		value := fields[key]
		if slices.Contains(readOnly, key) {
			continue
		}
		switch {
		case key == components.list && kind == layers.kind:
			value, err = layerEntries(value)
		case key == components.list:
			value, err = withNulls(value, "oci_tag", "component_path", "component_version", "values_from")
		case key == resourcesList && saysResources:
			value, err = resourcesWithNulls(value)
		}
		if err != nil {
			return nil, err
		}
		members = append(members, strconv.Quote(key)+":"+string(value))
	}
	if _, has := fields[resourcesList]; saysResources && !has {
		members = append(members, strconv.Quote(resourcesList)+":{}")
	}
	if _, has := fields["excludes"]; saysExcludes && !has {
		members = append(members, `"excludes":{}`)
	}
	return json.RawMessage("{" + strings.Join(members, ",") + "}"), nil
}

func resourcesWithNulls(lists json.RawMessage) (json.RawMessage, error) {
	ids, byID, err := ordered(lists)
	if err != nil {
		return nil, err
	}
	members := make([]string, len(ids))
	for i, id := range ids {
		list, err := withNulls(byID[id], "overrides")
		if err != nil {
			return nil, err
		}
		members[i] = strconv.Quote(id) + ":" + string(list)
	}
	return json.RawMessage("{" + strings.Join(members, ",") + "}"), nil
}

func withNulls(entries json.RawMessage, settings ...string) (json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(entries, &list); err != nil {
		return nil, err
	}
	for i, entry := range list {
		_, fields, err := ordered(entry)
		if err != nil {
			return nil, err
		}
		members := []string{string(bytes.TrimSuffix(bytes.TrimSpace(entry), []byte("}")))}
		for _, name := range settings {
			if _, has := fields[name]; !has {
				members = append(members, strconv.Quote(name)+":null")
			}
		}
		list[i] = json.RawMessage(strings.Join(members, ",") + "}")
	}
	return render.Encode(list)
}

// ordered reads an object with the order of its keys.
func ordered(object json.RawMessage) ([]string, map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil { // the opening brace
		return nil, nil, err
	}
	var keys []string
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		key, _ := token.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, nil, err
		}
		keys = append(keys, key)
	}
	return keys, fields, nil
}

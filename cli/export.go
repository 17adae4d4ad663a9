package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/argv"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// exporter writes documents as files.
type exporter struct{ *session }

// exportCommand prints documents as apply takes them.
func (s exporter) exportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "Print the documents of the fleet, or of some kinds, as apply takes them",
		ArgsUsage: "[KIND|KIND/NAME]...",
		Description: "Applied again, the output changes nothing; applied later, it puts every field back that it has. It is YAML unless -o says otherwise.\n\n" +
			argv.ExampleText("export > fleet.yaml", "export cluster/demo-cluster-01 namespaces"),
		Action: func(c *cli.Context) error {
			wanted, err := wantedFrom(c.Args().Slice())
			if err != nil {
				return err
			}
			conn, err := s.ready(c)
			if err != nil {
				return err
			}
			if c.Args().Len() == 0 {
				if err := s.leftOut(c, conn); err != nil {
					return err
				}
			}
			return s.export(c, conn, wanted)
		},
	}
}

// leftOut says so when the fleet has something that export does not know.
func (s exporter) leftOut(c *cli.Context, conn client) error {
	one := 1
	a, err := receive(conn.ListResourceTypes(c.Context, &api.ListResourceTypesParams{Limit: &one}))
	if failed, ok := errors.AsType[*apiclient.Error](err); ok && failed.StatusCode == http.StatusNotFound {
		return nil // an older server
	}
	if err != nil {
		return err
	}
	var types []json.RawMessage
	if err := a.decode(&types); err != nil {
		return err
	}
	if n := max(a.total, len(types)); n > 0 {
		s.warn("this leaves out the fleet's " + strconv.Itoa(n) + " resource types and their definitions: read them from /resource_types and /resources/TYPE; what clusters have of them can only be applied where they are")
	}
	return nil
}

// wantedFrom reads KIND and KIND/NAME: the names by kind, nil for all of a kind. Nothing means everything.
func wantedFrom(args []string) (map[string][]string, error) {
	wanted := map[string][]string{}
	for _, arg := range args {
		word, id, one := strings.Cut(arg, "/")
		n, ok := nounOf(word)
		if !ok {
			return nil, argv.Errorf("there is no kind %s; there are %s", strconv.Quote(word), argv.ListOf(kinds()))
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
	if len(args) == 0 {
		for _, n := range nouns() {
			wanted[n.kind] = nil
		}
	}
	return wanted, nil
}

func (s exporter) export(c *cli.Context, conn client, wanted map[string][]string) error {
	var members []string
	var names []string
	for _, n := range nouns() {
		ids, ok := wanted[n.kind]
		if !ok {
			continue
		}
		docs, err := s.exported(c, conn, n, ids)
		if err != nil {
			return err
		}
		list := make([]string, len(docs))
		for i, doc := range docs {
			id, err := idOf(doc)
			if err != nil {
				return err
			}
			applicable, err := applicable(doc)
			if err != nil {
				return err
			}
			list[i] = string(applicable)
			names = append(names, n.name+"/"+id)
		}
		members = append(members, strconv.Quote(n.list)+":["+strings.Join(list, ",")+"]")
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
		return argv.Errorf("documents are not exported as a %s; -o is yaml, json or name", format)
	}
	return s.print(c, out)
}

// exported reads documents, sorted by id: all, or those named, each once.
func (s exporter) exported(c *cli.Context, conn client, n noun, ids []string) ([]json.RawMessage, error) {
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

// applicable is a document as apply takes it: without the fields that the server sets, in the order it has them. What
// an entry of platform_components does not override is null, because a field that is not mentioned would keep what it
// has by then.
func applicable(doc json.RawMessage) (json.RawMessage, error) {
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
		if key == "platform_components" {
			if value, err = withNulls(value); err != nil {
				return nil, err
			}
		}
		members = append(members, strconv.Quote(key)+":"+string(value))
	}
	return json.RawMessage("{" + strings.Join(members, ",") + "}"), nil
}

func withNulls(entries json.RawMessage) (json.RawMessage, error) {
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
		for _, name := range []string{"oci_tag", "component_path", "component_version", "values_from"} {
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

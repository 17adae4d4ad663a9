package cli

import (
	"encoding/json"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/manifests"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
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
			if _, err := fileKinds().Select(c.Args().Slice(), nil); err != nil {
				return err
			}
			conn, err := s.connect(c)
			if err != nil {
				return err
			}
			return s.export(c, conn)
		},
		Flags: []cli.Flag{&cli.StringFlag{Name: "split", Usage: "write a file for each document below this `DIR`, which must be empty or not exist: DIR/clusters/demo-cluster-01.yaml"}},
	}
}

func (s exporter) export(c *cli.Context, conn client) error {
	types, err := s.typeIDs(c.Context, conn)
	if err != nil {
		return err
	}
	layered, err := s.hasLayers(c.Context, conn)
	if err != nil {
		return err
	}
	selected, err := fileKinds().Select(c.Args().Slice(), types)
	if err != nil {
		return err
	}
	out := manifests.Export{Typed: len(types) > 0, Layered: layered}
	for _, of := range selected {
		if kind := of.Kind.Kind; c.NArg() == 0 && (kind == resourceTypes.kind && !out.Typed || kind == layers.kind && !layered) {
			continue // a server without the route has none
		}
		docs, err := s.exported(c, conn, descriptorOf(of.Kind), of.IDs)
		if err != nil {
			return err
		}
		if err := out.Add(of.Kind, docs); err != nil {
			return err
		}
	}
	if c.IsSet("split") {
		return s.split(c, &out)
	}
	document := render.Output{
		Document: out.Document(),
		Names:    func() ([]string, error) { return out.Names(), nil },
		Ends:     true,
	}
	switch format := c.String("output"); format {
	case "":
		return s.printAs(c, "yaml", document)
	case "table", "wide":
		return args.Errorf("documents are not exported as a %s; -o is yaml, json or name", format)
	}
	return s.print(c, document)
}

// split writes documents into files that apply can read.
func (s exporter) split(c *cli.Context, out *manifests.Export) error {
	dir := c.String("split")
	if dir == "" || c.IsSet("output") {
		return args.Errorf("--split needs a directory, and excludes --output: the files are YAML")
	}
	n, err := out.WriteFiles(dir)
	if err != nil {
		return err
	}
	s.note("%s written to %s.", summarize.Count(n, "document"), dir)
	return nil
}

// exported reads documents sorted by id: all, or the named ones.
func (s exporter) exported(c *cli.Context, conn client, n documentKind, ids []string) ([]json.RawMessage, error) {
	if ids == nil {
		return s.listAll(c, conn, n)
	}
	var docs []json.RawMessage
	for _, id := range ids {
		a, err := receive(n.api.get(c.Context, conn, id))
		if err != nil {
			return nil, err
		}
		docs = append(docs, a.body)
	}
	return docs, nil
}

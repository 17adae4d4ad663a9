package cli

import (
	"encoding/json"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/manifests"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
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
		Description: "Applied at once, the output changes nothing; applied later, it restores every field that it contains. It is YAML without -o.\n" +
			"A token that may read only a part of the fleet exports this part; the output then contains the limits, and --prune refuses it.\n\n" +
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
	if out.Limits, err = s.readLimits(c, conn); err != nil {
		return err
	}
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
	if out.Limits != nil {
		s.note("The export may lack documents: your access documents permit to read only a part of the fleet. The output contains their limits, and --prune refuses it.")
	}
	if c.IsSet("split") {
		return s.split(c, &out)
	}
	format := c.String("output")
	document := render.Output{
		Document: out.Document(format != "" && format != "yaml"),
		Comment:  out.Comment(),
		Names:    func() ([]string, error) { return out.Names(), nil },
		Ends:     true,
	}
	switch format {
	case "":
		return s.printAs(c, "yaml", document)
	case "table", "wide":
		return args.Errorf("documents are not exported as a %s; -o is yaml, json or name", format)
	}
	return s.print(c, document)
}

// readLimits returns the access documents that limit what the identity may read, as JSON; nil: it may read everything.
func (s exporter) readLimits(c *cli.Context, conn client) (json.RawMessage, error) {
	who, err := authCommands(s).identity(c.Context, conn, forReads)
	if err != nil || who.Role != "scoped" {
		return nil, err
	}
	type limit struct {
		ID string           `json:"id"`
		On *api.AccessScope `json:"on"`
	}
	var limits []limit
	for _, a := range who.Access {
		if !slices.Contains(a.May, "read") {
			continue
		}
		if a.On == nil {
			return nil, nil
		}
		limits = append(limits, limit{a.ID, a.On})
	}
	return json.Marshal(limits)
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

package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/manifests"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// exporter writes documents as files.
type exporter struct{ *session }

// exportCommand prints documents in the form that apply reads.
func (s exporter) exportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "Print the documents of the fleet, or of some kinds, in the form that apply reads; with --flux, write the objects of clusters for Flux alone",
		ArgsUsage: "[KIND|KIND/NAME|CLUSTER]...",
		Description: "Applied at once, the output changes nothing; applied later, it restores every field that it contains. It is YAML without -o.\n" +
			"A token that may read only a part of the fleet exports this part. The output then contains the limits of the token, and apply --prune refuses it.\n" +
			"With --flux, it writes the Kubernetes objects of clusters, as the templates render them, into a folder for each cluster. Flux\n" +
			"applies them without Flux Operator and without the service. A cluster that cannot be rendered is an error with its name,\n" +
			"and has no files. Secrets are not written. It needs the right to plan. Steps: docs/leaving.md.\n\n" +
			args.ExampleText("export > fleet.yaml", "export --split fleet/", "export cluster/demo-cluster-01 namespaces", "export --flux demo-cluster-01 --out flux/", "export --flux --all --out flux/"),
		Action: func(c *cli.Context) error {
			clusters, err := checkFluxFlags(c)
			if err != nil {
				return err
			}
			if c.Bool("flux") {
				client, err := s.Connect(c)
				if err != nil {
					return err
				}
				return fluxExporter(s).exportFlux(c, client, clusters)
			}
			if _, err := manifests.Select(kinds.ForFiles(), c.Args().Slice(), nil); err != nil {
				return err
			}
			client, err := s.Connect(c)
			if err != nil {
				return err
			}
			return s.export(c, client)
		},
		Flags: append(fluxFlags(), &cli.StringFlag{Name: "split", Usage: "write a file for each document below this `DIR`, which must be empty or not exist: DIR/clusters/demo-cluster-01.yaml"}),
	}
}

func (s exporter) export(c *cli.Context, client conn.Client) error {
	types, err := s.typeIDs(c.Context, client)
	if err != nil {
		return err
	}
	layered, err := s.hasLayers(c.Context, client)
	if err != nil {
		return err
	}
	selected, err := manifests.Select(kinds.ForFiles(), c.Args().Slice(), types)
	if err != nil {
		return err
	}
	out := manifests.Export{Typed: len(types) > 0, Layered: layered}
	if out.Limits, err = s.readLimits(c, client); err != nil {
		return err
	}
	var missing []string
	if c.NArg() == 0 {
		if missing, err = s.unexportable(c, client); err != nil {
			return err
		}
	}
	for _, of := range selected {
		if kind := of.Kind.Kind; c.NArg() == 0 && (kind == kinds.ResourceTypes.API && !out.Typed || kind == kinds.Layers.API && !layered) {
			continue // an empty list would be a change of a file
		}
		docs, err := s.exported(c, client, kinds.Of(of.Kind), of.IDs)
		if n := kinds.Of(of.Kind); c.NArg() == 0 && slices.ContainsFunc(kinds.Administrative(), func(a kinds.Kind) bool { return a.API == n.API }) {
			if slices.Contains([]string{"forbidden", "unauthorized"}, apiclient.ErrorCode(err)) {
				missing = append(missing, n.Plural+", which the token may not read")
			} else if err != nil {
				return err
			}
			if len(docs) == 0 {
				continue
			}
		} else if err != nil {
			return err
		}
		missing = append(missing, notExported(of.Kind, docs)...)
		if err := out.Add(of.Kind, docs); err != nil {
			return err
		}
	}
	for _, what := range missing {
		s.Note("Not in the export: %s.", what)
	}
	if out.Limits != nil {
		s.Note("The export may be incomplete: your access documents let you read only a part of the fleet. The output contains their limits, and apply --prune refuses it.")
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
		return s.PrintAs(c, "yaml", document)
	case "table", "wide":
		return args.Errorf("documents are not exported as a %s; -o is yaml, json or name", format)
	}
	return s.Print(c, document)
}

// readLimits returns the access documents that limit the right of the identity to read, as JSON; nil: it may read everything.
func (s exporter) readLimits(c *cli.Context, client conn.Client) (json.RawMessage, error) {
	who, err := authCommands(s).identity(c.Context, client, forReads)
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

// unexportable names what is in the fleet and in no document that apply reads. What the token may not read is omitted.
func (s exporter) unexportable(c *cli.Context, client conn.Client) (names []string, err error) {
	open, err := conn.ReceiveAs[[]api.Rollout](client.ListRollouts(c.Context, nil))
	if err != nil {
		return nil, err
	}
	for _, r := range open {
		if r.State != "completed" && r.State != "aborted" {
			names = append(names, fmt.Sprintf("rollout %s, which is %s", r.ID, r.State))
		}
	}
	deleted, err := conn.ReceiveAs[[]api.Cluster](client.ListClusters(c.Context, &api.ListClustersParams{Deleted: new(true)}))
	if err != nil {
		return nil, err
	}
	if len(deleted) > 0 {
		names = append(names, summarize.Count(len(deleted), "deleted cluster")+" whose objects Flux still removes")
	}
	return names, nil
}

// notExported names parts of exported documents that the export omits.
func notExported(k documents.Kind, docs []json.RawMessage) (names []string) {
	for _, doc := range docs {
		var d struct {
			ID        string          `json:"id"`
			URL       string          `json:"url"`
			Pinned    json.RawMessage `json:"pinned"`
			Reconcile *time.Time      `json:"reconcile_requested_at"`
		}
		if json.Unmarshal(doc, &d) != nil {
			continue
		}
		if d.Pinned != nil {
			names = append(names, fmt.Sprintf("the pin of the cluster %s, and what it is served", d.ID))
		}
		switch {
		case k.Kind == kinds.Webhooks.API && strings.HasSuffix(d.URL, "?…"):
			names = append(names, fmt.Sprintf("the query of the URL of the webhook %s, without which a server that has no such webhook refuses it", d.ID))
		case k.Kind == kinds.Sources.API:
			names = append(names, fmt.Sprintf("which documents the source %s manages: on another server its first artifact is held until it is approved, if they exist there", d.ID))
		case d.Reconcile != nil:
			names = append(names, fmt.Sprintf("the requested reconciliation of the cluster %s", d.ID))
		}
	}
	return names
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
	s.Note("%s written to %s.", summarize.Count(n, "document"), dir)
	return nil
}

// exported reads documents sorted by id: all, or the named ones.
func (s exporter) exported(c *cli.Context, client conn.Client, n kinds.Kind, ids []string) ([]json.RawMessage, error) {
	if ids == nil {
		return s.listAll(c, client, n)
	}
	var docs []json.RawMessage
	for _, id := range ids {
		a, err := conn.Receive(n.Calls.Get(c.Context, client, id))
		if err != nil {
			return nil, err
		}
		docs = append(docs, a.Body)
	}
	return docs, nil
}

package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxexport"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// fluxExporter writes the objects of clusters for Flux alone.
type fluxExporter struct{ *session }

// fluxFlags are the flags of an export for Flux.
func fluxFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "flux", Usage: "not documents, but the Kubernetes objects of the CLUSTERs, for Flux without Flux Operator and without the service"},
		&cli.BoolFlag{Name: "all", Usage: "with --flux: of every cluster"},
		&cli.StringFlag{Name: "out", Usage: "with --flux: create a folder for each cluster in this `DIR`"},
		&cli.StringFlag{Name: "templates", Usage: "with --flux: ResourceSets in a YAML `FILE`, as render -f takes them (default: the shipped ones, and one for each resource type with a template)"},
	}
}

// checkFluxFlags returns the clusters that the arguments of an export for Flux name.
func checkFluxFlags(c *cli.Context) ([]string, error) {
	names := c.Args().Slice()
	switch {
	case !c.Bool("flux"):
		for _, flag := range []string{"all", "out", "templates"} {
			if c.IsSet(flag) {
				return nil, args.Errorf("--%s needs --flux", flag)
			}
		}
		return nil, nil
	case c.IsSet("split") || c.IsSet("output"):
		return nil, args.Errorf("--flux excludes --split and --output: it writes YAML files into --out")
	case c.String("out") == "":
		return nil, args.Errorf("--flux needs --out DIR")
	case c.Bool("all") == (len(names) > 0):
		return nil, args.Errorf("--flux needs CLUSTERs or --all")
	}
	for _, name := range names {
		if err := args.CheckID("CLUSTER", name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// exportFlux writes the objects of clusters. A cluster that cannot be exported has no files, and the others have theirs.
func (s fluxExporter) exportFlux(c *cli.Context, client conn.Client, names []string) error {
	sets, err := s.ResourceSets(c.String("templates"))
	if err != nil {
		return err
	}
	if c.Bool("all") {
		docs, err := s.listAll(c, client, kinds.Clusters)
		if err != nil {
			return err
		}
		for _, doc := range docs {
			var cluster api.Cluster
			if err := json.Unmarshal(doc, &cluster); err != nil {
				return err
			}
			names = append(names, cluster.ID)
		}
	}
	var failed []error
	written := 0
	for _, name := range names {
		has, err := s.exportCluster(c, client, name, sets)
		switch {
		case c.Err() != nil:
			return cmp.Or(err, c.Err())
		case err != nil:
			failed = append(failed, fmt.Errorf("cluster %s: %w", name, err))
		case has:
			written++
		}
	}
	s.Note("%s written to %s.", summarize.Count(written, "cluster"), c.String("out"))
	return errors.Join(failed...)
}

// exportCluster writes the objects of one cluster, and reports whether it has any.
func (s fluxExporter) exportCluster(c *cli.Context, client conn.Client, name, sets string) (bool, error) {
	rendered, err := s.rendered(c, client, api.RenderRequest{Cluster: name, ResourceSets: sets})
	if err != nil {
		return false, err
	}
	export, err := fluxexport.New(rendered)
	if err != nil {
		return false, err
	}
	if len(export.Lists) == 0 {
		s.Note("Cluster %s has no objects: nothing is written for it.", name)
		return false, nil
	}
	for _, what := range export.Missing {
		s.Note("Not in the export of cluster %s: %s.", name, what)
	}
	return true, export.Write(c.String("out"), name)
}

// rendered returns the ResourceSets that the server renders for a cluster.
func (s *session) rendered(c *cli.Context, client conn.Client, request api.RenderRequest) ([]fluxexport.Rendered, error) {
	made, err := conn.ReceiveAs[api.Rendering](client.Render(c.Context, nil, request))
	if err != nil {
		return nil, err
	}
	var out []fluxexport.Rendered
	for _, set := range made.ResourceSets {
		if set.Error != "" {
			return nil, errors.New(set.Error)
		}
		out = append(out, fluxexport.Rendered{Name: set.Name, Objects: set.Objects})
	}
	return out, nil
}

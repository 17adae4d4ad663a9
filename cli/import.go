package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluximport"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/manifests"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// importer translates what other tools have into files of a fleet.
type importer struct{ *session }

func (s importer) importCommand() *cli.Command {
	return &cli.Command{
		Name:        "import",
		Usage:       "Translate clusters of other tools into files of a fleet",
		Subcommands: []*cli.Command{s.fluxCommand()},
	}
}

func (s importer) fluxCommand() *cli.Command {
	return &cli.Command{
		Name:      "flux",
		Usage:     "Translate running clusters of Flux into files for apply, and prove that they install the same objects",
		ArgsUsage: "FILE|DIR...",
		Description: "A FILE has the objects of one cluster, whose id is its name without the extension:\n" +
			"kubectl get helmreleases,helmrepositories,helmcharts,ocirepositories,gitrepositories,buckets,kustomizations,\\\n" +
			"namespaces,rolebindings,clusterrolebindings,configmaps -A -o yaml > dumps/berlin-01.yaml\n" +
			"or the output of kustomize build. Of a DIR, each file and each folder in it is a cluster. Custom objects are taken if their\n" +
			"CustomResourceDefinitions are in the dump too: docs/bring-your-fleet.md has the commands.\n\n" +
			"It needs no server and changes nothing on a cluster. DIR of --out gets the documents, and report.md: the fields that are taken,\n" +
			"that the templates set, and that are not expressible, with proposals. --check renders every cluster from the documents and\n" +
			"compares it with the dump; the exit code is 1 if there is a difference that the report does not list.\n\n" +
			args.ExampleText(
				"import flux dumps/ --out fleet/ --check",
				"import flux dumps/prod dumps/dev --out fleet/ --label-from environment=folder",
				"import flux dumps/ --out fleet/ --label-from 'region=regexp:^([a-z]+)-'",
				"import flux dumps/ --out fleet/ --label-from region=configmap:cluster-settings:REGION",
			),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "`DIR` for the documents and report.md; must be empty or not exist"},
			&cli.BoolFlag{Name: "check", Usage: "compare what the documents install with the dump"},
			&cli.StringSliceFlag{Name: "label-from", Usage: "label of clusters `KEY=SOURCE`, with SOURCE folder (the name of the folder with the dump), configmap:NAME:KEY, or regexp:EXPRESSION, whose first group in the id is the value. The key environment sets the environment. Repeat for more. Clusters with equal values get a layer"},
			&cli.StringFlag{Name: "environment", Value: "prod", Usage: "environment of clusters without --label-from environment=…"},
			&cli.StringFlag{Name: "dns-suffix", Value: "k8s.example.com", Usage: "the DNS name of a cluster is its id, a dot and this `SUFFIX`"},
			&cli.StringSliceFlag{Name: "settings", Usage: "`NAME` of a ConfigMap whose values become variables, besides those from which Kustomizations substitute"},
		},
		Action: func(c *cli.Context) error { return s.importFlux(c) },
	}
}

func (s importer) importFlux(c *cli.Context) error {
	out := c.String("out")
	switch {
	case c.NArg() == 0:
		return args.Errorf("import flux needs a FILE or DIR with the objects of clusters")
	case out == "":
		return args.Errorf("import flux needs --out DIR")
	case s.Env.Offline == nil:
		return args.Errorf("this program cannot compute a fleet")
	}
	if err := manifests.CheckEmpty(out); err != nil {
		return err
	}
	opt := fluximport.Options{Environment: c.String("environment"), DNSSuffix: strings.Trim(c.String("dns-suffix"), "."), Settings: c.StringSlice("settings")}
	for _, text := range c.StringSlice("label-from") {
		label, err := fluximport.ParseLabel(text)
		if err != nil {
			return err
		}
		opt.Labels = append(opt.Labels, label)
	}
	clusters, err := fluxdump.Read(c.Args().Slice())
	if err != nil {
		return err
	}
	result, err := fluximport.Import(clusters, s.Env.Offline, opt)
	if err != nil {
		return err
	}
	if err := s.writeImport(out, result); err != nil {
		return err
	}
	n := result.Report.Totals()
	s.Note("%d fields taken, %d defaults of the template, %d replaced, %d not expressible: see %s.", n[0], n[1], n[2], n[3], filepath.Join(out, "report.md"))
	s.Note("%d lines of YAML became %d.", result.Report.Before, result.Report.After)
	if types := result.Report.Types; len(types) > 0 {
		var sum fluximport.TypeCount
		for _, of := range types {
			sum.Objects, sum.Definitions = sum.Objects+of.Objects, sum.Definitions+of.Definitions
		}
		s.Note("%s with %s of %s.", summarize.Count(len(types), "resource type"), summarize.Count(sum.Definitions, "definition"), summarize.Count(sum.Objects, "custom object"))
	}
	if !c.Bool("check") {
		return nil
	}
	return s.checkImport(out, result)
}

// checkImport compares what the written documents install with the dump.
func (s importer) checkImport(dir string, result *fluximport.Result) error {
	found, err := manifests.ReadFiles(kinds.ForFiles(), []string{dir}, s.Input)
	if err != nil {
		return err
	}
	documents := map[string][]json.RawMessage{}
	for _, d := range found {
		text, err := render.Encode(d.Fields)
		if err != nil {
			return err
		}
		documents[d.Kind.Kind] = append(documents[d.Kind.Kind], text)
	}
	differences, compared, err := result.Check(s.Env.Offline(), documents)
	if err != nil {
		return err
	}
	for _, d := range differences {
		if _, err := fmt.Fprintln(s.Env.Stdout, render.Printable(d.String())); err != nil {
			return err
		}
	}
	s.Note("%s compared, %s that the report does not list.", summarize.Count(compared, "object"), summarize.Count(len(differences), "difference"))
	if len(differences) > 0 {
		return change.ErrDiffers
	}
	return nil
}

// writeImport writes the documents and the report: all of them, or after an error none.
func (s importer) writeImport(out string, result *fluximport.Result) error {
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(out, ".import-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what was not moved
	export := manifests.Export{New: true}
	for _, kind := range result.Kinds {
		of, _ := kinds.ForFiles().Find(kind)
		if err := export.Add(of, result.Documents[kind]); err != nil {
			return err
		}
	}
	if _, err := export.WriteFiles(dir); err != nil {
		return err
	}
	if result.Report.Before, err = result.Lines(); err != nil {
		return err
	}
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err == nil && entry.Name() == kinds.ResourceTypes.List:
			return filepath.SkipDir // the schemas are those of the cluster
		case err != nil || entry.IsDir():
			return err
		}
		text, err := os.ReadFile(path)
		result.Report.After += strings.Count(string(text), "\n")
		return err
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.md"), []byte(result.Report.Markdown()), 0o600); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		err = errors.Join(err, os.Rename(filepath.Join(dir, entry.Name()), filepath.Join(out, entry.Name())))
	}
	return err
}

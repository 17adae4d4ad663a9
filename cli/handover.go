package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/handover"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// handoverCommand prints the script that replaces HelmReleases of a running cluster.
func (s *session) handoverCommand() *cli.Command {
	return &cli.Command{
		Name:      "handover",
		Usage:     "Print a script that hands running Flux releases over to the service, without an uninstall",
		ArgsUsage: "CLUSTER [OBJECT]...",
		Description: "The script needs sh and kubectl. Read it, then run it. It suspends the HelmReleases of the cluster and the Kustomizations that\n" +
			"apply them, and waits until the service has upgraded each release in place. It deletes the old objects only while they are\n" +
			"suspended, which uninstalls nothing. Each step checks before it acts; after an interruption, run it again. Its argument verify\n" +
			"compares the cluster with the state before. Steps: docs/hand-over.md. The way back: docs/leaving.md.\n\n" +
			"Before the cluster polls the service, assign the components, each with the release name, the storage namespace and the values of\n" +
			"its release. A HelmRelease without such a component stays as it is, unless it is an OBJECT: helmrelease/NAMESPACE/NAME, or\n" +
			"kustomization/NAMESPACE/NAME for a Kustomization whose objects a component applies. It needs the right to plan.\n\n" +
			"The dump has the objects of the running cluster:\n\n" +
			"    kubectl get namespaces,helmreleases,kustomizations,helmrepositories,helmcharts,ocirepositories,gitrepositories,buckets,configmaps -A -o yaml > dump.yaml\n\n" +
			args.ExampleText("handover berlin-01 -f dump.yaml > handover.sh", "handover berlin-01 helmrelease/apps/unused -f dump.yaml > handover.sh"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the dump: a YAML or JSON `FILE`, or a folder of files (required)"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "print the script although components have other values than their releases, which the first upgrade changes"},
			&cli.StringFlag{Name: "templates", Usage: "ResourceSets of the cluster in a YAML `FILE`, as render -f takes them (default: the shipped ones, and one for each resource type with a template)"},
		},
		Action: s.handover,
	}
}

func (s *session) handover(c *cli.Context) error {
	operands := c.Args().Slice()
	if len(operands) == 0 {
		return args.Errorf("handover takes CLUSTER [OBJECT]...")
	}
	if err := args.CheckID("CLUSTER", operands[0]); err != nil {
		return err
	}
	file, err := args.Required(c, "file")
	if err != nil {
		return err
	}
	dump, err := fluxdump.ReadCluster(file)
	if err != nil {
		return err
	}
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	sets, err := s.ResourceSets(c.String("templates"))
	if err != nil {
		return err
	}
	rendered, err := s.rendered(c, client, api.RenderRequest{Cluster: operands[0], ResourceSets: sets})
	if err != nil {
		return err
	}
	var objects []json.RawMessage
	for _, set := range rendered {
		objects = append(objects, set.Objects...)
	}
	plan, err := handover.New(operands[0], dump, objects, operands[1:])
	if err != nil {
		return fmt.Errorf("cluster %s: %w", operands[0], err)
	}
	for _, left := range plan.Left {
		s.Note("%s. It stays as it is.", left)
	}
	if n := len(plan.Differences); n > 0 && !c.Bool("yes") {
		return fmt.Errorf("cluster %s: the first upgrade would change %s: correct the components, or accept it with --yes\n  %s",
			operands[0], summarize.Count(n, "thing"), strings.Join(plan.Differences, "\n  "))
	}
	for _, warning := range plan.Warnings {
		s.Warn(warning)
	}
	_, err = io.WriteString(s.Env.Stdout, plan.Script())
	return err
}

package cli

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fleetview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/urfave/cli/v2"
)

func (s *session) explainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "Show where each value of a cluster's inputs comes from, and what it overrides",
		ArgsUsage: "CLUSTER [NAME]|KIND.FIELD",
		Description: "NAME is a component, or an entry of --list. -o wide adds the place in the document, and the revision that set the value, with its actor. <N: the value was set before revision N, the oldest that the server keeps.\n\n" +
			args.ExampleText("explain demo-cluster-01 podinfo --path replicaCount", "explain access.on.labels", "explain --fields strategy"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "list", Usage: "of this `LIST` as it is polled: " + args.ListOf(kinds.InputTypeNames()) + ", or a resource type; without NAME all", Value: kinds.Components.Inputs.Name},
			&cli.StringFlag{Name: "fields", Usage: "instead: show type and description of the fields of this `KIND[.FIELD...]`, such as cluster.patches, without a server"},
			&cli.StringFlag{Name: "path", Usage: "only this `PATH` of the component's values, as in patches; with a slash first, the values at or below this JSON pointer in an input"},
			&cli.IntFlag{Name: "revision", Usage: "explain the inputs served at this `REVISION`, without the revisions that set the values"},
		},
		Action: s.explain,
	}
}

func (s *session) explain(c *cli.Context) error {
	if c.IsSet("fields") {
		return s.explainFields(c, c.String("fields"))
	}
	operands := c.Args().Slice()
	if kind, _, isField := strings.Cut(c.Args().First(), "."); isField && len(operands) == 1 {
		if _, known := kinds.Find(kind); known || documents.IsResource(kind) {
			return s.explainFields(c, operands[0])
		}
	}
	if len(operands) < 1 || len(operands) > 2 {
		return args.Errorf("%s takes CLUSTER, and optionally NAME", c.Command.HelpName)
	}
	operands[0] = strings.TrimPrefix(strings.TrimPrefix(operands[0], "cluster/"), "clusters/") // as kubectl names objects
	if err := args.CheckIDs([]string{"CLUSTER", "NAME"}[:len(operands)], operands); err != nil {
		return err
	}
	pointer := c.String("path")
	if c.IsSet("path") && !strings.HasPrefix(pointer, "/") {
		if len(operands) < 2 {
			return args.Errorf("--path needs one component, unless it is a JSON pointer such as /component_version")
		}
		pointer = "/patches/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(c.String("path"))
	}
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	a, err := conn.Receive(s.explanation(c, client, operands, pointer))
	if err != nil {
		return err
	}
	var ex api.Explanation
	if err := a.Decode(&ex); err != nil {
		return err
	}
	if c.IsSet("path") && !slices.ContainsFunc(ex.Inputs, func(i api.ExplainedInput) bool { return len(i.Values) > 0 }) {
		return conn.WithHint(fmt.Errorf("there is no value at %s", pointer), "omit --path to see all; a path with a slash first, such as /component_version, is a JSON pointer in the input")
	}
	return s.Print(c, fleetview.Explanation(ex, a.Body, kinds.NameOf))
}

func (s *session) explanation(c *cli.Context, client conn.Client, operands []string, pointer string) (*http.Response, error) {
	var at *string
	if pointer != "" {
		at = &pointer
	}
	var revision *int64
	if c.IsSet("revision") {
		revision = new(int64(c.Int("revision")))
	}
	if len(operands) == 1 {
		return client.ExplainCluster(c.Context, operands[0], &api.ExplainClusterParams{Pointer: at, Revision: revision})
	}
	return client.ExplainInput(c.Context, operands[0], c.String("list"), operands[1], &api.ExplainInputParams{Pointer: at, Revision: revision})
}

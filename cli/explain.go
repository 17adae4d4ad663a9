package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/oapi-codegen/nullable"
	"github.com/urfave/cli/v2"
)

func (s *session) explainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "Show where each value of a cluster's inputs comes from, and what it overrides",
		ArgsUsage: "CLUSTER [NAME]",
		Description: "NAME is a component, or an entry of --list. -o wide adds the place in the document, and the revision that set the value, with its actor. <N: the value was set before revision N, the oldest that the server keeps.\n\n" +
			args.ExampleText("explain demo-cluster-01 podinfo --path replicaCount", "explain --fields cluster.patches"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "list", Usage: "of this `LIST` as it is polled: " + args.ListOf(inputTypeNames()) + ", or a resource type; without NAME all", Value: components.inputs.name},
			&cli.StringFlag{Name: "fields", Usage: "instead: show type and description of the fields of this `KIND[.FIELD...]`, such as cluster.patches, without a server"},
			&cli.StringFlag{Name: "path", Usage: "only this `PATH` of the component's values, as in patches"},
			&cli.StringFlag{Name: "pointer", Usage: "only values at or below this JSON `POINTER` in an input"},
		},
		Action: s.explain,
	}
}

func (s *session) explain(c *cli.Context) error {
	if c.IsSet("fields") {
		return s.explainFields(c, c.String("fields"))
	}
	operands := c.Args().Slice()
	if len(operands) < 1 || len(operands) > 2 {
		return args.Errorf("%s takes CLUSTER, and optionally NAME", c.Command.HelpName)
	}
	if err := checkIDs([]string{"CLUSTER", "NAME"}[:len(operands)], operands); err != nil {
		return err
	}
	pointer := c.String("pointer")
	if c.IsSet("path") {
		if c.IsSet("pointer") || len(operands) < 2 {
			return args.Errorf("--path needs one component, and replaces --pointer")
		}
		pointer = "/patches/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(c.String("path"))
	}
	conn, err := s.connect(c)
	if err != nil {
		return err
	}
	a, err := receive(s.explanation(c, conn, operands, pointer))
	if err != nil {
		return err
	}
	return s.print(c, explained(a))
}

func (s *session) explanation(c *cli.Context, conn client, operands []string, pointer string) (*http.Response, error) {
	var at *string
	if pointer != "" {
		at = &pointer
	}
	if len(operands) == 1 {
		return conn.ExplainCluster(c.Context, operands[0], &api.ExplainClusterParams{Pointer: at})
	}
	return conn.ExplainInput(c.Context, operands[0], c.String("list"), operands[1], &api.ExplainInputParams{Pointer: at})
}

// explained returns an explanation as output.
func explained(a answer) render.Output {
	return render.Output{
		Document: a.body,
		Tables: func() ([]render.Table, error) {
			var ex api.Explanation
			if err := a.decode(&ex); err != nil {
				return nil, err
			}
			t := render.Table{Header: []string{"INPUT", "POINTER", "VALUE", "SOURCE", "OVERRIDES", "SOURCE POINTER", "REVISION", "ACTOR"}, Narrow: 5}
			for _, in := range ex.Inputs {
				for _, v := range in.Values {
					var instead []string
					for _, source := range v.InsteadOf {
						instead = append(instead, shortOrigin(source)+" "+valueText(source.Value))
					}
					t.Rows = append(t.Rows, []string{
						in.List + "/" + in.ID, v.Pointer, valueText(v.Value), shortOrigin(v.SaidBy), strings.Join(instead, ", "),
						v.SaidBy.Pointer, setInRevision(v.SaidBy), v.SaidBy.Actor,
					})
				}
			}
			if len(ex.Inputs) == 1 { // the command line names the input, and the column is wide
				t = t.Without(0)
			}
			return []render.Table{t}, nil
		},
		Names: func() ([]string, error) {
			var ex api.Explanation
			if err := a.decode(&ex); err != nil {
				return nil, err
			}
			var names []string
			for _, in := range ex.Inputs {
				names = append(names, in.List+"/"+in.ID)
			}
			return names, nil
		},
	}
}

// setInRevision returns the revision that set a value: "<N" when it is older than N, the oldest revision that the server keeps;
// empty for a default.
func setInRevision(source api.ValueSource) string {
	switch {
	case source.SetBefore > 0:
		return fmt.Sprintf("<%d", source.SetBefore)
	case source.Revision > 0:
		return strconv.FormatInt(source.Revision, 10)
	}
	return ""
}

// valueText returns a value as JSON; empty without a value.
func valueText(value nullable.Nullable[json.RawMessage]) string {
	if value.IsNull() {
		return "null"
	}
	raw, _ := value.Get() // or it is not specified
	return string(raw)
}

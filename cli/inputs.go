package cli

import (
	"encoding/json"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// inputType is one of the lists that a cluster's Flux polls.
type inputType struct {
	name string
	view render.View
}

// inputTypes returns all lists in the order of the kinds.
func inputTypes() []inputType {
	var types []inputType
	for _, n := range definitions() {
		types = append(types, n.inputs)
	}
	return types
}

func inputTypeNames() []string {
	var names []string
	for _, t := range inputTypes() {
		names = append(names, t.name)
	}
	return names
}

// inputType returns the list of an endpoint, of a compiled-in kind or of a resource type.
func (s *session) inputType(c *cli.Context, conn client, name string) (inputType, error) {
	for _, t := range inputTypes() {
		if t.name == name {
			return t, nil
		}
	}
	of, err := s.typeOf(c.Context, conn, name)
	switch apiclient.ErrorCode(err) {
	case "not_found":
		return inputType{}, args.Errorf("there is no type %q; there are %s, and the fleet's resource types", name, args.ListOf(inputTypeNames()))
	case "method_not_allowed": // a server in read-only mode serves polls, but not the types
		return resourcesOfID(name).inputs, nil
	}
	return resourcesOf(of).inputs, err
}

// inputCommands print responses to polls.
type inputCommands struct{ *session }

func (s inputCommands) inputsCommand() *cli.Command {
	names := inputTypeNames()
	return &cli.Command{
		Name:      "inputs",
		Usage:     "Show the inputs that a cluster's Flux receives",
		ArgsUsage: "CLUSTER",
		Description: "CLUSTER is an id or a DNS name; a name with a dot in it is taken for a DNS name.\n" +
			"--static prints the list alone, in the form of flux-operator build rset -f RESOURCESET --inputs-from FILE.\n\n" +
			args.ExampleText("inputs demo-cluster-01 --type namespaces --static > inputs.yaml"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "type", Value: names[0], Usage: "`TYPE` of the inputs: " + args.ListOf(names) + ", or a resource type"},
			&cli.BoolFlag{Name: "static", Usage: "only the list, as YAML without -o"},
		},
		Action: withArguments(func(c *cli.Context, operands []string) error {
			return s.printInputs(c, operands[0], c.String("type"))
		}),
	}
}

func (s inputCommands) printInputs(c *cli.Context, cluster, typ string) error {
	conn, err := s.connect(c)
	if err != nil {
		return err
	}
	if err := args.CheckID("--type", typ); err != nil {
		return err
	}
	t, err := s.inputType(c, conn, typ)
	if err != nil {
		return err
	}
	dns, err := s.dnsOf(c, conn, cluster)
	if err != nil {
		return err
	}
	a, err := receive(conn.PollResources(c.Context, dns, t.name, nil))
	if err != nil {
		return err
	}
	var body struct {
		Inputs []json.RawMessage `json:"inputs"`
	}
	if err := a.decode(&body); err != nil {
		return err
	}
	out := documentKind{name: strings.TrimSuffix(t.name, "s"), view: t.view}.outputOf(a.body, body.Inputs...)
	if !c.Bool("static") {
		return s.print(c, out)
	}
	if body.Inputs == nil {
		body.Inputs = []json.RawMessage{}
	}
	out.Document = body.Inputs
	if !c.IsSet("output") {
		return s.printAs(c, "yaml", out)
	}
	return s.print(c, out)
}

// dnsOf returns the DNS name to poll. An id never contains a dot. A server in read-only mode does not serve clusters by id: there,
// and for an unknown id, the word is taken for a name without a dot.
func (s *session) dnsOf(c *cli.Context, conn client, cluster string) (string, error) {
	if strings.Contains(cluster, ".") {
		return cluster, nil
	}
	doc, err := receiveAs[api.Cluster](conn.GetCluster(c.Context, cluster, nil))
	if code := apiclient.ErrorCode(err); code == "not_found" || code == "method_not_allowed" {
		return cluster, nil
	}
	return doc.ClusterDNS, err
}

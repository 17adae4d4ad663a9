package cli

import (
	"encoding/json"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// inputType returns the list of an endpoint, of a compiled-in kind or of a resource type.
func (s *session) inputType(c *cli.Context, client conn.Client, name string) (kinds.InputType, error) {
	for _, t := range kinds.InputTypes() {
		if t.Name == name {
			return t, nil
		}
	}
	of, err := s.typeOf(c.Context, client, name)
	switch apiclient.ErrorCode(err) {
	case "not_found":
		return kinds.InputType{}, args.Errorf("there is no type %q; there are %s, and the fleet's resource types", name, args.ListOf(kinds.InputTypeNames()))
	case "method_not_allowed": // a server in read-only mode serves polls, but not the types
		return kinds.ResourcesOfID(name).Inputs, nil
	}
	return kinds.ResourcesOf(of).Inputs, err
}

// inputCommands print responses to polls.
type inputCommands struct{ *session }

func (s inputCommands) inputsCommand() *cli.Command {
	names := kinds.InputTypeNames()
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
		Action: args.WithOperands(func(c *cli.Context, operands []string) error {
			return s.printInputs(c, operands[0], c.String("type"))
		}),
	}
}

func (s inputCommands) printInputs(c *cli.Context, cluster, typ string) error {
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	if err := args.CheckID("--type", typ); err != nil {
		return err
	}
	t, err := s.inputType(c, client, typ)
	if err != nil {
		return err
	}
	dns, err := s.dnsOf(c, client, cluster)
	if err != nil {
		return err
	}
	a, err := conn.Receive(client.PollResources(c.Context, dns, t.Name, nil))
	if apiclient.ErrorCode(err) == "forbidden" {
		return conn.WithHint(err, "inputs polls, which identities with limits may not; explain and render show what they may read")
	}
	if err != nil {
		return err
	}
	var body struct {
		Inputs []json.RawMessage `json:"inputs"`
	}
	if err := a.Decode(&body); err != nil {
		return err
	}
	out := kinds.Kind{Name: strings.TrimSuffix(t.Name, "s"), View: t.View}.OutputOf(a.Body, body.Inputs...)
	if !c.Bool("static") {
		return s.Print(c, out)
	}
	if body.Inputs == nil {
		body.Inputs = []json.RawMessage{}
	}
	out.Document = body.Inputs
	if !c.IsSet("output") {
		return s.PrintAs(c, "yaml", out)
	}
	return s.Print(c, out)
}

// dnsOf returns the DNS name to poll. An id never contains a dot. A server in read-only mode does not serve clusters by id: there,
// and for an unknown id, the word is taken for a name without a dot.
func (s *session) dnsOf(c *cli.Context, client conn.Client, cluster string) (string, error) {
	if strings.Contains(cluster, ".") {
		return cluster, nil
	}
	doc, err := conn.ReceiveAs[api.Cluster](client.GetCluster(c.Context, cluster, nil))
	if code := apiclient.ErrorCode(err); code == "not_found" || code == "method_not_allowed" {
		return cluster, nil
	}
	return doc.ClusterDNS, err
}

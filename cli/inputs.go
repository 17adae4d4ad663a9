package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/argv"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/gen/apiclient"
	"github.com/urfave/cli/v2"
)

// inputType is one of the lists that a cluster's Flux polls.
type inputType struct {
	name string
	poll func(ctx context.Context, c client, dns string) (*http.Response, error)
	view view
}

var inputTypes = []inputType{
	{
		"platform-components",
		func(ctx context.Context, c client, dns string) (*http.Response, error) {
			return c.PollPlatformComponents(ctx, dns, nil)
		},
		view{
			[]string{"ID", "ENABLED", "TYPE", "VERSION", "TAG", "PATH", "PATCHES", "SOURCE", "DEPENDENCIES"},
			7,
			rowOf(func(d api.FluxPlatformComponent) []string {
				dependencies := make([]string, len(d.Dependencies))
				for i, dep := range d.Dependencies {
					dependencies[i] = dep.ID
				}
				return []string{
					d.ID, strconv.FormatBool(d.Enabled), d.Type, d.ComponentVersion, d.Source.OCITag, d.ComponentPath,
					strconv.Itoa(len(d.Patches)), d.Source.OCIURL, strings.Join(dependencies, ","),
				}
			}),
		},
	},
	{
		"namespaces",
		func(ctx context.Context, c client, dns string) (*http.Response, error) {
			return c.PollNamespaces(ctx, dns, nil)
		},
		view{
			[]string{"ID", "DELETION", "LABELS", "ANNOTATIONS"},
			3,
			rowOf(func(d api.FluxNamespace) []string {
				return []string{d.ID, d.DeletionPolicy, pairs(d.Labels), pairs(d.Annotations)}
			}),
		},
	},
	{
		"rolebindings",
		func(ctx context.Context, c client, dns string) (*http.Response, error) {
			return c.PollRoleBindings(ctx, dns, nil)
		},
		view{
			[]string{"ID", "ROLE", "SUBJECTS"},
			3,
			rowOf(func(d api.FluxRoleBinding) []string {
				subjects := make([]string, len(d.Subjects))
				for i, subject := range d.Subjects {
					subjects[i] = subject.Kind + ":" + strings.TrimPrefix(subject.Namespace+":"+subject.Name, ":")
				}
				return []string{d.ID, d.Role, strings.Join(subjects, ",")}
			}),
		},
	},
}

func (s *session) inputsCommand() *cli.Command {
	names := make([]string, len(inputTypes))
	for i, t := range inputTypes {
		names[i] = t.name
	}
	return &cli.Command{
		Name:      "inputs",
		Usage:     "Show what the Flux of a cluster receives",
		ArgsUsage: "CLUSTER",
		Description: "CLUSTER is an id or a DNS name; a name with a dot in it is taken for a DNS name.\n" +
			"--static prints the list alone, as flux-operator build rset -f RESOURCESET --inputs-from FILE takes it.\n\n" +
			argv.ExampleText("inputs demo-cluster-01 --type namespaces --static > inputs.yaml"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "type", Value: names[0], Usage: "`TYPE` of the inputs: " + argv.ListOf(names)},
			&cli.BoolFlag{Name: "static", Usage: "only the list, as YAML unless -o says otherwise"},
		},
		Action: func(c *cli.Context) error {
			args, err := arguments(c, "CLUSTER")
			if err != nil {
				return err
			}
			for _, t := range inputTypes {
				if t.name == c.String("type") {
					return s.printInputs(c, args[0], t)
				}
			}
			return argv.Errorf("there is no type %q; there are %s", c.String("type"), argv.ListOf(names))
		},
	}
}

func (s *session) printInputs(c *cli.Context, cluster string, t inputType) error {
	conn, err := s.ready(c)
	if err != nil {
		return err
	}
	dns, err := s.dnsOf(c, conn, cluster)
	if err != nil {
		return err
	}
	a, err := receive(t.poll(c.Context, conn, dns))
	if err != nil {
		return err
	}
	var body struct {
		Inputs []json.RawMessage `json:"inputs"`
	}
	if err := a.decode(&body); err != nil {
		return err
	}
	out := noun{name: strings.TrimSuffix(t.name, "s"), view: t.view}.shown(a.body, body.Inputs...)
	if !c.Bool("static") {
		return s.print(c, out)
	}
	if body.Inputs == nil {
		body.Inputs = []json.RawMessage{}
	}
	if out.Document, err = render.Encode(body.Inputs); err != nil {
		return err
	}
	if !c.IsSet("output") {
		return s.printAs(c, "yaml", out)
	}
	return s.print(c, out)
}

// dnsOf is the DNS name to poll for. An id never holds a dot. A server in read-only mode does not serve clusters by
// id: there, and when there is no such id, the word is taken for a name without a dot.
func (s *session) dnsOf(c *cli.Context, conn client, cluster string) (string, error) {
	if strings.Contains(cluster, ".") {
		return cluster, nil
	}
	a, err := receive(conn.GetCluster(c.Context, cluster, nil))
	switch apiclient.ErrorCode(err) {
	case "":
		if err != nil {
			return "", err
		}
	case "not_found", "method_not_allowed":
		return cluster, nil
	default:
		return "", err
	}
	var doc api.Cluster
	if err := a.decode(&doc); err != nil {
		return "", err
	}
	return doc.ClusterDNS, nil
}

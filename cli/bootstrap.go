package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/charts"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/bootstrap"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
	"github.com/urfave/cli/v2"
)

func (s bootstrapper) bootstrapCommand() *cli.Command {
	return &cli.Command{
		Name:      "bootstrap",
		Usage:     "Print the manifests that connect a cluster to the API",
		ArgsUsage: "CLUSTER",
		Description: "Prints manifests for kubectl apply, or with --values the values of chart flux-resourceset-cluster. Either way\n" +
			"Flux Operator must be installed on the cluster. CLUSTER is an id or a DNS name. Resource types that have a\n" +
			"template are among it; of one that is made later, run it again.\n\n" +
			"The output has a new token that only polls for this cluster, unless --token-secret names a Secret on the cluster,\n" +
			"--token-file has the token, or the cluster has a token already. It is shown this once: send the output where it\n" +
			"belongs, and use token rotate when it is lost. The program's own token is never used.\n\n" +
			"bootstrap ci is for pipelines; use the DNS name of a cluster with the id ci.\n\n" +
			args.ExampleText(
				"bootstrap demo-cluster-01 --poll-url https://flux-api.example.com | kubectl apply -f -",
				"bootstrap demo-cluster-01 --poll-url https://flux-api.example.com --create-token=false | kubectl apply -f -",
				"bootstrap demo-cluster-01 --poll-url https://flux-api.example.com --token-file poll-token | kubectl apply -f -",
				"bootstrap demo-cluster-01 --poll-url https://flux-api.example.com --tls-secret client-tls --token-secret '' | kubectl apply -f -",
				"bootstrap demo-cluster-01 --poll-url https://flux-api.example.com --values > values.yaml",
			),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "poll-url", Usage: "`URL` of the API as the cluster reaches it (default: the one this program uses, --api-url)"},
			&cli.StringFlag{Name: "token-secret", Value: bootstrap.TokenSecret, Usage: "`NAME` of the Secret in " + resourceset.Namespace + " whose key token is the poll token; empty if the certificate in --tls-secret replaces it"},
			&cli.StringFlag{Name: "token-file", Usage: "print that Secret too, with the token in `FILE`; - is standard input"},
			&cli.BoolFlag{Name: "create-token", Usage: "create the token poll-CLUSTER, and print that Secret too, with it (default: where it is permitted, without --token-secret, --token-file, -o name and an earlier token)"},
			&cli.StringFlag{Name: "tls-secret", Usage: "`NAME` of a Secret in " + resourceset.Namespace + " with ca.crt for a private CA, tls.crt and tls.key for mTLS"},
			&cli.DurationFlag{Name: "interval", Usage: "interval of polls (default: 1m)"},
			&cli.BoolFlag{Name: "no-receipts", Usage: "the cluster sends no receipts for applied inputs"},
			&cli.BoolFlag{Name: "values", Usage: "values for the chart instead of manifests"},
		},
		Action:      args.WithOperands(func(c *cli.Context, operands []string) error { return s.bootstrap(c, operands[0]) }),
		Subcommands: []*cli.Command{s.ciCommand()},
	}
}

func (s bootstrapper) bootstrap(c *cli.Context, cluster string) error {
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	via := bootstrap.Connection{
		URL:    strings.TrimRight(cmp.Or(c.String("poll-url"), s.Connection.Settings.URL), "/"),
		Secret: c.String("token-secret"), TLSSecret: c.String("tls-secret"), NoReceipts: c.Bool("no-receipts"),
	}
	if err := via.CheckURL(); err != nil {
		return err
	}
	if !c.IsSet("poll-url") && args.LoopbackURL(via.URL) {
		s.Note("The cluster will poll %s, which is the cluster itself: set --poll-url to the URL by which it reaches the API.", via.URL)
	}
	if via.Secret == "" && (via.TLSSecret == "" || c.IsSet("token-file") || c.Bool("create-token")) {
		return args.Errorf("--token-secret '' is for a client certificate: it needs --tls-secret and no token")
	}
	if c.IsSet("interval") {
		if c.Duration("interval") <= 0 {
			return args.Errorf("--interval must be more than 0")
		}
		via.Interval = c.Duration("interval")
	}
	create, err := s.createsToken(c, via)
	if err != nil {
		return err
	}
	if file := c.String("token-file"); file != "" {
		if via.Token, err = s.readToken(file); err != nil {
			return err
		}
	}
	doc, err := s.clusterOf(c, client, cluster)
	if err != nil {
		return err
	}
	via.Name, via.DNS, via.Environment = doc.ClusterName, doc.ClusterDNS, doc.Environment
	types, err := s.typesWithTemplate(c, client)
	if err != nil {
		return err
	}
	if create {
		if via.Token, err = s.pollToken(c, client, doc.ID); err != nil {
			if !skipsToken(c, err) {
				return err
			}
			s.Note("No token was created: %s", conn.ErrorText(err))
		}
	}
	if via.Token == "" && via.Secret != "" {
		s.Note("The poll token is expected in Secret %s/%s, key token.", resourceset.Namespace, via.Secret)
	}
	if c.Bool("values") {
		return s.printChartValues(c, via, types)
	}
	shipped, err := resourceset.ParseObjects(charts.Manifests)
	if err != nil {
		return err
	}
	for _, of := range types {
		made, err := resourceset.ForType(charts.Manifests, kinds.Namespaces.Inputs.Name, of.ID, charts.Receipt+of.Template)
		if err != nil {
			return err
		}
		shipped = append(shipped, made...)
	}
	var objects []json.RawMessage
	for _, obj := range via.Manifests(shipped) {
		raw, err := json.Marshal(obj)
		if err != nil {
			return err
		}
		objects = append(objects, raw)
	}
	return s.printObjects(c, objects)
}

// printChartValues prints values of the chart flux-resourceset-cluster.
func (s bootstrapper) printChartValues(c *cli.Context, via bootstrap.Connection, types []api.ResourceType) error {
	values, err := via.ChartValues()
	if err != nil {
		return err
	}
	var custom []map[string]any
	for _, of := range types {
		custom = append(custom, map[string]any{"type": of.ID, "template": of.Template})
	}
	if len(custom) > 0 {
		values["customResources"] = custom
	}
	format := "yaml"
	if c.String("output") == "json" {
		format = "json"
	}
	return s.PrintAs(c, format, render.Output{Document: values})
}

// typesWithTemplate returns the resource types that the cluster renders, and notes the others.
func (s bootstrapper) typesWithTemplate(c *cli.Context, client conn.Client) ([]api.ResourceType, error) {
	types, err := s.typesOf(c.Context, client)
	if err != nil {
		return nil, err
	}
	var without []string
	types = slices.DeleteFunc(types, func(of api.ResourceType) bool {
		if of.Template == "" {
			without = append(without, of.ID)
		}
		return of.Template == ""
	})
	if len(without) > 0 {
		s.Note("The output has no manifests for the resource types without a template: %s. The cluster needs a provider and a ResourceSet for each.", args.ListOf(without))
	}
	return types, nil
}

// createsToken reports whether to create a token for the cluster. It rejects flags with which the output would not contain the
// new token.
func (s bootstrapper) createsToken(c *cli.Context, via bootstrap.Connection) (bool, error) {
	lost := tokenCommands(s).checkSecretOutput(c)
	switch {
	case !c.IsSet("create-token"):
		return !c.IsSet("token-secret") && !c.IsSet("token-file") && lost == nil, nil
	case !c.Bool("create-token"):
		return false, nil
	case c.IsSet("token-file"):
		return false, args.Errorf("give --create-token or --token-file, not both")
	case c.Bool("values") && via.Secret != bootstrap.TokenSecret:
		return false, args.Errorf("the chart writes a token to Secret %s only: leave out --token-secret or --create-token", bootstrap.TokenSecret)
	}
	return lost == nil, lost
}

// skipsToken reports whether the output is useful although the token was not created: the cluster already has one, another user
// creates it, or the server does not support tokens. The Secret then comes from elsewhere. Chart values without the token are not
// useful: an upgrade of the chart with them deletes the Secret.
func skipsToken(c *cli.Context, err error) bool {
	return !c.IsSet("create-token") && !c.Bool("values") && slices.Contains([]string{"conflict", "forbidden", "unauthorized", "not_found"}, apiclient.ErrorCode(err))
}

// pollToken creates the token of a cluster.
func (s bootstrapper) pollToken(c *cli.Context, client conn.Client, cluster string) (string, error) {
	a, err := tokenCommands(s).createToken(c, client, map[string]any{
		"name": "poll-" + cluster, "role": "poll", "cluster_id": cluster, "description": "made by bootstrap",
	})
	if apiclient.ErrorCode(err) == "conflict" {
		return "", conn.WithHint(err, fmt.Sprintf("create a new secret for that token: token rotate poll-%s -q | %s bootstrap %s --token-file -; or, if the Secret on the cluster has one, use --create-token=false", cluster, args.Program, cluster))
	}
	if err != nil {
		return "", err
	}
	var issued api.IssuedToken
	if err := a.Decode(&issued); err != nil {
		return "", err
	}
	return issued.Token, nil
}

func (s bootstrapper) readToken(file string) (string, error) {
	raw, err := s.Environment().Input(file)
	if err != nil {
		return "", err
	}
	token := string(bytes.TrimSpace(raw))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("--token-file: a token is visible ASCII characters without spaces")
	}
	return token, nil
}

// clusterOf finds a cluster by id, or by DNS name if the argument contains a dot.
func (s bootstrapper) clusterOf(c *cli.Context, client conn.Client, cluster string) (api.Cluster, error) {
	if !strings.Contains(cluster, ".") {
		return conn.ReceiveAs[api.Cluster](client.GetCluster(c.Context, cluster, nil))
	}
	docs, err := conn.ReceiveAs[[]api.Cluster](client.ListClusters(c.Context, &api.ListClustersParams{}, conn.Query(url.Values{"cluster_dns": {cluster}})))
	if err != nil {
		return api.Cluster{}, err
	}
	if len(docs) != 1 {
		return api.Cluster{}, fmt.Errorf("there is no cluster whose cluster_dns is %q", cluster)
	}
	return docs[0], nil
}

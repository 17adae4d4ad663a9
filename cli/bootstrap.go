package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/charts"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/resourceset"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// tokenSecret is the default name of the Secret with the poll token.
const tokenSecret = "internal-api-token"

const reconcileEvery = "fluxcd.controlplane.io/reconcileEvery"

// bootstrapper prints the manifests with which a cluster joins the fleet.
type bootstrapper struct{ *session }

func (s bootstrapper) bootstrapCommand() *cli.Command {
	return &cli.Command{
		Name:      "bootstrap",
		Usage:     "Print the manifests that connect a cluster to the API",
		ArgsUsage: "CLUSTER",
		Description: "Prints manifests for kubectl apply, or with --values the values of chart flux-resourceset-cluster. Either way\n" +
			"Flux Operator must be installed on the cluster. CLUSTER is an id or a DNS name. Resource types that have a\n" +
			"template are among it; of one that is made later, run it again.\n\n" +
			"The program's own token is never used: name a Secret on the cluster, pass the token in a file, or let\n" +
			"--create-token make one that is good for this cluster's polls only. That one is shown this once: send the output\n" +
			"where it belongs, and use token rotate when it is lost.\n\n" +
			args.ExampleText(
				"bootstrap demo-cluster-01 --poll-url https://flux-api.example.com | kubectl apply -f -",
				"bootstrap demo-cluster-01 --poll-url https://flux-api.example.com --create-token | kubectl apply -f -",
				"bootstrap demo-cluster-01 --poll-url https://flux-api.example.com --token-file poll-token | kubectl apply -f -",
				"bootstrap demo-cluster-01 --poll-url https://flux-api.example.com --tls-secret client-tls --token-secret '' | kubectl apply -f -",
				"bootstrap demo-cluster-01 --poll-url https://flux-api.example.com --values > values.yaml",
			),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "poll-url", Usage: "`URL` of the API as the cluster reaches it (default: the one this program uses, --api-url)"},
			&cli.StringFlag{Name: "token-secret", Value: tokenSecret, Usage: "`NAME` of the Secret in " + resourceset.Namespace + " whose key token is the poll token; empty if the certificate in --tls-secret replaces it"},
			&cli.StringFlag{Name: "token-file", Usage: "print that Secret too, with the token in `FILE`; - is standard input"},
			&cli.BoolFlag{Name: "create-token", Usage: "create the token poll-CLUSTER, and print that Secret too, with it"},
			&cli.StringFlag{Name: "tls-secret", Usage: "`NAME` of a Secret in " + resourceset.Namespace + " with ca.crt for a private CA, tls.crt and tls.key for mTLS"},
			&cli.DurationFlag{Name: "interval", Usage: "interval of polls (default: 5m)"},
			&cli.BoolFlag{Name: "no-receipts", Usage: "the cluster sends no receipts for applied inputs"},
			&cli.BoolFlag{Name: "values", Usage: "values for the chart instead of manifests"},
		},
		Action: func(c *cli.Context) error {
			operands, err := arguments(c, "CLUSTER")
			if err != nil {
				return err
			}
			return s.bootstrap(c, operands[0])
		},
	}
}

// identityOf is the identity of a cluster and how it reaches the API.
type identityOf struct {
	cluster             api.Cluster
	url                 string
	secret, token       string
	tlsSecret, interval string
	noReceipts          bool               // no receipts
	types               []api.ResourceType // with a template
}

func (s bootstrapper) bootstrap(c *cli.Context, cluster string) error {
	conn, err := s.connect(c)
	if err != nil {
		return err
	}
	id := identityOf{url: c.String("poll-url"), secret: c.String("token-secret"), tlsSecret: c.String("tls-secret"), noReceipts: c.Bool("no-receipts")}
	if id.url == "" {
		id.url = s.connection.settings.URL
	}
	id.url = strings.TrimRight(id.url, "/")
	if err := s.checkPollURL(id, c.IsSet("poll-url")); err != nil {
		return err
	}
	if id.secret == "" && (id.tlsSecret == "" || c.IsSet("token-file") || c.Bool("create-token")) {
		return args.Errorf("--token-secret '' is for a client certificate: it needs --tls-secret and no token")
	}
	if c.IsSet("interval") {
		if c.Duration("interval") <= 0 {
			return args.Errorf("--interval must be more than 0")
		}
		id.interval = trimDuration(c.Duration("interval").String())
	}
	if c.Bool("create-token") {
		if err := s.checkCreateToken(c, id); err != nil {
			return err
		}
	}
	if file := c.String("token-file"); file != "" {
		if id.token, err = s.readToken(file); err != nil {
			return err
		}
	}
	if id.cluster, err = s.clusterOf(c, conn, cluster); err != nil {
		return err
	}
	if id.types, err = s.typesWithTemplate(c, conn); err != nil {
		return err
	}
	if c.Bool("create-token") {
		if id.token, err = s.pollToken(c, conn, id.cluster.ID); err != nil {
			return err
		}
	}
	if id.token == "" && id.secret != "" {
		s.note("The poll token is expected in Secret %s/%s, key token.", resourceset.Namespace, id.secret)
	}
	if c.Bool("values") {
		return s.printChartValues(c, id)
	}
	objects, err := id.manifests()
	if err != nil {
		return err
	}
	return s.printObjects(c, objects)
}

// typesWithTemplate returns the resource types that the cluster renders, and notes the others.
func (s bootstrapper) typesWithTemplate(c *cli.Context, conn client) ([]api.ResourceType, error) {
	types, err := s.knownTypes(c.Context, conn)
	if errors.Is(err, errNoTypes) {
		s.note("The output has no manifests for resource types: %v.", err)
		return nil, nil
	}
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
		s.note("The output has no manifests for the resource types without a template: %s. The cluster needs a provider and a ResourceSet for each.", args.ListOf(without))
	}
	return types, nil
}

// checkCreateToken rejects, before a token is created, a command line that would lose it or could not print it.
func (s bootstrapper) checkCreateToken(c *cli.Context, id identityOf) error {
	switch {
	case c.IsSet("token-file"):
		return args.Errorf("give --create-token or --token-file, not both")
	case c.Bool("values") && id.secret != tokenSecret:
		return args.Errorf("the chart writes a token to Secret %s only: leave out --token-secret or --create-token", tokenSecret)
	}
	return tokenCommands(s).checkSecretOutput(c)
}

// pollToken creates the token of a cluster.
func (s bootstrapper) pollToken(c *cli.Context, conn client, cluster string) (string, error) {
	a, err := tokenCommands(s).createToken(c, conn, map[string]any{
		"name": "poll-" + cluster, "role": "poll", "cluster_id": cluster, "description": "made by bootstrap --create-token",
	})
	if apiclient.ErrorCode(err) == "conflict" {
		return "", hintedError{err, fmt.Sprintf("create a new secret for that token: token rotate poll-%s -q | %s bootstrap %s --token-file -", cluster, args.Program, cluster)}
	}
	if err != nil {
		return "", err
	}
	var issued api.IssuedToken
	if err := a.decode(&issued); err != nil {
		return "", err
	}
	return issued.Token, nil
}

func (s bootstrapper) checkPollURL(id identityOf, given bool) error {
	u, err := url.Parse(id.url)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return args.Errorf("--poll-url must be an https:// or http:// URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return args.Errorf("--poll-url must have no user, query or fragment")
	case u.Scheme == "http" && id.tlsSecret != "":
		return args.Errorf("--tls-secret needs an https:// URL")
	}
	if ip := net.ParseIP(u.Hostname()); !given && (u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())) {
		s.note("The cluster will poll %s, which is the cluster itself: set --poll-url to the URL by which it reaches the API.", id.url)
	}
	return nil
}

func (s bootstrapper) readToken(file string) (string, error) {
	var raw []byte
	var err error
	if file == "-" {
		raw, err = io.ReadAll(s.env.Stdin)
	} else {
		raw, err = os.ReadFile(file)
	}
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
func (s bootstrapper) clusterOf(c *cli.Context, conn client, cluster string) (api.Cluster, error) {
	var doc api.Cluster
	if !strings.Contains(cluster, ".") {
		a, err := receive(conn.GetCluster(c.Context, cluster, nil))
		if err != nil {
			return doc, err
		}
		return doc, a.decode(&doc)
	}
	a, err := receive(conn.ListClusters(c.Context, &api.ListClustersParams{}, query(url.Values{"cluster_dns": {cluster}})))
	if err != nil {
		return doc, err
	}
	var docs []api.Cluster
	if err := a.decode(&docs); err != nil {
		return doc, err
	}
	if len(docs) != 1 {
		return doc, fmt.Errorf("there is no cluster whose cluster_dns is %q", cluster)
	}
	return docs[0], nil
}

// printChartValues prints values of the chart flux-resourceset-cluster. All others keep the chart's defaults.
func (s bootstrapper) printChartValues(c *cli.Context, id identityOf) error {
	values := resourceset.Object{
		"cluster": resourceset.Object{"name": id.cluster.ClusterName, "dns": id.cluster.ClusterDNS, "environment": id.cluster.Environment},
	}
	reach := resourceset.Object{"url": id.url}
	switch {
	case id.secret == "": // the certificate authenticates
	case id.token == "":
		reach["existingSecret"] = id.secret
	case id.secret == tokenSecret:
		reach["token"] = id.token
	default:
		return args.Errorf("the chart writes a token to Secret %s only: leave out --token-secret or --token-file", tokenSecret)
	}
	if id.tlsSecret != "" {
		reach["tls"] = resourceset.Object{"existingSecret": id.tlsSecret}
	}
	values["api"] = reach
	if id.interval != "" {
		values["interval"] = id.interval
	}
	if id.noReceipts {
		values["receipts"] = resourceset.Object{"enabled": false}
	}
	if len(id.types) > 0 {
		custom := make([]resourceset.Object, len(id.types))
		for i, of := range id.types {
			custom[i] = resourceset.Object{"type": of.ID, "template": of.Template}
		}
		values["customResources"] = custom
	}
	document, err := render.Encode(values)
	if err != nil {
		return err
	}
	if c.IsSet("output") && c.String("output") == "json" {
		return s.printAs(c, "json", render.Output{Document: document})
	}
	return s.printAs(c, "yaml", render.Output{Document: document})
}

// manifests returns the shipped manifests with the names of this cluster.
func (id identityOf) manifests() ([]resourceset.Object, error) {
	shipped, err := resourceset.ParseObjects(charts.Manifests)
	if err != nil {
		return nil, err
	}
	named := func(kind, name string) resourceset.Object {
		return resourceset.Object{"apiVersion": "v1", "kind": kind, "metadata": resourceset.Object{
			"name": name, "namespace": resourceset.Namespace, "labels": resourceset.Object{"app.kubernetes.io/name": "flux-resourceset-cluster"},
		}}
	}
	identity := named("ConfigMap", "cluster-identity")
	identity["data"] = resourceset.Object{
		"CLUSTER_NAME": id.cluster.ClusterName, "CLUSTER_DNS": id.cluster.ClusterDNS,
		"ENVIRONMENT": id.cluster.Environment, "INTERNAL_API_URL": id.url,
	}
	objects := []resourceset.Object{identity}
	if id.token != "" {
		secret := named("Secret", id.secret)
		secret["type"], secret["stringData"] = "Opaque", resourceset.Object{"token": id.token}
		objects = append(objects, secret)
	}
	for _, of := range id.types {
		made, err := objectsOfType(charts.Manifests, of)
		if err != nil {
			return nil, err
		}
		shipped = append(shipped, made...)
	}
	for _, obj := range shipped {
		if resourceset.Text(obj, "kind") == resourceset.ProviderKind {
			id.address(obj)
		}
		objects = append(objects, obj)
	}
	return objects, nil
}

// address points a provider at the API.
func (id identityOf) address(obj resourceset.Object) {
	spec, _ := obj["spec"].(resourceset.Object)
	named := strings.NewReplacer("${INTERNAL_API_URL}", id.url, "${CLUSTER_DNS}", id.cluster.ClusterDNS)
	spec["url"] = named.Replace(resourceset.Text(spec, "url"))
	id.nameCluster(spec)
	id.addressReceipts(spec, named)
	spec["secretRef"] = resourceset.Object{"name": id.secret}
	if id.secret == "" {
		delete(spec, "secretRef")
	}
	if strings.HasPrefix(id.url, "http://") {
		spec["insecure"] = true
	}
	if id.tlsSecret != "" {
		spec["certSecretRef"] = resourceset.Object{"name": id.tlsSecret}
	}
	metadata, _ := obj["metadata"].(resourceset.Object)
	if annotations, ok := metadata["annotations"].(resourceset.Object); ok && id.interval != "" {
		annotations[reconcileEvery] = id.interval
	}
}

// nameCluster sets the DNS name that the templates require in each response.
func (id identityOf) nameCluster(spec resourceset.Object) {
	defaults, _ := spec["defaultValues"].(resourceset.Object)
	if settings, ok := defaults["settings"].(resourceset.Object); ok {
		settings["clusterDNS"] = id.cluster.ClusterDNS
	}
}

// addressReceipts configures how the templates send receipts to the API: in the same way as the provider polls.
func (id identityOf) addressReceipts(spec resourceset.Object, named *strings.Replacer) {
	defaults, _ := spec["defaultValues"].(resourceset.Object)
	settings, _ := defaults["settings"].(resourceset.Object)
	receipts, _ := settings["receipts"].(resourceset.Object)
	switch {
	case receipts == nil:
		return
	case id.noReceipts:
		delete(settings, "receipts")
		return
	}
	receipts["url"] = named.Replace(resourceset.Text(receipts, "url"))
	receipts["secret"] = id.secret
	if id.secret == "" {
		delete(receipts, "secret")
	}
	if id.tlsSecret != "" {
		receipts["tlsSecret"] = id.tlsSecret
	}
}

// trimDuration writes 5m0s as 5m.
func trimDuration(s string) string {
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

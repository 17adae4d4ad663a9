// Package bootstrap makes what connects a cluster to the API: Kubernetes manifests, or values of chart flux-resourceset-cluster. Its
// input is the cluster, how it reaches the API, and the shipped manifests with placeholders.
//
//	Connection ── ChartValues ─────────────────────────────> values
//	     └─────── Manifests <── shipped providers and sets
//	                  ├─ ConfigMap cluster-identity, Secret with the poll token
//	                  └─ providers with URL, Secrets, interval, receipts ──> objects
package bootstrap

import (
	"net/url"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// TokenSecret is the default name of the Secret with the poll token, and the only one that the chart writes.
const TokenSecret = "internal-api-token"

const reconcileEvery = "fluxcd.controlplane.io/reconcileEvery"

// Connection is a cluster and how it reaches the API.
type Connection struct {
	Name, DNS, Environment string // of the cluster
	URL                    string // of the API, without a slash at the end
	// Secret holds the poll token in its key token; empty: the certificate in TLSSecret authenticates the cluster.
	Secret string
	// Token is put into Secret; empty: the Secret exists.
	Token string
	// TLSSecret holds a CA, a client certificate or both; empty: none.
	TLSSecret string
	// Interval is the time between polls; 0: the shipped one.
	Interval   time.Duration
	NoReceipts bool
}

// CheckURL rejects a URL that providers cannot poll.
func (con Connection) CheckURL() error {
	u, err := url.Parse(con.URL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return args.Errorf("--poll-url must be an https:// or http:// URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return args.Errorf("--poll-url must have no user, query or fragment")
	case u.Scheme == "http" && con.TLSSecret != "":
		return args.Errorf("--tls-secret needs an https:// URL")
	}
	return nil
}

// ChartValues returns the values of the chart. All others keep the chart's defaults.
func (con Connection) ChartValues() (map[string]any, error) {
	api := map[string]any{"url": con.URL}
	switch {
	case con.Secret == "": // the certificate authenticates
	case con.Token == "":
		api["existingSecret"] = con.Secret
	case con.Secret == TokenSecret:
		api["token"] = con.Token
	default:
		return nil, args.Errorf("the chart writes a token to Secret %s only: leave out --token-secret or --token-file", TokenSecret)
	}
	if con.TLSSecret != "" {
		api["tls"] = map[string]any{"existingSecret": con.TLSSecret}
	}
	values := map[string]any{
		"cluster": map[string]any{"name": con.Name, "dns": con.DNS, "environment": con.Environment},
		"api":     api,
	}
	if con.Interval > 0 {
		values["interval"] = con.interval()
	}
	if con.NoReceipts {
		values["receipts"] = map[string]any{"enabled": false}
	}
	return values, nil
}

// Manifests returns the shipped objects, which it modifies, with the names of this cluster, and the objects that they refer to.
func (con Connection) Manifests(shipped []resourceset.Object) []resourceset.Object {
	named := func(kind, name string) resourceset.Object {
		return resourceset.Object{"apiVersion": "v1", "kind": kind, "metadata": resourceset.Object{
			"name": name, "namespace": resourceset.Namespace, "labels": resourceset.Object{"app.kubernetes.io/name": "flux-resourceset-cluster"},
		}}
	}
	identity := named("ConfigMap", "cluster-identity")
	identity["data"] = resourceset.Object{
		"CLUSTER_NAME": con.Name, "CLUSTER_DNS": con.DNS, "ENVIRONMENT": con.Environment, "INTERNAL_API_URL": con.URL,
	}
	objects := []resourceset.Object{identity}
	if con.Token != "" {
		secret := named("Secret", con.Secret)
		secret["type"], secret["stringData"] = "Opaque", resourceset.Object{"token": con.Token}
		objects = append(objects, secret)
	}
	for _, obj := range shipped {
		if resourceset.Text(obj, "kind") == resourceset.ProviderKind {
			con.configure(obj)
		}
	}
	return append(objects, shipped...)
}

// configure points a provider at the API, and sets the DNS name that the templates require in each response.
func (con Connection) configure(provider resourceset.Object) {
	spec, _ := provider["spec"].(resourceset.Object)
	placeholders := strings.NewReplacer("${INTERNAL_API_URL}", con.URL, "${CLUSTER_DNS}", con.DNS)
	spec["url"] = placeholders.Replace(resourceset.Text(spec, "url"))
	defaults, _ := spec["defaultValues"].(resourceset.Object)
	if settings, ok := defaults["settings"].(resourceset.Object); ok {
		settings["clusterDNS"] = con.DNS
		con.configureReceipts(settings, placeholders)
	}
	spec["secretRef"] = resourceset.Object{"name": con.Secret}
	if con.Secret == "" {
		delete(spec, "secretRef")
	}
	if strings.HasPrefix(con.URL, "http://") {
		spec["insecure"] = true
	}
	if con.TLSSecret != "" {
		spec["certSecretRef"] = resourceset.Object{"name": con.TLSSecret}
	}
	metadata, _ := provider["metadata"].(resourceset.Object)
	if annotations, ok := metadata["annotations"].(resourceset.Object); ok && con.Interval > 0 {
		annotations[reconcileEvery] = con.interval()
	}
}

// configureReceipts configures how the templates send receipts to the API: in the same way as the provider polls.
func (con Connection) configureReceipts(settings resourceset.Object, placeholders *strings.Replacer) {
	receipts, _ := settings["receipts"].(resourceset.Object)
	switch {
	case receipts == nil:
		return
	case con.NoReceipts:
		delete(settings, "receipts")
		return
	}
	receipts["url"] = placeholders.Replace(resourceset.Text(receipts, "url"))
	receipts["secret"] = con.Secret
	if con.Secret == "" {
		delete(receipts, "secret")
	}
	if con.TLSSecret != "" {
		receipts["tlsSecret"] = con.TLSSecret
	}
}

// interval returns the interval without units of zero: 5m, not 5m0s.
func (con Connection) interval() string {
	text := con.Interval.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

package rig

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is a cluster of the fleet that this control plane represents.
type Cluster struct {
	// ID in the fleet.
	ID string
	// Namespace takes the place of flux-system, so that one control plane can be several clusters at once. What they
	// install must not have the same names. Empty for flux-system itself.
	Namespace string
	// URL of the API.
	URL string
	// Token of the polls; empty for the read token.
	Token string
	// CreateToken is to make a token that is good for this cluster alone.
	CreateToken bool
	// NoToken leaves the token out: the TLSSecret holds a client certificate instead.
	NoToken bool
	// Interval of the polls; empty for a second.
	Interval string
	// TLSSecret is the name of a Secret with the authority to trust, and perhaps a client certificate; empty for the
	// system's authorities.
	TLSSecret string
	// NoReceipts omits the objects that report receipts: two for each input.
	NoReceipts bool
}

// Join applies the output of `flux-resourceset-cli bootstrap` for a cluster.
func (w *Env) Join(ctx context.Context, c Cluster) error {
	args := []string{"bootstrap", c.ID, "--poll-url", c.URL, "--interval", cmp.Or(c.Interval, "1s")}
	switch {
	case c.NoToken:
		args = append(args, "--token-secret", "")
	case c.CreateToken:
		args = append(args, "--create-token")
	default:
		args = append(args, "--token-file", "-")
	}
	if c.TLSSecret != "" {
		args = append(args, "--tls-secret", c.TLSSecret)
	}
	if c.NoReceipts {
		args = append(args, "--no-receipts")
	}
	manifests, err := w.cli(ctx, strings.NewReader(cmp.Or(c.Token, ReadToken)), args...)
	if err != nil {
		return err
	}
	return w.Install(ctx, c.Namespace, manifests)
}

// JoinChart installs chart flux-resourceset-cluster with these values, in a namespace that takes the place of
// flux-system, as in Cluster.
func (w *Env) JoinChart(ctx context.Context, namespace string, values map[string]any) error {
	return w.InstallChart(ctx, filepath.Join(w.root, "charts", "flux-resourceset-cluster"), namespace, values)
}

// InstallChart is JoinChart with a chart from a folder or a package, for example the chart of an earlier release.
func (w *Env) InstallChart(ctx context.Context, chart, namespace string, values map[string]any) error {
	manifests, err := w.helmTemplate(ctx, chart, values)
	if err != nil {
		return err
	}
	return w.Install(ctx, namespace, manifests)
}

// Install applies manifests with another namespace in place of flux-system, unless it is empty.
func (w *Env) Install(ctx context.Context, namespace, manifests string) error {
	if namespace != "" {
		manifests = strings.ReplaceAll(manifests, systemNamespace, namespace)
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if err := client.IgnoreAlreadyExists(w.Kube.Create(ctx, object)); err != nil {
			return err
		}
	}
	return w.Apply(ctx, manifests)
}

// Apply applies YAML.
func (w *Env) Apply(ctx context.Context, text string) error {
	return w.cp.apply(ctx, []byte(text))
}

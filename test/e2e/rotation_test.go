package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// The token of the polls is replaced while they go on, over TLS with a private authority, whose certificate is
// renewed too. No poll is refused, and only requested changes happen in the cluster.
func TestRotationOverTLS(t *testing.T) {
	t.Parallel()
	define(t, "namespaces", object{"id": "rotation-space"})
	c := prepare(t, "rotation", object{"namespaces": []object{{"id": "rotation-space"}}})
	authority := newAuthority(t)
	dir := t.TempDir()
	settings := map[string]string{
		"API_MODE": "read-only", "DATABASE_URL": c.w.ReadDatabaseURL, "AUTH_TOKEN": "rotation-old", "ALLOW_SHORT_TOKENS": "true",
		"TLS_CERT_FILE": filepath.Join(dir, "tls.crt"), "TLS_KEY_FILE": filepath.Join(dir, "tls.key"),
	}
	authority.issue(t, dir)
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.pool}, DisableKeepAlives: true}}
	config := rig.ServerConfig{Name: "server-rotation", Settings: settings, Client: trusting}
	server := c.start(config)

	secret := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: private-ca, namespace: %s}\nstringData:\n  ca.crt: %q\n", c.ns, authority.text)
	c.namespace(c.ns)
	if err := c.w.Apply(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	c.join(rig.Cluster{URL: server.URL, Token: "rotation-old", TLSSecret: "private-ca"})
	c.settled()
	namespace := c.exists("v1", "Namespace", "", "rotation-space")
	before := c.revisions(namespace)

	// The server learns the new token and goes on taking the old one; it keeps its address.
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	settings["LISTEN_ADDR"] = address.Host
	settings["AUTH_TOKEN"], settings["AUTH_TOKEN_PREVIOUS"] = "rotation-new", "rotation-old"
	server.Stop()
	server = c.start(config)
	c.polled()

	// The cluster learns it.
	c.setToken("rotation-new")
	c.polled()

	// The server forgets the old one.
	delete(settings, "AUTH_TOKEN_PREVIOUS")
	server.Stop()
	server = c.start(config)
	c.polled()

	// The certificate is renewed under the running server.
	serial := authority.issue(t, dir)
	c.eventually("the new certificate is served", func(ctx context.Context) error {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: authority.pool}}
		conn, err := dialer.DialContext(ctx, "tcp", address.Host)
		if err != nil {
			return err
		}
		defer conn.Close()
		if got := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber; got.Cmp(serial) != 0 {
			return fmt.Errorf("certificate %v is served, not %v", got, serial)
		}
		return nil
	})
	c.polled()
	c.unchanged("rotated", before, namespace)
	if log := server.Log(); strings.Contains(log, `"status":401`) {
		t.Errorf("a poll was refused:\n%s", log)
	}

	// A cluster that trusts another authority, or has a wrong token, keeps its objects.
	c.setToken("rotation-wrong")
	c.failing("401")
	c.setToken("rotation-new")
	c.polled()
	c.patch("v1", "Secret", "private-ca", object{"stringData": object{"ca.crt": newAuthority(t).text}})
	c.failing("certificate")
	c.reapplied()
	c.unchanged("not trusted", before, namespace)
	c.patch("v1", "Secret", "private-ca", object{"stringData": object{"ca.crt": authority.text}})
	c.polled()
}

// start starts a server for this case.
func (c *cluster) start(config rig.ServerConfig) *rig.Server {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	server, err := c.w.StartServer(ctx, config)
	if err != nil {
		c.Fatal(err)
	}
	return server
}

// polled waits until every provider has asked once more and got an answer.
func (c *cluster) polled() {
	c.Helper()
	for _, name := range rig.Resources {
		request := c.reconcile("ResourceSetInputProvider", name)
		c.eventually("provider "+name+" polls", func(ctx context.Context) error {
			provider, err := c.get(ctx, fluxAPI, "ResourceSetInputProvider", c.ns, name)
			if err != nil {
				return err
			}
			if handled, _, _ := unstructured.NestedString(provider.Object, "status", "lastHandledReconcileAt"); handled != request {
				status, message := rig.Condition(provider, "Ready")
				return fmt.Errorf("it has handled the request of %q; Ready is %q: %s", handled, status, message)
			}
			return rig.HasCondition(provider, "Ready", "True")
		})
	}
}

func (c *cluster) setToken(token string) {
	c.Helper()
	c.patch("v1", "Secret", "internal-api-token", object{"stringData": object{"token": token}})
}

// namespace creates a namespace, unless there is one.
func (c *cluster) namespace(name string) {
	c.Helper()
	o := rig.Object("v1", "Namespace")
	o.SetName(name)
	if err := client.IgnoreAlreadyExists(c.w.Kube.Create(c.Context(), o)); err != nil {
		c.Fatal(err)
	}
}

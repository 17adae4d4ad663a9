package e2e

import (
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// Clusters poll with tokens of their own: another cluster's is refused and changes nothing, a rotation interrupts no poll,
// and the token of a deleted cluster still reads the empty lists that empty the cluster.
func TestPollTokens(t *testing.T) {
	t.Parallel()
	define(t, "namespaces", object{"id": "own-space"}, object{"id": "other-space"})
	own := prepare(t, "own", object{"namespaces": []object{{"id": "own-space"}}})
	other := prepare(t, "other", object{"namespaces": []object{{"id": "other-space"}}})
	for _, c := range []*cluster{own, other} {
		c.join(rig.Cluster{CreateToken: true})
		c.settled()
		if token := c.token(); token == rig.ReadToken {
			t.Fatalf("cluster %s polls with the token that reads the whole fleet", c.id)
		}
	}
	namespace := own.exists("v1", "Namespace", "", "own-space")
	before := own.revisions(namespace)

	// Another cluster's token is refused.
	mine := own.token()
	own.setToken(other.token())
	own.failing("403")
	own.reapplied()
	own.setToken(mine)
	own.polled()

	// Rotated, with a while in which both are good.
	next := strings.TrimSpace(own.cli("token", "rotate", "poll-own", "--overlap", "1h", "--quiet"))
	own.polled()
	own.setToken(next)
	own.polled()

	// Rotated without one, as after a leak: the old one is refused everywhere, and no object is removed.
	last := strings.TrimSpace(own.cli("token", "rotate", "poll-own", "--overlap", "0s", "--quiet"))
	own.failing("401")
	own.reapplied()
	own.setToken(last)
	own.polled()
	own.unchanged("with other tokens", before, namespace)

	// A deleted cluster is told so.
	own.cli("cluster", "delete", "own", "--yes")
	own.gone("v1", "Namespace", "", "own-space")

	// A revoked token is refused, and no object is removed.
	space := other.exists("v1", "Namespace", "", "other-space")
	before = other.revisions(space)
	other.cli("token", "revoke", "poll-other", "--yes")
	other.failing("401")
	other.reapplied()
	other.unchanged("revoked", before, space)
}

// Clusters poll with client certificates and no token at all, a server that has the settings of the chart's read-only
// pods. A certificate in another cluster's name, and one of
// another authority, are refused and change nothing.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	define(t, "namespaces", object{"id": "mutual-space"}, object{"id": "chart-space"})
	c := prepare(t, "mutual", object{"namespaces": []object{{"id": "mutual-space"}}})
	charted := prepare(t, "mutual-chart", object{"namespaces": []object{{"id": "chart-space"}}})
	serverCA, clientCA := newAuthority(t), newAuthority(t)
	dir, clients := t.TempDir(), t.TempDir()
	serverCA.issue(t, dir)
	clientCA.write(t, filepath.Join(clients, "ca.crt"))
	settings := c.podSettings(object{"existingSecret": "certificate", "clientCASecret": "clients", "requireClientCert": true}, map[string]string{
		"/tls": dir, "/client-ca": clients, "/last-good": t.TempDir(),
	})
	server := c.start(rig.ServerConfig{
		Name: "server-mutual", Settings: settings,
		Client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: serverCA.pool}}},
	})

	// With the output of bootstrap and an existing Secret.
	c.namespace(c.ns)
	cert, key := clientCA.client(t, c.dns)
	if err := c.w.Apply(t.Context(), canonical(object{
		"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "client", "namespace": c.ns},
		"stringData": object{"ca.crt": serverCA.text, "tls.crt": cert, "tls.key": key},
	})); err != nil {
		t.Fatal(err)
	}
	c.join(rig.Cluster{URL: server.URL, TLSSecret: "client", NoToken: true})

	// By the chart, which writes the Secret.
	chartCert, chartKey := clientCA.client(t, "unrelated.example.com", charted.dns)
	if err := c.w.JoinChart(t.Context(), charted.ns, object{
		"cluster":  object{"name": charted.id, "dns": charted.dns, "environment": "dev"},
		"api":      object{"url": server.URL, "tls": object{"ca": serverCA.text, "cert": chartCert, "key": chartKey}},
		"interval": "1s",
	}); err != nil {
		t.Fatal(err)
	}
	for _, joined := range []*cluster{c, charted} {
		joined.settled()
		if provider := joined.exists(fluxAPI, "ResourceSetInputProvider", joined.ns, "namespaces"); provider.Object["spec"].(object)["secretRef"] != nil {
			t.Errorf("cluster %s has a token beside its certificate", joined.id)
		}
	}
	// Certificates are required: a valid token alone is refused.
	without := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: serverCA.pool}}}
	if status := c.poll(without, server.URL, settings["AUTH_TOKEN"]); status != http.StatusUnauthorized {
		t.Errorf("the read token without a certificate is answered with %d", status)
	}

	namespace := c.exists("v1", "Namespace", "", "mutual-space")
	charted.exists("v1", "Namespace", "", "chart-space")
	before := c.revisions(namespace)

	present := func(cert, key string) {
		t.Helper()
		c.patch("v1", "Secret", "client", object{"stringData": object{"tls.crt": cert, "tls.key": key}})
	}
	// In another cluster's name: known, and not allowed to.
	present(chartCert, chartKey)
	c.failing("403")
	// With the right name, but signed by an unknown authority: it ends the connection, which the operator tries a few
	// times and reports as its first error: the server's alert or the closed connection.
	present(newAuthority(t).client(t, c.dns))
	c.failing("failed to call external service")
	c.reapplied()
	// Renewed.
	present(clientCA.client(t, c.dns))
	c.polled()
	c.unchanged("with other certificates", before, namespace)

	c.cli("cluster", "delete", c.id, "--yes")
	c.gone("v1", "Namespace", "", "mutual-space")
}

// poll asks a server for the cluster's namespaces and answers the status.
func (c *cluster) poll(from *http.Client, server, token string) int {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, server+"/api/v2/flux/clusters/"+c.dns+"/namespaces", http.NoBody)
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := from.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// token is the one that the cluster polls with.
func (c *cluster) token() string {
	c.Helper()
	secret := c.exists("v1", "Secret", c.ns, "internal-api-token")
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", "token")
	token, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(token) == 0 {
		c.Fatalf("the Secret holds no token: %v", err)
	}
	return string(token)
}

// podSettings are the settings of the chart's read-only pods, with these values of its TLS, for a server of this fleet.
func (c *cluster) podSettings(values object, mounts map[string]string) map[string]string {
	c.Helper()
	database := c.w.ReadDatabaseURL
	sqlite := strings.HasPrefix(database, "sqlite:")
	if sqlite {
		// The chart has no read-only pods on SQLite, but this suite has.
		database = "postgres://instead.example.com/fleet"
	}
	settings, err := c.w.PodSettings(c.Context(), "flux-api-readonly", object{
		"auth": object{"readToken": "not-for-clusters", "writeToken": "not-for-clusters-either"},
		"store": object{"backend": "postgres", "postgres": object{
			"url": "postgres://not-for-this-pod.example.com/fleet", "read": object{"url": database},
		}},
		"tls": values,
	}, mounts)
	if err != nil {
		c.Fatal(err)
	}
	settings["LISTEN_ADDR"] = "127.0.0.1:0"
	if sqlite {
		settings["STORE_BACKEND"], settings["DATABASE_URL"] = "sqlite", c.w.ReadDatabaseURL
	}
	return settings
}

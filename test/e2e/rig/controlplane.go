package rig

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// AdminToken is good for one API server on 127.0.0.1, for as long as one run takes.
const AdminToken = "admin-of-the-test-cluster"

// controlPlane is a Kubernetes control plane, without nodes by default.
type controlPlane struct {
	client     client.WithWatch
	kubeconfig string // file
	url        string
	processes  []*testrig.Process
}

// controlPlaneArgs are the arguments that differ between control planes with and without a node.
type controlPlaneArgs struct{ apiserver, controllers []string }

// argsWithoutNode keeps the API server on 127.0.0.1 and disables the controllers and plugins that only nodes and pods need.
func argsWithoutNode() controlPlaneArgs {
	return controlPlaneArgs{
		apiserver: []string{
			"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
			"--disable-admission-plugins=ServiceAccount",
		},
		controllers: []string{
			"--controllers=namespace-controller,garbage-collector-controller,deployment-controller,replicaset-controller,serviceaccount-controller",
		},
	}
}

// startControlPlane starts etcd, the API server and the controller manager, and waits until the API server is ready.
func startControlPlane(ctx context.Context, dir string, tools map[string]string, args controlPlaneArgs) (*controlPlane, error) {
	cp := &controlPlane{kubeconfig: filepath.Join(dir, "kubeconfig")}
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	etcdURL, peerURL := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	cp.url = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	if err := cp.writeFiles(dir); err != nil {
		return nil, err
	}
	if _, err := cp.start(dir, testrig.Program{Name: "etcd", Path: filepath.Join(tools["etcd"], "etcd"), Args: []string{
		"--data-dir=" + filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--logger=zap",
		"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL, "--initial-cluster=default=" + peerURL,
	}}); err != nil {
		return cp, err
	}
	apiserver, err := cp.start(dir, testrig.Program{Name: "kube-apiserver", Path: filepath.Join(tools["kubernetes"], "kube-apiserver"), Args: append([]string{
		"--etcd-servers=" + etcdURL, fmt.Sprintf("--secure-port=%d", ports[2]),
		"--cert-dir=" + filepath.Join(dir, "certificates"), "--token-auth-file=" + filepath.Join(dir, "tokens.csv"),
		"--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + filepath.Join(dir, "service-accounts.pem"),
		"--service-account-signing-key-file=" + filepath.Join(dir, "service-accounts.pem"),
	}, args.apiserver...)})
	if err != nil {
		return cp, err
	}
	config := &rest.Config{Host: cp.url, BearerToken: AdminToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 1000, Burst: 2000}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return cp, err
	}
	if err := apiserver.Until(ctx, func(ctx context.Context) error { return testrig.GetOK(ctx, httpClient, cp.url+"/readyz") }); err != nil {
		return cp, err
	}
	if cp.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return cp, err
	}
	_, err = cp.start(dir, testrig.Program{Name: "kube-controller-manager", Path: filepath.Join(tools["kubernetes"], "kube-controller-manager"), Args: append([]string{
		"--kubeconfig=" + cp.kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000",
		"--concurrent-namespace-syncs=20", "--service-account-private-key-file=" + filepath.Join(dir, "service-accounts.pem"),
	}, args.controllers...)})
	return cp, err
}

// start runs a program of the cluster.
func (cp *controlPlane) start(dir string, p testrig.Program) (*testrig.Process, error) {
	p.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "KUBECONFIG=" + cp.kubeconfig}, p.Env...)
	proc, err := start(dir, p)
	if err == nil {
		cp.processes = append(cp.processes, proc)
	}
	return proc, err
}

// stop ends all processes in reverse order of their start.
func (cp *controlPlane) stop() {
	for _, proc := range slices.Backward(cp.processes) {
		// Its data is not needed again.
		proc.Kill()
	}
}

func (cp *controlPlane) writeFiles(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: e2e
contexts: [{name: e2e, context: {cluster: e2e, user: admin}}]
clusters: [{name: e2e, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: %s}}]
`, cp.url, AdminToken)
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "service-accounts.pem"), keyPEM, 0o600),
		os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(AdminToken+",admin,admin,system:masters\n"), 0o600),
		os.WriteFile(cp.kubeconfig, []byte(kubeconfig), 0o600),
	)
}

// ServiceAccountKeys returns the public keys of tokens of ServiceAccounts, as a JSON Web Key Set.
func (w *Env) ServiceAccountKeys(ctx context.Context) ([]byte, error) {
	httpClient, err := rest.HTTPClientFor(&rest.Config{Host: w.KubeURL, BearerToken: AdminToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.KubeURL+"/openid/v1/jwks", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

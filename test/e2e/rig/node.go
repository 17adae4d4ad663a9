package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// NodeAddress is the node's address, in a network that scripts/e2e-node makes.
const NodeAddress = "192.0.2.1"

// Tokens of the service on the node.
const (
	NodeReadToken  = "read-on-the-test-node"
	NodeWriteToken = "write-on-the-test-node"
)

const (
	nodeName      = "node"
	nodeData      = "/run/node" // short, and on the disk
	containerdURL = "/run/containerd/containerd.sock"
	pauseImage    = "example.com/pause:1"
	podNetwork    = "10.244.0.0/24"
	nodePath      = "PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
)

// Node is a control plane with one real node: a kubelet, containerd, kube-proxy and the scheduler. It stands in for a
// storage class, for the cluster's DNS and for source-controller.
type Node struct {
	// Kube is the cluster.
	Kube client.WithWatch
	// Bin has our programs.
	Bin string

	root, dir   string
	environment []string
	tools       map[string]string
	cp          *controlPlane
	running     []*testrig.Process // of the node itself: containerd, kubelet
	cancel      context.CancelFunc
	standIns    *os.File // what they log
	pg          *postgres
}

// NodeConfig holds the settings of StartNode.
type NodeConfig struct {
	// Dir is the folder of the run; our programs are in its bin.
	Dir string
	// Environment of helm, kubectl and our command line; the variables that select the cluster and the service are added.
	Environment []string
	// Progress receives messages about slow steps.
	Progress io.Writer
}

// StartNode starts everything, in the namespaces of scripts/e2e-node, and waits until the node is ready. Stop it even when
// it answers an error.
func StartNode(ctx context.Context, config NodeConfig) (*Node, error) {
	log.SetLogger(logr.Discard())
	dir := config.Dir
	n := &Node{dir: dir, Bin: filepath.Join(dir, "bin"), environment: config.Environment, cancel: func() {}}
	var err error
	if n.root, err = root(); err != nil {
		return n, err
	}
	if n.tools, err = tools(ctx, n.root, config.Progress, append([]string{"node"}, fluxTools...)...); err != nil {
		return n, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if n.cp, err = startControlPlane(ctx, dir, n.tools, controlPlaneArgs{
		apiserver:   []string{"--bind-address=0.0.0.0", "--advertise-address=" + NodeAddress, "--allow-privileged", "--kubelet-preferred-address-types=InternalIP"},
		controllers: []string{"--root-ca-file=" + filepath.Join(dir, "certificates", "apiserver.crt"), "--node-monitor-grace-period=10s"},
	}); err != nil {
		return n, err
	}
	n.Kube = n.cp.client
	if err := n.writeFiles(); err != nil {
		return n, err
	}
	if err := n.StartKubelet(ctx); err != nil {
		return n, err
	}
	pause := Image{Name: pauseImage, Entrypoint: []string{"/pod"}, Files: []ImageFile{{Path: "pod", From: filepath.Join(n.Bin, "pod"), Mode: 0o755}}}
	if err := n.Import(ctx, pause); err != nil {
		return n, err
	}
	for _, p := range []testrig.Program{
		{Name: "kube-proxy", Args: []string{"--config=" + n.file("kube-proxy.yaml")}, Env: []string{nodePath}},
		{Name: "kube-scheduler", Args: []string{"--kubeconfig=" + n.cp.kubeconfig, "--leader-elect=false", "--secure-port=0"}},
	} {
		p.Path = filepath.Join(n.tools["node"], p.Name)
		if _, err := n.cp.start(dir, p); err != nil {
			return n, err
		}
	}
	if err := n.cp.defineFlux(ctx, n.tools); err != nil {
		return n, err
	}
	if err := n.startStandIns(); err != nil {
		return n, err
	}
	return n, Eventually(ctx, func(ctx context.Context) error {
		node := Object("v1", "Node")
		if err := n.Kube.Get(ctx, client.ObjectKey{Name: nodeName}, node); err != nil {
			return err
		}
		return HasCondition(node, "Ready", "True")
	})
}

func (n *Node) file(name string) string { return filepath.Join(n.dir, name) }

// writeFiles writes the configuration of the node's programs.
func (n *Node) writeFiles() error {
	plugins := "/usr/lib/cni"
	if _, err := os.Stat(plugins); err != nil {
		plugins = "/opt/cni/bin"
	}
	files := map[string]string{
		// restrict_oom_score_adj: a machine that is itself a container may not lower that score.
		n.file("containerd.toml"): `version = 2
root = "` + nodeData + `/containerd"
state = "/run/containerd"
[grpc]
address = "` + containerdURL + `"
[plugins."io.containerd.internal.v1.opt"]
path = "` + nodeData + `/opt"
[plugins."io.containerd.grpc.v1.cri"]
restrict_oom_score_adj = true
disable_apparmor = true
sandbox_image = "` + pauseImage + `"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "` + plugins + `"
conf_dir = "` + nodeData + `/cni"
`,
		nodeData + "/cni/10-bridge.conflist": `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true, "ipam": {"type": "host-local",
    "dataDir": "` + nodeData + `/addresses", "ranges": [[{"subnet": "` + podNetwork + `"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}`,
		// No evictions and no removal of images: the node shares its disk with others.
		n.file("kubelet.yaml"): `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://` + containerdURL + `
address: ` + NodeAddress + `
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
clusterDNS: [` + NodeAddress + `]
clusterDomain: cluster.local
resolvConf: ""
cgroupDriver: cgroupfs
cgroupRoot: /flux-e2e-node
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
oomScoreAdj: 0
evictionHard: {memory.available: 1Mi}
imageGCHighThresholdPercent: 100
podLogsDir: ` + nodeData + `/logs
volumePluginDir: ` + nodeData + `/plugins
syncFrequency: 10s
nodeStatusUpdateFrequency: 2s
`,
		n.file("kube-proxy.yaml"): `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: ` + podNetwork + `
hostnameOverride: ` + nodeName + `
clientConnection: {kubeconfig: ` + n.cp.kubeconfig + `}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`,
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// StartKubelet starts containerd and the kubelet, and waits until the latter is healthy.
func (n *Node) StartKubelet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	containerd, err := n.supervise(testrig.Program{Name: "containerd", Path: "containerd", Args: []string{"--config=" + n.file("containerd.toml")}})
	if err != nil {
		return err
	}
	if err := containerd.Until(ctx, func(ctx context.Context) error { return n.ctr(ctx, nil, "version") }); err != nil {
		return err
	}
	kubelet := testrig.Program{Name: "kubelet", Path: filepath.Join(n.tools["node"], "kubelet"), Args: []string{
		"--kubeconfig=" + n.cp.kubeconfig, "--config=" + n.file("kubelet.yaml"), "--root-dir=" + nodeData + "/kubelet",
		"--cert-dir=" + nodeData + "/kubelet/pki", "--hostname-override=" + nodeName, "--node-ip=" + NodeAddress,
	}}
	err = Eventually(ctx, func(ctx context.Context) error {
		// It ends while containerd still looks for its containers; a supervisor of both would restart it.
		proc, err := n.supervise(kubelet)
		if err != nil {
			return err
		}
		return proc.Until(ctx, func(ctx context.Context) error {
			return testrig.GetOK(ctx, &http.Client{}, "http://127.0.0.1:10248/healthz")
		})
	})
	if err != nil {
		return fmt.Errorf("no kubelet runs here: %w", err)
	}
	return nil
}

// supervise starts a program of the node itself.
func (n *Node) supervise(p testrig.Program) (*testrig.Process, error) {
	p.Env = []string{nodePath}
	proc, err := start(n.dir, p)
	if err == nil {
		n.running = append(n.running, proc)
	}
	return proc, err
}

// StopKubelet ends both; containers go on.
func (n *Node) StopKubelet() {
	for _, proc := range n.running {
		stop(proc)
	}
	n.running = nil
}

func (n *Node) ctr(ctx context.Context, stdin io.Reader, args ...string) error {
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address", containerdURL, "--namespace", "k8s.io"}, args...)...)
	cmd.Stdin = stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Import brings an image into the node's containerd.
func (n *Node) Import(ctx context.Context, image Image) error {
	var archive bytes.Buffer
	if err := image.write(&archive); err != nil {
		return fmt.Errorf("image %s: %w", image.Name, err)
	}
	return n.ctr(ctx, &archive, "images", "import", "--all-platforms", "-")
}

// Helm runs helm with an input and returns its output.
func (n *Node) Helm(ctx context.Context, stdin string, args ...string) (string, error) {
	return n.run(ctx, stdin, "", filepath.Join(n.root, "scripts", "tool"), append([]string{"helm"}, args...)...)
}

// Kubectl runs kubectl likewise.
func (n *Node) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return n.run(ctx, stdin, "", filepath.Join(n.tools["node"], "kubectl"), args...)
}

// CLI runs our command line on the service at a URL.
func (n *Node) CLI(ctx context.Context, url string, args ...string) (string, error) {
	return n.run(ctx, "", url, filepath.Join(n.Bin, "flux-resourceset-cli"), args...)
}

func (n *Node) run(ctx context.Context, stdin, url, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = n.root
	cmd.Env = append(slices.Clone(n.environment),
		"HOME="+n.dir, "KUBECONFIG="+n.cp.kubeconfig, "FLUX_API_URL="+url, "FLUX_API_TOKEN="+NodeReadToken, "FLUX_API_WRITE_TOKEN="+NodeWriteToken)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(path), strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// Tool is where a program of a cluster is.
func (n *Node) Tool(name string) string { return n.tools[name] }

// Apply applies YAML.
func (n *Node) Apply(ctx context.Context, text string) error { return n.cp.apply(ctx, []byte(text)) }

func (n *Node) startStandIns() error {
	file, err := os.Create(n.file("stand-ins.log"))
	if err != nil {
		return err
	}
	n.standIns = file
	logger := slog.New(slog.NewTextHandler(file, nil))
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	startVolumes(ctx, n.Kube, logger)
	return errors.Join(startDNS(ctx, n.Kube, logger), startSources(ctx, n.Kube, NodeAddress, logger, nil, nil))
}

// StartPostgres starts an empty PostgreSQL server that pods reach at the node's address. Stop ends it.
func (n *Node) StartPostgres() (err error) {
	n.pg, err = startPostgresServer(testrig.PostgresConfig{
		Passwords: true, Settings: []string{"fsync=off", "listen_addresses=" + NodeAddress},
	}, n.dir)
	return err
}

// SQL runs statements on that server, as a role.
func (n *Node) SQL(ctx context.Context, role, database, statements string) error {
	return n.pg.run(ctx, role, database, statements)
}

// Stop ends everything. The logs stay until the next run.
func (n *Node) Stop() {
	n.cancel()
	n.StopKubelet()
	if n.pg != nil {
		n.pg.End()
	}
	if n.cp != nil {
		n.cp.stop()
	}
	if n.standIns != nil {
		_ = n.standIns.Close()
	}
	for _, data := range []string{"etcd", "bin"} {
		_ = os.RemoveAll(filepath.Join(n.dir, data))
	}
}

// Logs are the ends of all logs.
func (n *Node) Logs(lines int) string { return logs(n.dir, lines) }

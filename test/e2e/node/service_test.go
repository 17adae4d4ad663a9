package node

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// The cases build on one another, as the days of an installation do.
func TestNode(t *testing.T) { //nolint:paralleltest // there is one node, and nothing beside this
	for _, tag := range []string{appVersion(t), "next"} {
		if err := node.Import(t.Context(), ourImage(t, tag)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"install the service", install},
		{"it runs without rights", withoutRights},
		{"clusters poll it", polled},
		{"its probes tell", probed},
		{"back up and restore", backup},
		{"back up by the API, and restore elsewhere", backupOverTheAPI},
		{"back up and restore on Postgres", onPostgres},
		{"the store and the values of the last release", fromRelease},
		{"upgrade, roll back, uninstall", upgrade},
		{"a cluster runs what it says", cluster},
		{"a pod and the node's programs go and come back", restarts},
	} {
		if !t.Run(c.name, c.run) {
			dump(t)
			return
		}
	}
	t.Log("\n" + kubectl(t, "", "get", "pods,pvc,services", "--all-namespaces", "-o", "wide"))
}

// The lines of docs/install.md, with the demo's fleet.
func install(t *testing.T) {
	kubectl(t, "", "create", "secret", "generic", "fleet-tokens", "--from-literal=token="+rig.NodeReadToken, "--from-literal=crud-token="+rig.NodeWriteToken)
	helm(t, "install", "flux-api", chart, "--set", "auth.existingSecret=fleet-tokens",
		"--set-file", "seed.data=examples/demo/seed.json", "--set", "seed.accept=true", "--wait", "--timeout", "3m")
	p := readyPod(t, "crud")
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady {
			t.Logf("pod %s was ready %s after it was created", p.Name, condition.LastTransitionTime.Sub(p.CreationTimestamp.Time))
		}
	}
	for _, name := range []string{"flux-api", "flux-api-read"} { // the chart's test asks each once
		service(t, name)
	}
	t.Log(helm(t, "test", "flux-api", "--logs"))
}

// The process has the limits and the security context of the chart.
func withoutRights(t *testing.T) {
	dir := process(t, "/flux-resourceset")
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.Join(strings.Fields(value), " ")
	}
	for name, want := range map[string]string{
		"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532", "Groups": "65532",
		"CapEff": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
	} {
		if status[name] != want {
			t.Errorf("%s of the process is %q, not %q", name, status[name], want)
		}
	}
	mounts, err := os.ReadFile(filepath.Join(dir, "mountinfo"))
	if err != nil {
		t.Fatal(err)
	}
	writable := map[string]bool{}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[5], "rw") {
			writable[fields[4]] = true
		}
	}
	if writable["/"] {
		t.Error("the root of the file system can be written to")
	}
	if !writable["/data"] || !writable["/last-good"] {
		t.Errorf("volumes cannot be written to: %v", writable)
	}
	groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil {
		t.Fatal(err)
	}
	limit := memoryLimit(t, string(groups))
	if limit != "536870912" {
		t.Errorf("the limit of its memory is %s", limit)
	}
}

// memoryLimit returns the kernel's memory limit of a process, from /proc/PID/cgroup of either version.
func memoryLimit(t *testing.T, groups string) string {
	t.Helper()
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		var file string
		switch fields[1] {
		case "memory":
			file = filepath.Join("/sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes")
		case "":
			file = filepath.Join("/sys/fs/cgroup", fields[2], "memory.max")
		default:
			continue
		}
		if text, err := os.ReadFile(file); err == nil {
			return strings.TrimSpace(string(text))
		}
	}
	t.Fatalf("no group has a memory limit: %s", groups)
	return ""
}

// Clusters are answered through the Service for polls; metrics, and answers to strangers, are not there.
func polled(t *testing.T) {
	for list, body := range polls(t, "flux-api") {
		if !strings.Contains(body, `"inputs":[{`) {
			t.Errorf("%s: %s", list, body)
		}
	}
	url := service(t, "flux-api-read")
	list := url + "/api/v2/flux/clusters/demo-cluster-01.k8s.example.com/namespaces"
	p := readyPod(t, "crud")
	for _, c := range []struct {
		url, token string
		want       int
	}{
		{list, "", http.StatusUnauthorized},
		{list, "nobodys-token-at-all", http.StatusUnauthorized},
		{url + "/metrics", rig.NodeReadToken, http.StatusNotFound},
		{"http://" + p.Status.PodIP + ":9090/metrics", "", http.StatusOK},
		{"http://" + p.Status.PodIP + ":9090/ready", "", http.StatusOK},
	} {
		if status, body := statusOf(t, c.url, c.token); status != c.want {
			t.Errorf("%s: %d, not %d: %.200s", c.url, status, c.want, body)
		}
	}
}

// A server that stops answering gets no polls until it answers again, without a restart.
func probed(t *testing.T) {
	before := readyPod(t, "crud")
	pid, err := strconv.Atoi(filepath.Base(process(t, "/flux-resourceset")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		p, err := pod(ctx, "crud")
		if err != nil {
			return err
		}
		return isReady(p, corev1.ConditionFalse)
	})
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	after := readyPod(t, "crud")
	if before.UID != after.UID || after.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("pod %s took the place of %s, or was restarted: %+v", after.Name, before.Name, after.Status.ContainerStatuses)
	}
	polls(t, "flux-api")
}

// Upgrades, the way back and an installation that is taken away leave the fleet alone.
func upgrade(t *testing.T) {
	before := polls(t, "flux-api")
	same := func(after string) {
		t.Helper()
		if now := polls(t, "flux-api"); !maps.Equal(now, before) {
			t.Errorf("after %s, polls are answered with %v, not %v", after, now, before)
		}
	}
	image := func(want string) {
		t.Helper()
		if p := readyPod(t, "crud"); !strings.HasSuffix(p.Spec.Containers[0].Image, ":"+want) {
			t.Errorf("the pod runs %s, not %s", p.Spec.Containers[0].Image, want)
		}
	}
	helm(t, "upgrade", "flux-api", chart, "--reuse-values", "--set", "image.tag=next", "--wait", "--timeout", "3m")
	image("next")
	same("the upgrade")
	helm(t, "rollback", "flux-api", "--wait", "--timeout", "3m")
	image(appVersion(t))
	same("the rollback")
	helm(t, "uninstall", "flux-api", "--wait", "--timeout", "3m")
	helm(t, "install", "flux-api", chart, "--set", "auth.existingSecret=fleet-tokens",
		"--set", "store.sqlite.persistence.existingClaim=flux-api-data-restored", "--wait", "--timeout", "3m")
	same("taking it away and installing it again, without a seed")
}

// A pod that is deleted, a server that is killed, and a kubelet and a containerd that restart.
func restarts(t *testing.T) {
	before := polls(t, "flux-api")
	first := readyPod(t, "crud")
	kubectl(t, "", "delete", "pod", first.Name)
	second := readyPod(t, "crud")
	if second.UID == first.UID {
		t.Error("the pod is still there")
	}
	pid, err := strconv.Atoi(filepath.Base(process(t, "/flux-resourceset")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		p, err := pod(ctx, "crud")
		if err != nil {
			return err
		}
		if p.Status.ContainerStatuses[0].RestartCount == 0 {
			return fmt.Errorf("pod %s was not restarted", p.Name)
		}
		return isReady(p, corev1.ConditionTrue)
	})
	// Kubernetes takes the pods of a silent node out of the Services; the container keeps running.
	address := readyPod(t, "crud").Status.PodIP
	node.StopKubelet()
	nodeReady(t, "Unknown")
	if status, body := statusOf(t, "http://"+address+":9090/ready", ""); status != http.StatusOK {
		t.Errorf("without the kubelet, the server says %d %s", status, body)
	}
	if err := node.StartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodeReady(t, "True")
	kubectl(t, "", "wait", "pod", "--all", "--for=condition=Ready", "--timeout=3m")
	if after := polls(t, "flux-api"); !maps.Equal(after, before) {
		t.Errorf("polls are answered with %v, not %v", after, before)
	}
}

// nodeReady waits until the control plane reports the node as ready.
func nodeReady(t *testing.T, want string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		machine := rig.Object("v1", "Node")
		if err := node.Kube.Get(ctx, client.ObjectKey{Name: "node"}, machine); err != nil {
			return err
		}
		return rig.HasCondition(machine, "Ready", want)
	})
}

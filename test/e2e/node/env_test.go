package node

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

const (
	namespace = "flux-system"
	chart     = "charts/flux-resourceset"
)

// within is the time limit of operations on the node.
const within = 3 * time.Minute

// eventually waits until check succeeds.
func eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := rig.Eventually(ctx, check); err != nil {
		t.Fatal(err)
	}
}

func helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := node.Helm(t.Context(), "", append(args, "--namespace", namespace)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := node.Kubectl(t.Context(), stdin, append([]string{"--namespace", namespace}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// dump logs the running pods and events of a failed test.
func dump(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"get", "pods,pvc,jobs", "--all-namespaces", "-o", "wide"}, {"get", "events", "--all-namespaces", "--field-selector=type=Warning"}} {
		out, err := node.Kubectl(context.Background(), "", args...)
		t.Log(out, err)
	}
}

// service is the URL of a Service, by the address that kube-proxy looks after, once it answers: the rules of a
// pod's Services are not written all at once.
func service(t *testing.T, name string) string {
	t.Helper()
	url := "http://" + kubectl(t, "", "get", "service", name, "-o", "jsonpath={.spec.clusterIP}") + ":8080"
	statusOf(t, url, "")
	return url
}

// get asks for a page, with a token unless it is empty.
func get(ctx context.Context, url, token string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// statusOf is the status that a page is answered with, however long a busy machine takes.
func statusOf(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		var err error
		status, body, err = get(ctx, url, token)
		return err
	})
	return status, body
}

// polls are the answers to the demo cluster, through the Service of an installation that clusters poll.
func polls(t *testing.T, name string) map[string]string {
	t.Helper()
	return pollsWith(t, name, "")
}

// pollsWith waits until a text is among them.
func pollsWith(t *testing.T, name, text string) map[string]string {
	t.Helper()
	url := service(t, name+"-read")
	answers := map[string]string{}
	eventually(t, func(ctx context.Context) error {
		for _, list := range rig.Resources {
			status, body, err := get(ctx, url+"/api/v2/flux/clusters/demo-cluster-01.k8s.example.com/"+list, rig.NodeReadToken)
			if err != nil || status != http.StatusOK {
				return fmt.Errorf("poll of %s: %d %s %w", list, status, body, err)
			}
			answers[list] = body
		}
		if !strings.Contains(strings.Join(slices.Collect(maps.Values(answers)), ""), text) {
			return fmt.Errorf("no poll of %s is answered with %q", name, text)
		}
		return nil
	})
	return answers
}

// change gives the demo cluster a namespace.
func change(t *testing.T, name, id string) {
	t.Helper()
	if _, err := node.CLI(t.Context(), service(t, name), "namespace", "create", id, "--cluster", "demo-cluster-01"); err != nil {
		t.Fatal(err)
	}
}

// sql runs statements on the node's Postgres.
func sql(t *testing.T, role, database, statements string) {
	t.Helper()
	if err := node.SQL(t.Context(), role, database, statements); err != nil {
		t.Fatal(err)
	}
}

// rolledOut waits until the pods of a deployment are ready, and all of its newest kind.
func rolledOut(t *testing.T, deployment string) {
	t.Helper()
	kubectl(t, "", "rollout", "status", "deployment/"+deployment, "--timeout=3m")
}

// uninstall takes an installation away; none of its processes is left.
func uninstall(t *testing.T, name string) {
	t.Helper()
	helm(t, "uninstall", name, "--wait", "--timeout", "3m")
	kubectl(t, "", "delete", "pods", "--selector=app.kubernetes.io/instance="+name, "--wait", "--timeout=3m")
}

// pod is the only pod of a component of release flux-api that is not on its way out.
func pod(ctx context.Context, component string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := node.Kube.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{
		"app.kubernetes.io/instance": "flux-api", "app.kubernetes.io/component": component,
	}); err != nil {
		return nil, err
	}
	there := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(there) != 1 {
		return nil, fmt.Errorf("%d pods of component %s", len(there), component)
	}
	return &there[0], nil
}

// readyPod waits until that pod is ready.
func readyPod(t *testing.T, component string) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	eventually(t, func(ctx context.Context) error {
		var err error
		if found, err = pod(ctx, component); err != nil {
			return err
		}
		return isReady(found, corev1.ConditionTrue)
	})
	return found
}

func isReady(p *corev1.Pod, want corev1.ConditionStatus) error {
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady {
			if condition.Status == want {
				return nil
			}
			return fmt.Errorf("pod %s: ready is %s: %s", p.Name, condition.Status, condition.Message)
		}
	}
	return fmt.Errorf("pod %s has no condition Ready", p.Name)
}

// process is the /proc data of a program in a container: the test sees the node's processes.
func process(t *testing.T, program string) string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == program {
			return filepath.Dir(link)
		}
	}
	t.Fatalf("nothing runs %s", program)
	return ""
}

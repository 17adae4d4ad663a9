package node

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The node's cluster joins the fleet, with Flux's programs as pods, and runs its desired state.
func cluster(t *testing.T) {
	for image, program := range map[string]string{
		"example.com/flux-operator:1":   filepath.Join(node.Tool("flux-operator"), "operator"),
		"example.com/helm-controller:1": filepath.Join(node.Tool("helm-controller"), "helm-controller"),
	} {
		if err := node.Import(t.Context(), programImage(image, program)); err != nil {
			t.Fatal(err)
		}
	}
	podinfo := programImage("example.com/podinfo:1", filepath.Join(node.Bin, "pod"))
	podinfo.Entrypoint = append(podinfo.Entrypoint, ":8080")
	if err := node.Import(t.Context(), podinfo); err != nil {
		t.Fatal(err)
	}
	controllers, err := os.ReadFile("testdata/flux.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, string(controllers), "apply", "-f", "-")
	for _, name := range []string{"flux-operator", "helm-controller"} {
		rolledOut(t, name)
	}

	crud := service(t, "flux-api")
	values, err := node.CLI(t.Context(), crud, "bootstrap", "demo-cluster-01", "--poll-url", "http://flux-api-read.flux-system.svc:8080", "--interval", "2s", "--create-token", "--values")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	helm(t, "upgrade", "--install", "flux-resourceset-cluster", "charts/flux-resourceset-cluster", "--values", file)

	podinfoServes(t, 2)
	if _, err := node.CLI(t.Context(), crud, "component", "set", "podinfo", "--cluster", "demo-cluster-01", "--set", "replicaCount=3"); err != nil {
		t.Fatal(err)
	}
	podinfoServes(t, 3)
	if _, err := node.CLI(t.Context(), crud, "wait", "--cluster", "demo-cluster-01", "--within", within.String()); err != nil {
		t.Fatal(err)
	}
}

// podinfoServes waits until so many pods of podinfo are ready and each one answers.
func podinfoServes(t *testing.T, replicas int) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := node.Kube.List(ctx, &pods, client.InNamespace("podinfo")); err != nil {
			return err
		}
		if len(pods.Items) != replicas {
			return fmt.Errorf("%d pods of podinfo, not %d", len(pods.Items), replicas)
		}
		for _, p := range pods.Items {
			if err := isReady(&p, corev1.ConditionTrue); err != nil {
				return err
			}
			status, body, err := get(ctx, "http://"+p.Status.PodIP+":8080/", "")
			if err != nil || status != http.StatusOK || strings.TrimSpace(body) != p.Name {
				return fmt.Errorf("pod %s answers %d %q %w", p.Name, status, body, err)
			}
		}
		return nil
	})
}

package node

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// The last release: its store and the answers of its processes, and its chart values.
const (
	releaseFixture = "../../../cmd/flux-resourceset/testdata/0.1.0"
	releaseValues  = "tools/helm/testdata/flux-resourceset-0.1.0.yaml"
)

// fromRelease installs and upgrades the chart with the store and the chart values of the last release, on either backend: polls are answered
// with the bytes of that release, also during an upgrade and the restart of a container. With Postgres no poll fails.
func fromRelease(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		kubectl(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: released}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, "apply", "-f", "-")
		kubectl(t, "", "wait", "pvc/released", "--for=jsonpath={.status.phase}=Bound", "--timeout=3m")
		volume := rig.Volume(kubectl(t, "", "get", "pvc", "released", "-o", "jsonpath={.metadata.uid}"))
		// The kubelet gives it to the group of the pod.
		if err := os.WriteFile(filepath.Join(volume, "flux-resourceset.db"), unpacked(t, "sqlite.db.gz"), 0o660); err != nil {
			t.Fatal(err)
		}
		upgradeRelease(t, "crud", false, "--set", "store.sqlite.persistence.existingClaim=released")
	})
	t.Run("postgres", func(t *testing.T) {
		sql(t, "postgres", "postgres", "CREATE DATABASE released OWNER fleet_owner ENCODING 'UTF8' TEMPLATE template0")
		sql(t, "fleet_owner", "released", string(unpacked(t, "postgres.sql.gz")))
		_, grants, _ := strings.Cut(documented(t, "databases.md", "sql", "CREATE ROLE fleet_owner"), "-- in database fleet")
		sql(t, "fleet_owner", "released", "-- in database fleet"+grants)
		url := func(role string) string {
			return "postgres://" + role + ":secret@" + rig.NodeAddress + "/released?sslmode=disable"
		}
		upgradeRelease(t, "readonly", true, "--set", "store.backend=postgres",
			"--set", "store.postgres.url="+url("fleet_owner"), "--set", "store.postgres.read.url="+url("fleet_reader"))
	})
}

// upgradeRelease installs the chart with the store, upgrades it, and kills a process of the component that answers polls. Where there are
// several, no poll may fail.
func upgradeRelease(t *testing.T, polled string, several bool, args ...string) {
	t.Helper()
	helm(t, append([]string{"install", "released", chart, "--values", releaseValues, "--set", "name=released", "--set", "auth.existingSecret=fleet-tokens", "--wait", "--timeout", "3m"}, args...)...)
	var want struct{ Polls map[string]string }
	text, err := os.ReadFile(filepath.Join(releaseFixture, "answers.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	url := service(t, "released-read")

	end := watchPolls(t, url, want.Polls)
	helm(t, "upgrade", "released", chart, "--reuse-values", "--set", "image.tag=next", "--wait", "--timeout", "3m")
	rolledOut(t, "released-"+polled)
	if failed := end("the upgrade"); failed > 0 && several {
		t.Errorf("%d polls failed", failed)
	}

	end = watchPolls(t, url, want.Polls)
	killed := killContainer(t, polled)
	eventually(t, func(ctx context.Context) error {
		var p corev1.Pod
		if err := node.Kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: killed}, &p); err != nil {
			return err
		}
		if p.Status.ContainerStatuses[0].RestartCount == 0 {
			return fmt.Errorf("pod %s was not restarted", killed)
		}
		return isReady(&p, corev1.ConditionTrue)
	})
	service(t, "released-read")
	if failed := end("the restart of a container"); failed > 0 && several {
		t.Errorf("%d polls failed", failed)
	}
	uninstall(t, "released")
}

// watchPolls polls as some clusters do until the returned function is called, which logs the figures and returns how many polls failed. An
// answer with other bytes than the wanted ones fails the test. As Flux Operator does, a poll is repeated after a connection error, and
// not after an error of the service.
func watchPolls(t *testing.T, url string, want map[string]string) func(during string) (failed int) {
	t.Helper()
	paths := slices.Sorted(maps.Keys(want))
	var (
		ended                   = make(chan struct{})
		running                 sync.WaitGroup
		mu                      sync.Mutex
		polls, repeated, failed int
		longest                 time.Duration
		last                    error
	)
	poll := func(path string) {
		begun := time.Now()
		status, body, err := get(t.Context(), url+path, rig.NodeReadToken)
		repeats := 0
		for pause := time.Second; err != nil && pause <= 8*time.Second; pause *= 2 {
			mu.Lock()
			last = err
			mu.Unlock()
			repeats++
			<-time.After(pause)
			status, body, err = get(t.Context(), url+path, rig.NodeReadToken)
		}
		mu.Lock()
		defer mu.Unlock()
		polls++
		repeated += repeats
		longest = max(longest, time.Since(begun))
		switch {
		case err != nil:
			failed++
		case status != http.StatusOK:
			failed++
			last = fmt.Errorf("status %d: %.200s", status, body)
		case body != want[path]:
			t.Errorf("%s is answered with %s, not %s", path, body, want[path])
		}
	}
	for cluster := range 4 {
		running.Go(func() {
			for i := cluster; ; i++ {
				select {
				case <-ended:
					return
				case <-t.Context().Done(): // the test has failed
					return
				default:
					poll(paths[i%len(paths)])
				}
			}
		})
	}
	return func(during string) int {
		t.Helper()
		close(ended)
		running.Wait()
		t.Logf("%s: %d of %d polls failed, %d requests repeated, a poll was answered after %s at most; the last error: %v",
			during, failed, polls, repeated, longest.Round(time.Millisecond), last)
		if polls == failed {
			t.Errorf("during %s, no poll was answered", during)
		}
		return failed
	}
}

// killContainer kills the process of a pod of a component, as the kernel does when memory is short, and returns the pod's name.
func killContainer(t *testing.T, component string) string {
	t.Helper()
	var pods corev1.PodList
	if err := node.Kube.List(t.Context(), &pods, client.InNamespace(namespace), client.MatchingLabels{
		"app.kubernetes.io/instance": "released", "app.kubernetes.io/component": component,
	}); err != nil {
		t.Fatal(err)
	}
	running := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(running) == 0 {
		t.Fatalf("no pod of component %s", component)
	}
	container := strings.TrimPrefix(running[0].Status.ContainerStatuses[0].ContainerID, "containerd://")
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range groups {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), container) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		return running[0].Name
	}
	t.Fatalf("no process runs in container %s of pod %s", container, running[0].Name)
	return ""
}

func unpacked(t *testing.T, name string) []byte {
	t.Helper()
	file, err := os.Open(filepath.Join(releaseFixture, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

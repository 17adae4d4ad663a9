package rig

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GitRepository stands in for a repository in Git: an object of this kind whose status has the files of the newest commit.
type GitRepository struct {
	kube      client.Client
	namespace string
	name      string
	server    *httptest.Server
	content   atomic.Pointer[[]byte]
}

// NewGitRepository creates a repository without a commit. Close it.
func (w *Env) NewGitRepository(ctx context.Context, namespace, name string) (*GitRepository, error) {
	r := &GitRepository{kube: w.Kube, namespace: namespace, name: name}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(*r.content.Load()) }))
	object := Object(sourceAPI, "GitRepository")
	object.SetNamespace(namespace)
	object.SetName(name)
	object.Object["spec"] = map[string]any{"url": "https://git.example.com/" + name, "interval": "1m"}
	return r, w.Kube.Create(ctx, object)
}

// Commit replaces the files of the repository.
func (r *GitRepository) Commit(ctx context.Context, files map[string]string) error {
	content, err := archive(files)
	if err != nil {
		return err
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	r.content.Store(&content)
	object := Object(sourceAPI, "GitRepository")
	if err := r.kube.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: r.name}, object); err != nil {
		return err
	}
	before, now := object.DeepCopy(), metav1.Now().UTC().Format(time.RFC3339)
	object.Object["status"] = map[string]any{
		"observedGeneration": object.GetGeneration(),
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored artifact", "observedGeneration": object.GetGeneration(), "lastTransitionTime": now,
		}},
		"artifact": map[string]any{"path": "a.tar.gz", "url": r.server.URL + "/a.tar.gz", "revision": "main@" + digest, "digest": digest, "size": int64(len(content)), "lastUpdateTime": now},
	}
	return r.kube.Status().Patch(ctx, object, client.MergeFrom(before))
}

// Close ends the server of the files.
func (r *GitRepository) Close() { r.server.Close() }

// SecondAPIServer starts another Kubernetes API server with the custom resource definitions of Flux and without any controller of Flux. It
// returns its kubeconfig and what ends it.
func (w *Env) SecondAPIServer(ctx context.Context) (c client.Client, kubeconfig string, stop func(), err error) {
	built, err := tools(ctx, w.root, io.Discard, fluxTools...)
	if err != nil {
		return nil, "", nil, err
	}
	dir := filepath.Join(w.dir, "second")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, "", nil, err
	}
	cp, err := startControlPlane(ctx, dir, built, argsWithoutNode())
	if err == nil {
		err = cp.defineFlux(ctx, built)
	}
	if err != nil {
		if cp != nil {
			cp.stop()
		}
		return nil, "", nil, err
	}
	return cp.client, cp.kubeconfig, cp.stop, nil
}

// Kubectl returns the path of kubectl.
func (w *Env) Kubectl(ctx context.Context) (string, error) {
	built, err := tools(ctx, w.root, io.Discard, "kubectl")
	return filepath.Join(built["kubectl"], "kubectl"), err
}

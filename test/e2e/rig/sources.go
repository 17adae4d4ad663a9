package rig

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RequestedAt is the annotation that requests a reconciliation.
const RequestedAt = "reconcile.fluxcd.io/requestedAt"

const sourceAPI = "source.toolkit.fluxcd.io/v1"

// sources stands in for source-controller: it offers charts and kustomize trees of our own under any URL,
// and writes the status that the other controllers wait for.
type sources struct {
	client client.WithWatch
	log    *slog.Logger
	events *events
	url    string
	except []string // namespaces

	mu        sync.Mutex
	artifacts map[string][]byte // by path
}

// startSources serves artifacts at an address of this machine and looks after source objects, except those of some namespaces, until
// ctx ends. It reports failed fetches to events, unless that is nil.
func startSources(ctx context.Context, c client.WithWatch, host string, log *slog.Logger, events *events, except []string) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return err
	}
	s := &sources{client: c, log: log, events: events, except: except, url: "http://" + ln.Addr().String(), artifacts: map[string][]byte{}}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(ln) }()
	for _, kind := range []string{"HelmRepository", "HelmChart", "OCIRepository"} {
		go follow(ctx, c, log, Object(sourceAPI, kind), s.reconcile)
	}
	return nil
}

func (s *sources) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	artifact, ok := s.artifacts[r.URL.Path]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(artifact)
}

// follow calls reconcile for every object of a kind, and again whenever it changes, until ctx ends.
func follow(ctx context.Context, c client.WithWatch, log *slog.Logger, kind *unstructured.Unstructured, reconcile func(context.Context, *unstructured.Unstructured) error) {
	for ctx.Err() == nil {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersionKind())
		list.SetKind(kind.GetKind() + "List")
		// Without a resource version a watch begins with every object there is.
		watcher, err := c.Watch(ctx, list)
		if err != nil {
			log.ErrorContext(ctx, "watch failed", "kind", kind.GetKind(), "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		for event := range watcher.ResultChan() {
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type == watch.Deleted || object.GetDeletionTimestamp() != nil {
				continue
			}
			if err := reconcile(ctx, object); err != nil && ctx.Err() == nil {
				log.ErrorContext(ctx, "reconcile failed", "kind", kind.GetKind(), "name", object.GetName(), "error", err)
			}
		}
	}
}

// reconcile writes the status of a source as source-controller would.
func (s *sources) reconcile(ctx context.Context, object *unstructured.Unstructured) error {
	if slices.Contains(s.except, object.GetNamespace()) {
		return nil
	}
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	handled, _, _ := unstructured.NestedString(object.Object, "status", "lastHandledReconcileAt")
	requested := object.GetAnnotations()[RequestedAt]
	if observed == object.GetGeneration() && handled == requested {
		return nil
	}
	if object.GetKind() == "HelmChart" {
		if err := s.client.Get(ctx, repositoryOf(object), Object(sourceAPI, "HelmRepository")); err != nil {
			return client.IgnoreNotFound(err) // until it is there
		}
	}
	revision, content, err := offer(object)
	condition := map[string]any{
		"type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored artifact " + revision,
		"observedGeneration": object.GetGeneration(), "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
	}
	status := map[string]any{"observedGeneration": object.GetGeneration(), "conditions": []any{condition}}
	if requested != "" {
		status["lastHandledReconcileAt"] = requested
	}
	switch {
	case err != nil:
		condition["status"], condition["reason"], condition["message"] = "False", "NotFound", err.Error()
		status["artifact"] = nil
		if s.events != nil {
			s.events.sourceFailed(ctx, object, "NotFound", err.Error())
		}
	case content != nil:
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
		if object.GetKind() == "OCIRepository" {
			revision += "@" + digest
		}
		where := path.Join("/", strings.ToLower(object.GetKind()), object.GetNamespace(), object.GetName(), digest[len("sha256:"):]+".tar.gz")
		s.mu.Lock()
		s.artifacts[where] = content
		s.mu.Unlock()
		status["artifact"] = map[string]any{
			"path": where[1:], "url": s.url + where, "revision": revision, "digest": digest, "size": int64(len(content)),
			"lastUpdateTime": metav1.Now().UTC().Format(time.RFC3339),
		}
	}
	before := object.DeepCopy()
	object.Object["status"] = status
	if err := s.client.Status().Patch(ctx, object, client.MergeFrom(before)); err != nil || object.GetKind() != "HelmRepository" {
		return client.IgnoreNotFound(err)
	}
	return s.reconcileChartsOf(ctx, client.ObjectKeyFromObject(object))
}

// reconcileChartsOf looks after the charts that have waited for a repository.
func (s *sources) reconcileChartsOf(ctx context.Context, repository client.ObjectKey) error {
	charts := &unstructured.UnstructuredList{}
	charts.SetAPIVersion(sourceAPI)
	charts.SetKind("HelmChartList")
	if err := s.client.List(ctx, charts, client.InNamespace(repository.Namespace)); err != nil {
		return err
	}
	for _, chart := range charts.Items {
		if repositoryOf(&chart) == repository {
			if err := s.reconcile(ctx, &chart); err != nil {
				return err
			}
		}
	}
	return nil
}

// repositoryOf is the repository that a HelmChart is from.
func repositoryOf(chart *unstructured.Unstructured) client.ObjectKey {
	name, _, _ := unstructured.NestedString(chart.Object, "spec", "sourceRef", "name")
	return client.ObjectKey{Namespace: chart.GetNamespace(), Name: name}
}

// offer returns the revision and the content of a source; no content for a HelmRepository, whose index is never read.
func offer(object *unstructured.Unstructured) (revision string, content []byte, err error) {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, append([]string{"spec"}, fields...)...)
		return value
	}
	switch object.GetKind() {
	case "HelmChart":
		if revision, err = newest(text("version")); err == nil {
			content, err = existing(text("chart"), revision)
		}
	case "OCIRepository":
		if text("layerSelector", "mediaType") == "" {
			if revision = text("ref", "tag"); strings.HasPrefix(revision, noVersion) {
				return "", nil, fmt.Errorf("no tag %s", revision)
			}
			content, err = tree(revision, path.Base(text("url")))
			break
		}
		if revision = text("ref", "tag"); revision == "" {
			revision, err = newest(text("ref", "semver"))
		}
		if err == nil {
			content, err = existing(path.Base(text("url")), revision)
		}
	}
	return revision, content, err
}

func existing(name, version string) ([]byte, error) {
	if strings.HasPrefix(name, noChart) || strings.HasPrefix(version, noVersion) {
		return nil, fmt.Errorf("no chart %s of version %s", name, version)
	}
	return chart(name, version)
}

// newest is the newest version that a constraint allows.
func newest(constraint string) (string, error) {
	if constraint == "" {
		constraint = "*"
	}
	allowed, err := semver.NewConstraint(constraint)
	if err != nil {
		return "", err
	}
	for _, version := range slices.Backward(chartVersions) {
		if allowed.Check(semver.MustParse(version)) {
			return version, nil
		}
	}
	return "", fmt.Errorf("no version matches %q", constraint)
}

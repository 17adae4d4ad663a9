package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// events stands in for notification-controller, which takes as long to build as all others together: Flux's controllers post
// events to it, and it forwards the events of a cluster's objects as a Provider of type generic does. It tries once: events are
// lost now and then.
type events struct {
	url string
	log *slog.Logger

	mu sync.Mutex
	to map[string]string // by namespace: where to
}

// startEvents takes events until ctx ends.
func startEvents(ctx context.Context, log *slog.Logger) (*events, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &events{url: "http://" + ln.Addr().String() + "/", log: log, to: map[string]string{}}
	server := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(ln) }()
	return e, nil
}

// SendEvents has the events about objects in a namespace sent to an address, as the cluster chart does with events.enabled.
func (w *Env) SendEvents(namespace, address string) {
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	w.events.to[namespace] = address
}

func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var event map[string]any
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &event)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	go e.pass(context.WithoutCancel(r.Context()), event)
}

// pass sends an event on. Keys of metadata lose the group of the object and of Flux's events, as there.
func (e *events) pass(ctx context.Context, event map[string]any) {
	namespace, _, _ := unstructured.NestedString(event, "involvedObject", "namespace")
	version, _, _ := unstructured.NestedString(event, "involvedObject", "apiVersion")
	e.mu.Lock()
	to := e.to[namespace]
	e.mu.Unlock()
	if to == "" {
		return
	}
	if metadata, ok := event["metadata"].(map[string]any); ok {
		group, _, _ := strings.Cut(version, "/")
		kept := map[string]any{}
		for key, value := range metadata {
			for _, prefix := range []string{group, "event.toolkit.fluxcd.io"} {
				if name, cut := strings.CutPrefix(key, prefix+"/"); cut {
					kept[name] = value
				}
			}
		}
		event["metadata"] = kept
	}
	text, err := json.Marshal(event)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(text))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+ReadToken)
	resp, err := (&http.Client{}).Do(req)
	if err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusAccepted {
			return
		}
		err = fmt.Errorf("%s", resp.Status)
	}
	e.log.ErrorContext(ctx, "an event was lost", "to", to, "error", err)
}

// sourceFailed sends the event of source-controller for a source that it cannot fetch.
func (e *events) sourceFailed(ctx context.Context, source *unstructured.Unstructured, reason, message string) {
	metadata := map[string]any{}
	for key, value := range source.GetAnnotations() {
		if strings.HasPrefix(key, "event.toolkit.fluxcd.io/") {
			metadata[key] = value
		}
	}
	go e.pass(context.WithoutCancel(ctx), map[string]any{
		"involvedObject": map[string]any{
			"kind": source.GetKind(), "namespace": source.GetNamespace(), "name": source.GetName(), "apiVersion": source.GetAPIVersion(),
		},
		"severity": "error", "timestamp": metav1.Now().UTC().Format(time.RFC3339), "reason": reason, "message": message,
		"metadata": metadata, "reportingController": "source-controller",
	})
}

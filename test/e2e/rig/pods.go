package rig

import (
	"context"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// startPods stands in for the nodes: every pod is running as soon as it exists, so that a wait for a
// Deployment goes on.
func startPods(ctx context.Context, c client.WithWatch, log *slog.Logger) {
	go follow(ctx, c, log, Object("v1", "Pod"), func(ctx context.Context, pod *unstructured.Unstructured) error {
		if phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase"); phase == "Running" {
			return nil
		}
		now := metav1.Now().UTC().Format(time.RFC3339)
		before := pod.DeepCopy()
		var conditions []any
		for _, kind := range []string{"PodScheduled", "Initialized", "ContainersReady", "Ready"} {
			conditions = append(conditions, map[string]any{"type": kind, "status": "True", "lastTransitionTime": now})
		}
		pod.Object["status"] = map[string]any{"phase": "Running", "startTime": now, "conditions": conditions}
		return client.IgnoreNotFound(c.Status().Patch(ctx, pod, client.MergeFrom(before)))
	})
}

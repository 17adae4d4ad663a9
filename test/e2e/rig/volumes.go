package rig

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// storageClass is the default one.
const storageClass = "node"

// startVolumes stands in for a provisioner until ctx ends: every claim gets a folder of the node. The volumes are of type
// `local`, whose group the kubelet sets as it does for disks.
func startVolumes(ctx context.Context, c client.WithWatch, log *slog.Logger) {
	now := storagev1.VolumeBindingImmediate
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: storageClass, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: "example.com/folders", VolumeBindingMode: &now,
	}
	if err := c.Create(ctx, class); err != nil {
		log.ErrorContext(ctx, "no storage class", "error", err)
	}
	go follow(ctx, c, log, Object("v1", "PersistentVolumeClaim"), func(ctx context.Context, claim *unstructured.Unstructured) error {
		folder := Volume(string(claim.GetUID()))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		volume := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pvc-%s", claim.GetUID())},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: storageClass, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: requested(claim),
				ClaimRef:               &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.GetNamespace(), Name: claim.GetName(), UID: claim.GetUID()},
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: folder}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName}}},
				}}}},
			},
		}
		return client.IgnoreAlreadyExists(c.Create(ctx, volume))
	})
}

// Volume is the folder of the claim with this UID.
func Volume(claim string) string { return filepath.Join(nodeData, "volumes", claim) }

// requested is how much a claim asks for.
func requested(claim *unstructured.Unstructured) corev1.ResourceList {
	size, _, _ := unstructured.NestedString(claim.Object, "spec", "resources", "requests", "storage")
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

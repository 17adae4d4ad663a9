package rig

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// helmTemplate renders a chart, which is a folder or a package.
func (w *Env) helmTemplate(ctx context.Context, chart string, values map[string]any) (string, error) {
	text, err := yaml.Marshal(values)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(w.root, "scripts", "tool"), "helm", "template", "release",
		chart, "--namespace", systemNamespace, "--values", "-")
	cmd.Stdin = bytes.NewReader(text)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("helm template %s: %w\n%s", chart, err, stderr.String())
	}
	return string(out), nil
}

// PodSettings returns the settings that chart flux-resourceset gives the pods of a Deployment with these values. mounts maps
// the mounted folders of the chart to folders here.
func (w *Env) PodSettings(ctx context.Context, deployment string, values map[string]any, mounts map[string]string) (map[string]string, error) {
	text, err := w.helmTemplate(ctx, filepath.Join(w.root, "charts", "flux-resourceset"), values)
	if err != nil {
		return nil, err
	}
	var found *appsv1.Deployment
	secrets := map[string]map[string]string{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Data     map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, err
		}
		switch {
		case object.Kind == "Secret":
			secrets[object.Metadata.Name] = object.Data
		case object.Kind == "Deployment" && object.Metadata.Name == deployment:
			found = &appsv1.Deployment{}
			if err := yaml.UnmarshalStrict([]byte(document), found); err != nil {
				return nil, err
			}
		}
	}
	if found == nil {
		return nil, fmt.Errorf("the chart makes no Deployment %s", deployment)
	}
	container := found.Spec.Template.Spec.Containers[0]
	settings := map[string]string{}
	for _, variable := range container.Env {
		value, err := valueOf(variable, secrets)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(value, "/") {
			if value, err = mounted(value, container.VolumeMounts, mounts); err != nil {
				return nil, fmt.Errorf("%s: %w", variable.Name, err)
			}
		}
		if value != "" {
			settings[variable.Name] = value
		}
	}
	return settings, nil
}

// valueOf is the value of a variable; empty where it comes from an optional key that is not there.
func valueOf(variable corev1.EnvVar, secrets map[string]map[string]string) (string, error) {
	if variable.ValueFrom == nil {
		return variable.Value, nil
	}
	ref := variable.ValueFrom.SecretKeyRef
	if ref == nil {
		return "", fmt.Errorf("%s comes from something that is no Secret", variable.Name)
	}
	encoded, ok := secrets[ref.Name][ref.Key]
	if !ok && ref.Optional != nil && *ref.Optional {
		return "", nil
	}
	value, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || !ok {
		return "", errors.Join(fmt.Errorf("%s comes from key %s of Secret %s, which is not there", variable.Name, ref.Key, ref.Name), err)
	}
	return string(value), nil
}

// mounted returns the path of a pod's file on this machine. A file outside of the mounts does not exist in the pod.
func mounted(file string, volumes []corev1.VolumeMount, folders map[string]string) (string, error) {
	for _, volume := range volumes {
		rest, ok := strings.CutPrefix(file, volume.MountPath)
		if !ok || (rest != "" && rest[0] != '/') {
			continue
		}
		if folder, ok := folders[volume.MountPath]; ok {
			return folder + rest, nil
		}
	}
	return "", fmt.Errorf("%s is not in a folder that is mounted and known to this test", file)
}

package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// systemNamespace is where everything of a cluster's own lives.
const systemNamespace = "flux-system"

// defineFlux installs the namespace and the custom resource definitions of Flux.
func (cp *controlPlane) defineFlux(ctx context.Context, tools map[string]string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}}
	if err := client.IgnoreAlreadyExists(cp.client.Create(ctx, namespace)); err != nil {
		return err
	}
	for _, name := range []string{"flux-operator", "helm-controller", "kustomize-controller", "source-controller"} {
		files, err := filepath.Glob(filepath.Join(tools[name], "crds", "*.yaml"))
		if err != nil {
			return err
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			if err := cp.applyFile(ctx, file); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return cp.definitionsEstablished(ctx)
}

// startFlux starts Flux Operator, helm-controller and kustomize-controller, which post their events to an address.
func (cp *controlPlane) startFlux(ctx context.Context, dir string, tools map[string]string, events string) error {
	return errors.Join(
		cp.startController(ctx, dir, controller{
			name: "flux-operator", path: filepath.Join(tools["flux-operator"], "operator"),
			args: []string{"--web-server-port=0", "--storage-path=" + dir},
			env:  []string{"GODEBUG=fips140=on"},
		}),
		cp.startController(ctx, dir, controller{name: "helm-controller", path: filepath.Join(tools["helm-controller"], "helm-controller"), args: []string{"--events-addr=" + events}}),
		cp.startController(ctx, dir, controller{name: "kustomize-controller", path: filepath.Join(tools["kustomize-controller"], "kustomize-controller"), args: []string{"--events-addr=" + events}}),
	)
}

// startSourceController starts source-controller for the sources of one namespace.
func (cp *controlPlane) startSourceController(ctx context.Context, dir, tools, events, namespace string) error {
	ports, err := freePorts(ctx, 1)
	if err != nil {
		return err
	}
	address, storage := fmt.Sprintf("127.0.0.1:%d", ports[0]), filepath.Join(dir, "artifacts-"+namespace)
	if err := os.Mkdir(storage, 0o700); err != nil {
		return err
	}
	return cp.startController(ctx, dir, controller{
		name: "source-controller-" + namespace, path: filepath.Join(tools, "source-controller"), env: []string{"RUNTIME_NAMESPACE=" + namespace},
		args: []string{
			"--watch-all-namespaces=false", "--events-addr=" + events, "--storage-path=" + storage, "--storage-addr=" + address,
			"--storage-adv-addr=" + address,
		},
	})
}

type controller struct {
	name, path string
	args, env  []string
}

// startController starts a Flux program and waits until it is healthy.
func (cp *controlPlane) startController(ctx context.Context, dir string, c controller) error {
	ports, err := freePorts(ctx, 1)
	if err != nil {
		return err
	}
	health := fmt.Sprintf("127.0.0.1:%d", ports[0])
	proc, err := cp.start(dir, testrig.Program{
		Name: c.name, Path: c.path, Env: append([]string{"RUNTIME_NAMESPACE=" + systemNamespace}, c.env...),
		Args: append([]string{
			"--enable-leader-election=false", "--metrics-addr=0", "--health-addr=" + health, "--requeue-dependency=1s",
			"--concurrent=10", "--log-level=info",
		}, c.args...),
	})
	if err != nil {
		return err
	}
	return proc.Until(ctx, func(ctx context.Context) error {
		return testrig.GetOK(ctx, &http.Client{}, "http://"+health+"/healthz")
	})
}

// definitionsEstablished waits until all custom resources can be used.
func (cp *controlPlane) definitionsEstablished(ctx context.Context) error {
	return Eventually(ctx, func(ctx context.Context) error {
		var definitions unstructured.UnstructuredList
		definitions.SetAPIVersion("apiextensions.k8s.io/v1")
		definitions.SetKind("CustomResourceDefinitionList")
		if err := cp.client.List(ctx, &definitions); err != nil {
			return err
		}
		for _, definition := range definitions.Items {
			if err := HasCondition(&definition, "Established", "True"); err != nil {
				return err
			}
		}
		return nil
	})
}

package rig

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Registry is an OCI registry in this process, without TLS.
type Registry struct {
	Host string
}

// StartRegistry serves an empty registry until ctx ends.
func StartRegistry(ctx context.Context) (*Registry, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)))}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(ln) }()
	return &Registry{Host: ln.Addr().String()}, nil
}

// PushImage pushes an image that differs from images with another content, and returns its digest.
func (r *Registry) PushImage(ctx context.Context, repository, tag, content string) (string, error) {
	image, err := mutate.Config(mutate.MediaType(empty.Image, types.OCIManifestSchema1), v1.Config{Labels: map[string]string{"content": content}})
	if err != nil {
		return "", err
	}
	return r.push(ctx, repository, tag, image)
}

// PushChart pushes a version of chart podinfo, and returns its digest.
func (r *Registry) PushChart(ctx context.Context, repository, version string) (string, error) {
	content, err := podinfoChart(version)
	if err != nil {
		return "", err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.helm.config.v1+json")
	image, err = mutate.AppendLayers(image, static.NewLayer(content, "application/vnd.cncf.helm.chart.content.v1.tar+gzip"))
	if err != nil {
		return "", err
	}
	return r.push(ctx, repository, version, image)
}

func (r *Registry) push(ctx context.Context, repository, tag string, image v1.Image) (string, error) {
	ref, err := name.NewTag(r.Host+"/"+repository+":"+tag, name.Insecure)
	if err != nil {
		return "", err
	}
	if err := remote.Write(ref, image, remote.WithContext(ctx)); err != nil {
		return "", err
	}
	digest, err := image.Digest()
	return digest.String(), err
}

// podinfoChart packages a chart with the images of podinfo's, whose tags are values. The names of its objects end in the value suffix.
func podinfoChart(version string) ([]byte, error) {
	deployment := func(name, image string) string {
		return fmt.Sprintf(`
{{ $object := printf "%s-%%s" (default "own" .Values.suffix) }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $object }}
  labels: {version: {{ regexReplaceAll "[+].*" .Chart.Version "" | quote }}}
spec:
  selector: {matchLabels: {app: {{ $object }}}}
  template:
    metadata: {labels: {app: {{ $object }}}}
    spec: {containers: [{name: main, image: %s}]}
`, name, image)
	}
	return archive(map[string]string{
		"podinfo/Chart.yaml":                fmt.Sprintf("apiVersion: v2\nname: podinfo\nversion: %s\n", version),
		"podinfo/values.yaml":               "image: {repository: ghcr.io/stefanprodan/podinfo, tag: 6.0.0}\nredis: {repository: docker.io/redis, tag: 6.0.1}\n",
		"podinfo/templates/deployment.yaml": deployment("podinfo", `"{{ .Values.image.repository }}:{{ .Values.image.tag }}"`),
		"podinfo/templates/redis.yaml":      deployment("redis", `"{{ .Values.redis.repository }}:{{ .Values.redis.tag }}"`),
	})
}

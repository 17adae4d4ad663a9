package rig

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
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

// Registry is an OCI registry in this process.
type Registry struct {
	Host string

	transport http.RoundTripper
}

// StartRegistry serves an empty registry without TLS until ctx ends.
func StartRegistry(ctx context.Context) (*Registry, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: newRegistry()}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(ln) }()
	return &Registry{ln.Addr().String(), remote.DefaultTransport}, nil
}

// startTLSRegistry serves an empty registry with TLS until ctx ends, and writes its certificate to a file.
func startTLSRegistry(ctx context.Context, file string) (*Registry, error) {
	server := httptest.NewTLSServer(newRegistry())
	context.AfterFunc(ctx, server.Close)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &Registry{server.Listener.Addr().String(), server.Client().Transport}, os.WriteFile(file, text, 0o600)
}

func newRegistry() http.Handler {
	return registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)))
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

// PushArtifact pushes files as `flux push artifact` does, signed by a key as `cosign sign` does, and returns their digest. The tag is of
// a signed artifact at any time.
func (r *Registry) PushArtifact(ctx context.Context, repository, tag string, files map[string]string, key crypto.Signer) (string, error) {
	content, err := archive(files)
	if err != nil {
		return "", err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.flux.config.v1+json")
	image, err = mutate.AppendLayers(image, static.NewLayer(content, "application/vnd.cncf.flux.content.v1.tar+gzip"))
	if err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	text := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, digest)
	sum := sha256.Sum256(text)
	signature, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return "", err
	}
	signed, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer:       static.NewLayer(text, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signature)},
	})
	if err != nil {
		return "", err
	}
	if _, err := r.push(ctx, repository, strings.Replace(digest.String(), ":", "-", 1)+".sig", signed); err != nil {
		return "", err
	}
	return r.push(ctx, repository, tag, image)
}

func (r *Registry) push(ctx context.Context, repository, tag string, image v1.Image) (string, error) {
	ref, err := name.NewTag(r.Host+"/"+repository+":"+tag, name.Insecure)
	if err != nil {
		return "", err
	}
	if err := remote.Write(ref, image, remote.WithContext(ctx), remote.WithTransport(r.transport)); err != nil {
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

package drill

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	emptyimage "github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/check"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// pipeline pushes artifacts that the servers follow, to a registry that has no faults.
type pipeline struct {
	registry *httptest.Server
	ca       string // file with the registry's certificate
	pushed   int
}

func newPipeline(dir string) (*pipeline, error) {
	p := &pipeline{
		registry: httptest.NewTLSServer(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))),
		ca:       filepath.Join(dir, "registry.pem"),
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.registry.Certificate().Raw})
	return p, os.WriteFile(p.ca, text, 0o600)
}

// settings are the environment variables of servers that follow the artifacts.
func (p *pipeline) settings() []string {
	return []string{"REGISTRY_CA_FILE=" + p.ca, "VERSION_SCAN_ALLOW_PRIVATE=true"}
}

func (p *pipeline) repository() string {
	return strings.TrimPrefix(p.registry.URL, "https://") + "/fleet"
}

// push pushes the next artifact, as flux push artifact does. Its number is in both documents of check.FollowedPair. Each second artifact has
// one document more, which the next one removes.
func (p *pipeline) push(ctx context.Context) error {
	number := check.ArtifactValue(p.pushed + 1)
	var text strings.Builder
	for _, id := range check.FollowedPair {
		fmt.Fprintf(&text, "kind: ns\nid: %s\nlabels: {pair: %s}\n---\n", id, number)
	}
	text.WriteString("kind: ns\nid: followed-stays\n---\nkind: ns\nid: followed-remains\n")
	if p.pushed%2 == 0 {
		text.WriteString("---\nkind: ns\nid: followed-comes-and-goes\n")
	}
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	entries := tar.NewWriter(zipped)
	err := entries.WriteHeader(&tar.Header{Name: "fleet.yaml", Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(text.Len())})
	if err == nil {
		_, err = entries.Write([]byte(text.String()))
	}
	for _, w := range []interface{ Close() error }{entries, zipped} {
		if closing := w.Close(); err == nil {
			err = closing
		}
	}
	if err != nil {
		return err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(emptyimage.Image, types.OCIManifestSchema1), "application/vnd.cncf.flux.config.v1+json")
	img, err = mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(archive.Bytes(), "application/vnd.cncf.flux.content.v1.tar+gzip")})
	if err != nil {
		return err
	}
	ref, err := name.ParseReference(p.repository() + ":prod")
	if err != nil {
		return err
	}
	if err := remote.Write(ref, img, remote.WithTransport(p.registry.Client().Transport), remote.WithContext(ctx)); err != nil {
		return err
	}
	p.pushed++
	return nil
}

// follow makes the source, waits for its first artifact, and assigns the documents to all clusters.
func (d *Drill) follow(ctx context.Context) error {
	if err := d.pipeline.push(ctx); err != nil {
		return err
	}
	c, base := rig.NewClient(), d.cruds()[0].Running().Base
	send := func(method, path string, body any) error {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		if a := c.Send(ctx, base, method, path, text); !a.OK() {
			return fmt.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
		}
		return nil
	}
	id := check.FollowedSource
	if err := send(http.MethodPost, "/access", object{"id": id, "subjects": []object{{"source": id}}, "may": []string{"write"}}); err != nil {
		return err
	}
	if err := send(http.MethodPost, "/sources", object{"id": id, "url": "oci://" + d.pipeline.repository(), "tag": "prod", "interval": "30s", "prune": true}); err != nil {
		return err
	}
	if err := d.awaitArtifact(ctx); err != nil {
		return err
	}
	// The store has the artifact, but this process may not have it yet. A server asks the store before it refuses the assignments; that
	// of the negative control noop-unconfirmed does not.
	awaiting, cancel := context.WithTimeout(ctx, d.cfg.Healing)
	defer cancel()
	for {
		a := c.Send(awaiting, base, http.MethodGet, "/namespaces/"+check.FollowedPair[0], nil)
		if a.OK() {
			break
		}
		if !rig.Rest(awaiting, 50*time.Millisecond) {
			return fmt.Errorf("%s had no artifact within %s: %d %s", base, d.cfg.Healing, a.Status, a.Body)
		}
	}
	for n := range clusters {
		for _, ns := range check.FollowedPair {
			if err := send(http.MethodPut, "/clusters/"+clusterID(n)+"/namespaces/"+ns, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitArtifact waits until the newest artifact is applied.
func (d *Drill) awaitArtifact(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Healing)
	defer cancel()
	c, rng := rig.NewClient(), d.rng(300)
	for {
		last := d.reconcile(ctx, c, rng)
		s, err := d.db.Open(ctx)
		if err == nil {
			snap, loading := s.Load(ctx)
			_ = s.Close() // only read
			for _, r := range snap.Records {
				if loading == nil && r.Kind == fleet.KindNamespace && r.ID == check.FollowedPair[0] && strings.Contains(string(r.Body), `"`+check.ArtifactValue(d.pipeline.pushed)+`"`) {
					return nil
				}
			}
		}
		if !rig.Rest(ctx, 200*time.Millisecond) {
			return fmt.Errorf("artifact %d was not applied within %s; the last answer was %s", d.pipeline.pushed, d.cfg.Healing, last)
		}
	}
}

// reconcile requests a cycle of the source from any process, and returns the answer.
func (d *Drill) reconcile(ctx context.Context, c *rig.Client, rng *rand.Rand) string {
	all := d.cruds()
	r := all[rng.IntN(len(all))].Running()
	if r == nil {
		return "none: the process did not run"
	}
	a := c.Send(ctx, r.Base, http.MethodPost, "/sources/"+check.FollowedSource+"/reconcile", nil)
	return fmt.Sprintf("%d %s", a.Status, a.Body)
}

// runPipeline pushes artifacts, and requests a cycle after each, as a webhook of a registry would.
func (d *Drill) runPipeline(ctx context.Context) {
	c, rng := rig.NewClient(), d.rng(301)
	for rig.Rest(ctx, d.cfg.PushPace) {
		if err := d.pipeline.push(context.WithoutCancel(ctx)); err != nil {
			d.rec.Notef(true, "the artifact cannot be pushed: %v", err)
			return
		}
		d.reconcile(context.WithoutCancel(ctx), c, rng)
	}
}

package fleet

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Resource is a type of resource that clusters poll.
type Resource int

// The resources, in the order of assignments.
const (
	PlatformComponents Resource = iota
	Namespaces
	RoleBindings
	ResourceCount // how many there are
)

// String is the last part of the resource's path.
func (r Resource) String() string {
	return [...]string{"platform-components", "namespaces", "rolebindings"}[r]
}

// Answer is what a cluster receives for one resource, encoded once for all polls.
type Answer struct {
	Gzip  []byte // the body, compressed: every Flux Operator accepts that
	Size  int    // of the body before compression, in bytes
	ETag  string // strong, over the body
	Count int    // of inputs

	deps    []*Document // the definitions it was made of, in order
	current atomic.Pointer[stateToken]
}

// Body is the answer as it is for those who do not accept gzip.
func (a *Answer) Body() ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(a.Gzip))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zr)
}

// answers are the encoded answers of one version of a cluster's document, made when first asked for.
type answers [ResourceCount]atomic.Pointer[Answer]

// Answer returns what the cluster receives. It is encoded when it is first asked for after a document it is made of has changed.
// CodeUnresolved when stored data refers to a document that is not there: no answer then, never a shorter one.
func (s *State) Answer(d *Document, r Resource) (*Answer, error) {
	slot := &d.answers[r]
	if a := slot.Load(); a != nil && (a.current.Load() == s.token || s.stillMadeOf(r, a)) {
		a.current.Store(s.token)
		return a, nil
	}
	inputs, deps, err := s.inputs(d, r)
	if err != nil {
		return nil, err
	}
	a, err := encodeAnswer(inputs)
	if err != nil {
		return nil, err
	}
	a.Count, a.deps = len(deps), deps
	a.current.Store(s.token)
	slot.Store(a)
	return a, nil
}

func (s *State) stillMadeOf(r Resource, a *Answer) bool {
	kind := assignments[r].kind
	for _, dep := range a.deps {
		if s.docs[kind][dep.ID] != dep {
			return false
		}
	}
	return true
}

// inputs merges a cluster with the definitions it is assigned, in the order of assignment.
func (s *State) inputs(d *Document, r Resource) (any, []*Document, error) {
	return s.inputsOnly(d, r, nil)
}

// inputsOnly is inputs without those that only does not name; nil names all. A mistake in here must not look like an
// empty list, so the lists are only made once everything has been resolved.
func (s *State) inputsOnly(d *Document, r Resource, only map[string]bool) (any, []*Document, error) {
	c := d.Cluster()
	a := assignments[r]
	var deps []*Document
	for id := range a.each(c) {
		def, ok := s.docs[a.kind][id]
		if !ok {
			return nil, nil, errorf(CodeUnresolved, "cluster %q refers to the %s %q, which is not in the store", c.ID, nouns[a.kind], id)
		}
		deps = append(deps, def)
	}
	block := fluxCluster(c)
	switch r {
	case PlatformComponents:
		inputs, err := componentInputs(c, deps, block, only)
		return inputs, deps, err
	case Namespaces:
		return mapDocs(deps, func(def *Document) api.FluxNamespace { return namespaceInput(def.namespace(), block) }), deps, nil
	default:
		return mapDocs(deps, func(def *Document) api.FluxRoleBinding { return roleBindingInput(def.roleBinding(), block) }), deps, nil
	}
}

func componentInputs(c *api.Cluster, deps []*Document, block api.FluxCluster, only map[string]bool) ([]api.FluxPlatformComponent, error) {
	on := make(map[string]string, len(deps))
	for i, e := range c.PlatformComponents {
		if e.Enabled {
			on[e.ID] = deps[i].Component().Type
		}
	}
	inputs := make([]api.FluxPlatformComponent, 0, len(deps))
	for i, e := range c.PlatformComponents {
		if only != nil && !only[e.ID] {
			continue
		}
		in, err := componentInput(deps[i].Component(), e, c.Patches[e.ID], block, on)
		if err != nil {
			return nil, errorf(CodeUnresolved, "cluster %q: %v", c.ID, err)
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}

func mapDocs[T any](docs []*Document, f func(*Document) T) []T {
	out := make([]T, len(docs))
	for i, d := range docs {
		out[i] = f(d)
	}
	return out
}

func fluxCluster(c *api.Cluster) api.FluxCluster {
	return api.FluxCluster{Name: c.ClusterName, DNS: c.ClusterDNS, Environment: c.Environment}
}

// ClustersAnswer is the list of all live clusters, encoded when it is first asked for. See the function of that name.
func (s *State) ClustersAnswer() (*Answer, error) {
	s.clusters.once.Do(func() { s.clusters.answer, s.clusters.err = ClustersAnswer(s.All(KindCluster)) })
	return s.clusters.answer, s.clusters.err
}

// ClustersAnswer is the list of the given clusters as inputs. CodeLimitExceeded when it is more than Flux reads.
func ClustersAnswer(clusters []*Document) (*Answer, error) {
	a, err := encodeAnswer(mapDocs(clusters, func(d *Document) api.FluxClusterEntry {
		c := d.Cluster()
		return api.FluxClusterEntry{ID: c.ID, ClusterName: c.ClusterName, ClusterDNS: c.ClusterDNS, Environment: c.Environment, Labels: c.Labels}
	}))
	if err != nil {
		return nil, err
	}
	if a.Size > MaxAnswerBytes || len(clusters) > MaxInputs {
		return nil, errorf(CodeLimitExceeded, "%s, %d bytes: Flux Operator accepts %d inputs and %d bytes; narrow the list with environment or selector",
			plural(len(clusters), "cluster"), a.Size, MaxInputs, MaxAnswerBytes)
	}
	a.Count = len(clusters)
	return a, nil
}

func encodeInputs(w io.Writer, inputs any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Inputs any `json:"inputs"`
	}{inputs})
}

// gzipWriters are kept for reuse: a new one takes 800 KiB.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

func encodeAnswer(inputs any) (*Answer, error) {
	var zipped bytes.Buffer
	zw, _ := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(zw)
	zw.Reset(&zipped)
	hash := sha256.New()
	var size counter
	if err := encodeInputs(io.MultiWriter(zw, hash, &size), inputs); err != nil {
		return nil, err
	}
	if err := zw.Close(); err != nil {
		return nil, err
	}
	return &Answer{Gzip: bytes.Clone(zipped.Bytes()), Size: int(size), ETag: fmt.Sprintf("\"%x\"", hash.Sum(nil)[:12])}, nil
}

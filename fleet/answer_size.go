package fleet

import (
	"bytes"
	"encoding/json"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/helmvalues"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// MaxAnswerBytes is the largest body Flux Operator reads from an ExternalService (900 KiB after decompression).
const MaxAnswerBytes = 900 << 10

// adviseAnswerBytes is the size of an answer above which there is a warning.
const adviseAnswerBytes = MaxAnswerBytes * 7 / 10

// Validation must know the size of 10,000 clusters' answers after a change of a catalog entry, without encoding them. So
// every document caches an upper bound of the size that it adds, and an answer is encoded only if its bounds add up to
// nearly the limit. A cluster's bound covers its overrides, patches, and the cluster block, which every input repeats; a
// definition's bound covers an input without cluster settings. Merged patches are never larger than both sets together,
// since merging only shares or replaces values.

const (
	envelopeBytes   = len(`{"inputs":[]}` + "\n")
	entryBytes      = len(`{"id":"","enabled":false,"oci_tag":"","component_path":"","component_version":""},`)
	referenceBytes  = len(`{"kind":"ConfigMap","name":"","values_key":"","optional":false},`)
	dependencyBytes = len(`{"id":"","type":"kustomize"},`)
)

// encodedSize returns the size of a value as JSON, in bytes.
func encodedSize(v any) int {
	var n counter
	enc := json.NewEncoder(&n)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return 0 // models can always be encoded; raw values were parsed before they were stored
	}
	return int(n)
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// componentBound returns an upper bound, in bytes, of the size of a component's input without the cluster's settings.
func componentBound(p *api.PlatformComponent) int {
	in, err := componentInput(p, api.ComponentAssignment{}, nil, &inputContext{})
	if err != nil {
		return 0 // contradicting patches: the answer fails as a whole
	}
	n := encodedSize(in) + len(p.ID)
	for _, id := range p.DependsOn {
		n += dependencyBytes + len(id)
	}
	return n
}

// clusterBound is the sum of the bounds of a cluster's settings in all compiled-in lists.
func (ks *kindSet) clusterBound(value any) int {
	n := 0
	for _, a := range ks.lists[:ks.compiledCount] {
		if a.hasOverrides && !a.sizeFromType {
			n += a.size(ks.cluster(value))
		}
	}
	return n
}

// overridesBound is the sum over the overrides and patches of all assigned components.
func overridesBound(c *api.Cluster) int {
	n := 0
	for _, e := range c.PlatformComponents {
		n += entryBytes
		for _, s := range []string{e.ID, e.OCITag, e.ComponentPath, e.ComponentVersion} {
			if n += len(s); !jsontext.Plain(s) {
				n += encodedSize(s)
			}
		}
	}
	for _, e := range c.PlatformComponents {
		for _, ref := range e.ValuesFrom {
			n += referenceBytes + len(ref.Name) + len(ref.ValuesKey) // neither contains characters that are escaped
		}
	}
	for _, patches := range c.Patches {
		n += helmvalues.Bound(patches)
	}
	return n
}

// bound returns an upper bound of the size of a cluster's answer, in bytes.
func (s *State) bound(d *Effective, a *descriptor) int {
	n := envelopeBytes + a.overrideBound(d)
	for id := range a.eachID(d) {
		if def, ok := s.docs[a.kind][id]; ok {
			n += def.bound + d.block + receiptBytes
		}
	}
	return n
}

// checkSizes checks the answers of a cluster against Flux's limit.
func checkSizes(c *checker, d *Effective, lists ...*descriptor) {
	if c.alreadyValid {
		return
	}
	for _, a := range lists {
		if c.next.bound(d, a) < adviseAnswerBytes {
			continue
		}
		inputs, _, err := c.next.inputs(d, a, nil)
		if err != nil {
			continue // reported as the invalid reference or patch
		}
		var body bytes.Buffer
		if err := encodeInputs(&body, values(inputs)); err != nil {
			c.problem("", "the %s of cluster %q cannot be encoded: %v", a.endpoint, d.id, err)
			continue
		}
		switch n := body.Len() + len(inputs)*receiptBytes; {
		case n > MaxAnswerBytes:
			c.limitOf(n, a.pointer(), "the %s of cluster %q would be %d bytes; Flux Operator accepts %d", a.endpoint, d.id, n, MaxAnswerBytes)
		case n > adviseAnswerBytes:
			c.warn("the %s of cluster %q are %d bytes, above 70 %% of the %d that Flux Operator accepts", a.endpoint, d.id, n, MaxAnswerBytes)
		}
	}
}

package fleet

import (
	"bytes"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// get returns the variant of a document; nil: there is none.
func (v *variants) get(kind Kind, id string) *Document {
	if v == nil {
		return nil
	}
	return v.docs[docKey{kind, id}]
}

// key is the part of a chain's key that stands for the variants.
func (v *variants) key() string {
	var key strings.Builder
	for _, d := range v.rollouts {
		key.WriteByte(1)
		key.WriteString(d.ID)
	}
	return key.String()
}

// matchesWith reports whether a layer applies to a cluster, in the version that the cluster has.
func (v *variants) matchesWith(layer *Document, c *api.Cluster) (*Document, bool) {
	if other := v.get(KindLayer, layer.ID); other != nil {
		layer = other
	}
	return layer, layer.layer().matches(c)
}

// sameDocument reports whether two documents have the same content, so that inputs built from them are equal.
func sameDocument(a, b *Document) bool {
	return a == b || a != nil && b != nil && a.rules == b.rules && bytes.Equal(a.Body, b.Body)
}

// rolloutsOn returns the rollouts that reach a cluster.
func (e *Effective) rolloutsOn() []*Document {
	if e.chain == nil || e.chain.variants == nil {
		return nil
	}
	return e.chain.variants.rollouts
}

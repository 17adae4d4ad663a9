package fleet

import (
	"bytes"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// get returns the document in place of a stored one; nil: there is none.
func (v *Overlay) get(kind Kind, id string) *Document {
	if v == nil {
		return nil
	}
	return v.docs[docKey{kind, id}]
}

// key is the part of a chain's key that stands for the overlay.
func (v *Overlay) key() string {
	if v == nil {
		return ""
	}
	var key strings.Builder
	for _, d := range v.rollouts {
		key.WriteByte(1)
		key.WriteString(d.ID)
	}
	return key.String()
}

// matchesWith reports whether a layer applies to a cluster, in the version that the cluster has.
func (v *Overlay) matchesWith(layer *Document, c *api.Cluster) (*Document, bool) {
	if other := v.get(KindLayer, layer.ID); other != nil {
		layer = other
	}
	return layer, layer.layer().matches(c)
}

// sameDocument reports whether two documents have the same content, so that inputs built from them are equal.
func sameDocument(a, b *Document) bool {
	return a == b || a != nil && b != nil && a.rules == b.rules && bytes.Equal(a.Body, b.Body)
}

// variant returns the version of a document that rollouts or a pin put in place of the stored one; nil: there is none.
func (st *layerChain) variant(kind Kind, id string) *Document {
	if st.unresolved != nil {
		st = st.unresolved
	}
	return st.overlay.get(kind, id)
}

// rolloutsOn returns the rollouts that reach a cluster.
func (e *Effective) rolloutsOn() []*Document {
	if e.chain == nil || e.chain.overlay == nil {
		return nil
	}
	return e.chain.overlay.rollouts
}

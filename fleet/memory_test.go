package fleet

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

// A document does not reference its former versions, and the result of a batch does not reference intermediate ones:
// otherwise a cluster that changes a thousand times would be in memory a thousand times.
func TestDocumentsDoNotReferenceFormerVersions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Tx) error{
		"assign":     assign("demo-cluster-01", KindComponent, "podinfo", `{"oci_tag":"9.9.9"}`),
		"unassign":   func(tx *Tx) error { _, err := tx.Unassign("demo-cluster-01", KindComponent, "podinfo"); return err },
		"set_labels": func(tx *Tx) error { _, err := tx.SetLabels("demo-cluster-01", []byte(`{"a":"b"}`)); return err },
		"patch_values": func(tx *Tx) error {
			_, err := tx.PatchValues("demo-cluster-01", "podinfo", []byte(`{"a":"b"}`), PatchOptions{})
			return err
		},
		"patch": func(tx *Tx) error {
			_, err := tx.Patch(KindCluster, "demo-cluster-01", []byte(`{"labels":{"a":"b"}}`))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := demo(t)
			replaced := weak.Make(w.state.docs[KindCluster]["demo-cluster-01"])
			w.must(change)
			require.Eventually(t, func() bool { runtime.GC(); return replaced.Value() == nil }, time.Minute, time.Millisecond)
			runtime.KeepAlive(w)
		})
	}
}

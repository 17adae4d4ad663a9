package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMatch: If-Match names the version of a document as clients receive it behind proxies and shells, or a revision of the fleet
// since which the document has not changed.
func TestMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"a", "b", "c"} {
		w.must(func(tx *Tx) error {
			_, err := tx.Create(KindNamespace, []byte(`{"id":"`+id+`"}`))
			return err
		})
	}
	doc, _ := w.state.Get(KindNamespace, "b")
	tag := doc.ETag()[1 : len(doc.ETag())-1]
	for _, header := range []string{`"` + tag + `"`, tag, "*", `W/"` + tag + `"`, `"` + tag + `-gzip"`, `W/"` + tag + `;br"`, `"x", "` + tag + `--gzip"`, "2", `"2"`, "3"} {
		require.NoError(t, w.state.Begin().Match(KindNamespace, "b", header), header)
	}
	for _, header := range []string{"1", "0", "-2", "4", "99", `"2-00000000"`, tag + "x", tag[:len(tag)-1], "gzip", `""`, `"-gzip"`} {
		require.Error(t, w.state.Begin().Match(KindNamespace, "b", header), header)
	}
}

package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

func TestMergePut(t *testing.T) {
	t.Parallel()
	parse := func(s string) map[string]any {
		obj, err := ParseObject([]byte(s))
		require.NoError(t, err)
		return obj
	}
	stored := `{"a":1,"m":{"x":1,"y":2},"l":[{"id":"p","tag":"v1","ours":true},{"id":"q"}],"future":{"z":1}}`
	got, err := jsontext.Canonical(mergePut(parse(stored), parse(`{"a":null,"m":{"y":3},"l":[{"id":"r"},{"id":"p","tag":null}]}`)))
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1,"m":{"y":3},"l":[{"id":"r"},{"id":"p","tag":null,"ours":true}],"future":{"z":1}}`, string(got))
}

package helmvalues

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithNulls(t *testing.T) {
	t.Parallel()
	for patches, want := range map[string]string{
		`{}`:                         "",
		`{"a":"x","b":"nullable"}`:   "",
		`{"a":"NULL","b":1}`:         `{"a":null,"b":1}`,
		`{"a":"\"null\""}`:           "",
		`{"a":{"b":null}}`:           `{"a":{"b":null}}`,
		`{"a":[null]}`:               "",
		`{"a[1]":"x"}`:               "",
		`{"a":[{"b":{"c":null}},1]}`: `{"a":[{"b":{"c":null}},1]}`,
	} {
		set := patchesOf(t, patches)
		values, problems := Expand(set)
		require.Empty(t, problems)
		text, err := WithNulls(values)
		require.NoError(t, err)
		require.Equal(t, want, text, patches)
		require.True(t, want == "" || MayHaveNull(set), patches)
		require.GreaterOrEqual(t, Bound(set), encodedSize(t, set)+encodedSize(t, values)+encodedSize(t, text), patches)
	}
}

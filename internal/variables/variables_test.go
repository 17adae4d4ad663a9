package variables

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	value := func(ref string) (string, error) { return "<" + ref[2:len(ref)-1] + ">", nil }
	for text, want := range map[string]string{
		"": "", "a": "a", "${cluster.id}": "<cluster.id>", "x${vars.a}${vars.b}y": "x<vars.a><vars.b>y",
		"$${vars.a}": "${vars.a}", "$$${vars.a}": "$${vars.a}", "${A} $${A} ${cluster}": "${A} $${A} ${cluster}",
		"${cluster.labels.a-b}": "<cluster.labels.a-b>", "${cluster.labels['a.b/c']}": "<cluster.labels['a.b/c']>",
		"$${cluster.nope ${cluster.dns}": "${cluster.nope <cluster.dns>", "${vars.a": "", "${vars.}": "", "${cluster.nope}": "",
		"${vars.a b}": "", "${cluster.labels.a.b}": "", "${vars.1}": "", "${cluster.labels['a\"']}": "",
	} {
		got, err := Expand(text, value)
		if want == "" && text != "" {
			require.ErrorContains(t, err, "is not a reference", text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	_, err := Expand("${vars.a}", func(string) (string, error) { return "", errors.New("none") })
	require.EqualError(t, err, "none")
}

func TestText(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{`"a"`: "a", `2`: "2", `true`: "true", `1.50`: "1.50", `"\u0022"`: `"`} {
		got, ok := Text(json.RawMessage(raw))
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	for _, raw := range []string{"", "null", "{}", "[]"} {
		_, ok := Text(json.RawMessage(raw))
		require.False(t, ok, raw)
	}
}

package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEqualPatchesAreCheckedOnEachCluster: patches that are valid on one cluster are not checked again on others, but
// problems and warnings are reported for each cluster that has them.
func TestEqualPatchesAreCheckedOnEachCluster(t *testing.T) {
	t.Parallel()
	docs := []string{
		string(KindComponent), `{"id":"a","component_path":"p","oci_url":"https://charts.example.com","patches":{"x.y":"1"}}`,
		string(KindComponent), `{"id":"b","component_path":"p","oci_url":"https://charts.example.com","patches":{"x":"1"}}`,
	}
	for i := range 4 {
		docs = append(docs, string(KindCluster), fmt.Sprintf(`{"id":"k%d","cluster_dns":"k%d.example.com","environment":"dev","platform_components":[{"id":"a"},{"id":"b"}]}`, i, i))
	}
	w := newWorld(t, docs...)
	set := func(cluster int, patches string) string {
		return fmt.Sprintf(`{"op":"patch","kind":"cluster","id":"k%d","patch":{"patches":%s}}`, cluster, patches)
	}
	valid, contradiction := `{"a":{"x.z":"1"}}`, `{"a":{"x.z":"1"},"b":{"x.z":"1"}}`
	err := w.refused(CodeInvalid, batch(set(0, valid), set(1, contradiction), set(2, valid), set(3, contradiction)))
	require.Len(t, err.Problems, 2)
	for i, id := range []string{"k1", "k3"} {
		require.Equal(t, id, err.Problems[i].ID)
		require.Contains(t, err.Problems[i].Pointer, "/patches/b/x.z")
	}

	secret := `{"a":{"token":"1"}}`
	res := w.must(batch(set(0, secret), set(1, secret)))
	require.Len(t, res.Warnings, 1)
	require.Contains(t, res.Warnings[0], "looks like a secret")

	large := fmt.Sprintf(`{"a":{"x.z":%q}}`, strings.Repeat("x", maxPatchesBytes))
	err = w.refused(CodeInvalid, batch(set(0, large), set(1, large), set(2, large), set(3, large)))
	require.Len(t, err.Problems, 4)

	// The component changes in the same commit, so the patches are checked with its new document.
	w.must(batch(set(0, valid), set(1, valid)))
	err = w.refused(CodeInvalid, batch(set(0, `{"a":{"x.z":"1","q":"1"}}`), `{"op":"patch","kind":"platform_component","id":"a","patch":{"patches":{"x":"1","x.y":null}}}`))
	require.Len(t, err.Problems, 2)
}

// TestSecretLike: only a text or a structure can be a secret.
func TestSecretLike(t *testing.T) {
	t.Parallel()
	for patches, warned := range map[string]bool{
		`{"automountServiceAccountToken":true}`:                 false,
		`{"serviceAccount.automountServiceAccountToken":false}`: false,
		`{"automountServiceAccountToken":"false"}`:              false,
		`{"auth.token":7}`:                             false,
		`{"auth.existingSecret":"x"}`:                  false,
		`{"auth.token":""}`:                            false,
		`{"auth.token":"x"}`:                           true,
		`{"auth.token":"7"}`:                           true,
		`{"auth.secret":{"key":"x"}}`:                  true,
		`{"auth":{"admin":[{"password":"x"}]}}`:        true,
		`{"auth":{"existingSecret":"x","token":""}}`:   false,
		`{"tls":[{"secretName":"x","token":true}]}`:    false,
		`{"env":[{"name":"PASSWORD","value":"text"}]}`: false,
	} {
		w := newWorld(t)
		res := w.must(create(KindComponent, `{"id":"x","type":"helm","oci_url":"https://charts.example.com","component_path":"x","patches":`+patches+`}`))
		require.Equal(t, warned, len(res.Warnings) > 0, "%s: %q", patches, res.Warnings)
	}
}

// TestMisreadVariables: a variable that YAML reads as another value is warned of, wherever it is set.
func TestMisreadVariables(t *testing.T) {
	t.Parallel()
	const component = `{"id":"x","type":"kustomize","oci_url":"oci://r.example.com/x","component_path":".","patches":{"A":"1"}}`
	const cluster = `{"id":"c","cluster_dns":"c.example.com","environment":"dev","platform_components":[{"id":"x"}]}`
	for value, warned := range map[string]bool{`"yes"`: true, `"1.10"`: true, `"0777"`: true, `""`: true, `"1.1"`: false, `"true"`: false, `true`: false, `3`: false, `"v1.10"`: false} {
		w := newWorld(t, string(KindComponent), component, string(KindCluster), cluster)
		for kind, set := range map[string]func(*Tx) error{
			"catalog": patch(KindComponent, "x", `{"patches":{"V":`+value+`}}`),
			"cluster": patch(KindCluster, "c", `{"patches":{"x":{"V":`+value+`}}}`),
			"layer":   create(KindLayer, `{"id":"l","selector":"env=dev","priority":1,"patches":{"x":{"V":`+value+`}}}`),
		} {
			res, err := w.try(set)
			require.NoError(t, err)
			require.Equal(t, warned, strings.Contains(strings.Join(res.Warnings, ""), "reads as another value"), "%s %s: %q", kind, value, res.Warnings)
		}
		res, err := w.try(create(KindLayer, `{"id":"l","selector":"env=dev","priority":1,"patches":{"x":{"A":null}}}`))
		require.NoError(t, err)
		require.NotContains(t, strings.Join(res.Warnings, ""), "reads as another value")
	}
}

package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSelectorsOfNoCluster: a selector with a typing error would grant nothing, or leave a stage empty, so it is a warning.
func TestSelectorsOfNoCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindCluster), `{"id":"a","cluster_dns":"a.example.com","environment":"prod"}`)
	for warning, document := range map[string]func(selector string) func(*Tx) error{
		`access document "x" matches no cluster`: func(selector string) func(*Tx) error {
			return create(KindAccess, `{"id":"x","subjects":[{"issuer":"github","groups":["g"]}],"may":["read"],"on":{"selector":"`+selector+`"}}`)
		},
		`stage "one" of strategy "x" selects no cluster`: func(selector string) func(*Tx) error {
			return create(KindStrategy, `{"id":"x","stages":[{"name":"one","selector":"`+selector+`"},{"name":"two","all":true}]}`)
		},
	} {
		require.Contains(t, w.plan(document("env=prod")).Warnings, warning)
		require.NotContains(t, w.plan(document("environment=prod")).Warnings, warning)
	}
}

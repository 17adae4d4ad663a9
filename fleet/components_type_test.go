package fleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// A default type follows oci_url if the URL excludes it; a requested type does not.
func TestDefaultTypeFollowsTheURL(t *testing.T) {
	t.Parallel()
	const oci, https = `"oci_url":"oci://registry/repo"`, `"oci_url":"https://charts.example.com"`
	type change struct {
		patch      bool
		body, want string // the type afterwards, or the problem
	}
	for name, tc := range map[string]struct {
		create  string
		changes []change
	}{
		"default":                {oci, []change{{false, `{` + https + `}`, "helm"}}},
		"default, merge patch":   {oci, []change{{true, `{` + https + `}`, "helm"}}},
		"default, other changes": {oci, []change{{false, `{"oci_tag":"v2"}`, "kustomize"}, {false, `{` + https + `}`, "helm"}}},
		"empty and null":         {`"type":"",` + oci, []change{{true, `{"type":null}`, "kustomize"}, {false, `{` + https + `}`, "helm"}}},
		"set":                    {`"type":"kustomize",` + oci, []change{{false, `{` + https + `}`, "a kustomize component needs an oci:// URL"}}},
		"set with the URL":       {oci, []change{{false, `{"type":"kustomize",` + https + `}`, "a kustomize component needs an oci:// URL"}}},
		"set later":              {oci, []change{{false, `{"type":"helm"}`, "helm"}, {false, `{"type":"kustomize"}`, "kustomize"}, {false, `{` + https + `}`, "a kustomize component needs"}}},
		"helm stays":             {https, []change{{false, `{` + oci + `}`, "helm"}}},
		"helm stays, once more":  {oci, []change{{false, `{` + https + `}`, "helm"}, {false, `{` + oci + `}`, "helm"}}},
		"field of the store":     {`"type":"kustomize","type_default":true,` + oci, []change{{false, `{"type_default":true}`, "kustomize"}, {false, `{` + https + `}`, "a kustomize component needs"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, err := fleet.NewState(fleet.Rules{}, fleet.Head{}, time.Time{}, nil)
			require.NoError(t, err)
			run := func(do func(tx *fleet.Tx) (*fleet.Document, error)) (fleet.Result, error) {
				tx := st.Begin()
				if _, err := do(tx); err != nil {
					return fleet.Result{}, err
				}
				return tx.Finish(fleet.Commit{})
			}
			res, err := run(func(tx *fleet.Tx) (*fleet.Document, error) {
				return tx.Create(fleet.KindComponent, []byte(`{"id":"a","component_path":"a",`+tc.create+`}`))
			})
			require.NoError(t, err)
			for _, ch := range tc.changes {
				st = res.State
				before, _ := st.Get(fleet.KindComponent, "a")
				after, err := run(func(tx *fleet.Tx) (*fleet.Document, error) {
					if ch.patch {
						return tx.Patch(fleet.KindComponent, "a", []byte(ch.body))
					}
					return tx.Put(fleet.KindComponent, "a", []byte(ch.body))
				})
				if strings.Contains(ch.want, " ") {
					require.ErrorContains(t, err, ch.want)
					return
				}
				require.NoError(t, err, ch.body)
				doc, _ := after.State.Get(fleet.KindComponent, "a")
				require.Equal(t, ch.want, doc.Component().Type, ch.body)
				if doc.Component().Type != before.Component().Type {
					require.Contains(t, strings.Join(after.Warnings, "\n"), "becomes "+ch.want)
				}
				res = after
			}
		})
	}
}

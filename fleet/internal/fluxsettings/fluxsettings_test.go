package fluxsettings

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func parse(t require.TestingT, text string) map[string]any {
	var out map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &out), text)
	return out
}

// nested returns settings with one value at a path.
func nested(path, value string) string {
	steps := strings.Split(path, ".")
	return `{"` + strings.Join(steps, `":{"`) + `":` + value + strings.Repeat("}", len(steps))
}

// values of each type: accepted ones, and refused ones, which the values of most other types are as well.
var values = map[string]struct{ good, bad []string }{
	"a boolean":                          {[]string{`true`, `false`}, []string{`"true"`, `1`, `null`, `{}`}},
	"a duration":                         {[]string{`"10m"`, `"1h30m"`, `"1.5s"`}, []string{`"10"`, `600`, `""`, `"1d"`, `"-1m"`, `"${vars.timeout}"`, `"99999999999h"`, `"9223372037s"`}},
	"a name":                             {[]string{`"team-a"`}, []string{`""`, `"Team"`, `"a.b"`, `1`, `"` + strings.Repeat("a", 64) + `"`, `"${cluster.id}"`}},
	"an integer from 0 to 1000":          {[]string{`0`, `1000`}, []string{`-1`, `1001`, `1.5`, `"1"`}},
	"an integer from -1 to 1000":         {[]string{`-1`, `3`}, []string{`-2`, `1e9`, `0.5`, `"3"`, `true`}},
	"a string":                           {[]string{`"prod-"`}, []string{`""`, `1`, `"\u0000"`, `"\ufeff"`, `["a"]`, `"` + strings.Repeat("a", 201) + `"`}},
	"labels":                             {[]string{`{"a.example.com/team":"x","b":""}`}, []string{`{"a b":"x"}`, `{"a":"x y"}`, `{"a":1}`, `[]`, `"a"`, `{"A.example.com/team":"x"}`}},
	"annotations":                        {[]string{`{"A.example.com/Team":"x y {}"}`}, []string{`{"helm.sh/hook":"pre-delete"}`, `{"Kustomize.toolkit.fluxcd.io/force":"enabled"}`, `{"kustomize.toolkit.fluxcd.io/prune":"disabled"}`, `{"a b":"x"}`, `{"a":1}`, `{"a":"\u0085"}`, `[]`}},
	"rollback":                           {[]string{`"rollback"`}, []string{`"uninstall"`, `"Rollback"`, `""`, `null`, `1`}},
	"false":                              {[]string{`false`}, []string{`true`, `"false"`, `null`, `0`}},
	"one of Skip, Create, CreateReplace": {[]string{`"CreateReplace"`}, []string{`"Replace"`, `true`}},
	"one of enabled, warn, disabled":     {[]string{`"warn"`}, []string{`true`, `"on"`}},
}

// lists has the values of lists and objects by their paths.
var lists = map[string]struct{ good, bad []string }{
	"install.strategy": {
		[]string{`{"name":"RetryOnFailure","retryInterval":"5m"}`, `{"name":"RemediateOnFailure"}`},
		[]string{`{"retryInterval":"5m"}`, `{"name":"RemediateOnFailure","retryInterval":"5m"}`, `{"name":"x"}`, `"RetryOnFailure"`, `{"name":"RetryOnFailure","more":1}`},
	},
	"test.filters":          {[]string{`[]`, `[{"name":"smoke","exclude":true}]`}, []string{`[{"exclude":true}]`, `["smoke"]`, `{}`}},
	"driftDetection.ignore": {[]string{`[{"paths":["/spec/replicas"],"target":{"kind":"Deployment"}}]`}, []string{`[{"target":{"kind":"Deployment"}}]`, `[{"paths":"/spec"}]`, `[{"paths":["/a"],"target":{"uid":"x"}}]`}},
	"healthChecks":          {[]string{`[{"apiVersion":"apps/v1","kind":"Deployment","name":"a","namespace":"b"}]`}, []string{`[{"kind":"Deployment"}]`, `[{"kind":"Deployment","name":1}]`}},
	"healthCheckExprs":      {[]string{`[{"apiVersion":"a/v1","kind":"B","current":"status.ready == true\n&& 1 < 2"}]`}, []string{`[{"apiVersion":"a/v1","kind":"B"}]`, `[{"apiVersion":"a/v1","kind":"B","current":1}]`}},
	"decryption":            {[]string{`{"provider":"sops","secretRef":{"name":"age"}}`}, []string{`{"provider":"vault"}`, `{"secretRef":{"name":"age"}}`, `{"provider":"sops","secretRef":{}}`, `"sops"`, `{"provider":"sops","serviceAccountName":"x"}`}},
	"components":            {[]string{`[]`, `["../components/ha"]`}, []string{`"a"`, `[1]`, `[""]`}},
}

// TestEveryRow: each setting of the table is accepted with the values of its type, for its types of components, and refused with others.
func TestEveryRow(t *testing.T) {
	t.Parallel()
	lists["upgrade.strategy"] = lists["install.strategy"]
	for _, s := range Table {
		of, known := lists[s.Path]
		if !known && s.Refused == "" {
			of, known = values[s.Value.Name]
			require.True(t, known, "%s: values of %q", s.Path, s.Value.Name)
		}
		for _, kind := range s.Types {
			if s.Refused != "" {
				problems := Check(kind, parse(t, nested(s.Path, `"x"`)))
				require.Len(t, problems, 1)
				require.Equal(t, "/"+strings.ReplaceAll(s.Path, ".", "/"), problems[0].Pointer)
				require.Contains(t, problems[0].Detail, s.Path)
				require.Contains(t, problems[0].Detail, s.Refused)
				continue
			}
			for _, good := range of.good {
				require.Empty(t, Check(kind, parse(t, nested(s.Path, good))), "%s %s", s.Path, good)
			}
			for _, bad := range of.bad {
				problems := Check(kind, parse(t, nested(s.Path, bad)))
				require.NotEmpty(t, problems, "%s %s", s.Path, bad)
				require.True(t, strings.HasPrefix(problems[0].Pointer, "/"+strings.ReplaceAll(s.Path, ".", "/")), problems[0].Pointer)
				require.Contains(t, problems[0].Detail, "("+Page+")")
			}
		}
		if other := map[string]string{Helm: Kustomize, Kustomize: Helm}[s.Types[0]]; s.Refused == "" && len(s.Types) == 1 {
			require.NotEmpty(t, Check(other, parse(t, nested(s.Path, of.good[0]))), "%s for %s", s.Path, other)
		}
	}
	for text, pointer := range map[string]string{
		`{"retries":3}`:                            "/retries",
		`{"storage_namespace":"a"}`:                "/storage_namespace",
		`{"upgrade":3}`:                            "/upgrade",
		`{"upgrade":{"retries":3}}`:                "/upgrade/retries",
		`{"uninstall":{"keepHistory":true}}`:       "/uninstall",
		`{"timeout":"1m","chart":{"spec":{}}}`:     "/chart",
		`{"upgrade":{"remediation":{"a/b":true}}}`: "/upgrade/remediation/a~1b",
		`{"":1}`: "/",
	} {
		problems := Check(Helm, parse(t, text))
		require.Len(t, problems, 1, text)
		require.Equal(t, pointer, problems[0].Pointer)
		require.Contains(t, problems[0].Detail, Page)
	}
}

// TestRefusedValues: a value with which Flux would remove something when another setting or the artifact changes is refused with the reason.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		`{"upgrade":{"remediation":{"strategy":"uninstall"}}}`: "uninstall is refused: a failed upgrade would uninstall the release",
		`{"force":true}`: "true is refused: a change of an immutable field would delete the object",
		`{"commonMetadata":{"annotations":{"kustomize.toolkit.fluxcd.io/force":"enabled"}}}`: "keys of kustomize.toolkit.fluxcd.io are instructions to Flux",
		`{"commonMetadata":{"labels":{"kustomize.toolkit.fluxcd.io/force":"enabled"}}}`:      "keys of kustomize.toolkit.fluxcd.io are instructions to Flux",
		`{"commonMetadata":{"labels":{"kustomize.toolkit.fluxcd.io/name":"other"}}}`:         "keys of kustomize.toolkit.fluxcd.io are instructions to Flux",
	} {
		kind := Kustomize
		if strings.Contains(settings, "upgrade") {
			kind = Helm
		}
		problems := Check(kind, parse(t, settings))
		require.Len(t, problems, 1, settings)
		require.Contains(t, problems[0].Detail, want)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ below, above, want string }{
		{`{}`, `{"timeout":"1m"}`, `{"timeout":"1m"}`},
		{`{"timeout":"1m","upgrade":{"remediation":{"retries":3},"crds":"Skip"}}`, `{"upgrade":{"remediation":{"remediateLastFailure":true}},"timeout":"2m"}`, `{"timeout":"2m","upgrade":{"crds":"Skip","remediation":{"remediateLastFailure":true,"retries":3}}}`},
		// The parts of one setting belong together.
		{`{"upgrade":{"strategy":{"name":"RetryOnFailure","retryInterval":"1m"}}}`, `{"upgrade":{"strategy":{"name":"RemediateOnFailure"}}}`, `{"upgrade":{"strategy":{"name":"RemediateOnFailure"}}}`},
		{`{"commonMetadata":{"labels":{"a":"1"},"annotations":{"n":"1"}}}`, `{"commonMetadata":{"labels":{"b":"2"}}}`, `{"commonMetadata":{"labels":{"b":"2"},"annotations":{"n":"1"}}}`},
		{`{"components":["a"]}`, `{"components":[]}`, `{"components":[]}`},
	} {
		below, above := parse(t, c.below), parse(t, c.above)
		require.Equal(t, parse(t, c.want), Merge(below, above))
		require.Equal(t, []map[string]any{parse(t, c.below), parse(t, c.above)}, []map[string]any{below, above}, "neither changes")
	}
	require.Empty(t, Prune(parse(t, `{"upgrade":{"remediation":{"retries":null}},"timeout":null}`)))
	require.Equal(t, parse(t, `{"components":[],"upgrade":{"force":false}}`), Prune(parse(t, `{"components":[],"upgrade":{"force":false,"remediation":{}}}`)))
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`: "", `{"timeout":"1m","upgrade":{"force":true}}`: "",
		`{"storageNamespace":"flux-system"}`: "", `{"prune":true,"components":[],"ignoreMissingComponents":false}`: "", `{"targetNamespace":"a"}`: "",
		`{"storageNamespace":"apps","timeout":"1m"}`:                           `{"storageNamespace":"apps"}`,
		`{"prune":false,"namePrefix":"a","nameSuffix":"b","components":["c"]}`: `{"components":["c"],"namePrefix":"a","nameSuffix":"b","prune":false}`,
	} {
		require.Equal(t, want, Identity(parse(t, text)), text)
	}
	var rows []string
	for _, s := range Table {
		if s.Identity {
			rows = append(rows, s.Path)
		}
	}
	slices.Sort(rows)
	require.Equal(t, []string{"components", "ignoreMissingComponents", "namePrefix", "nameSuffix", "prune", "storageNamespace", "targetNamespace"}, rows)
}

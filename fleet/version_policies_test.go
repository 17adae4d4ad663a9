package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const policyDocs = `{"id":"web","component_path":"web","oci_url":"https://charts.example.com","component_version":"1.0.0"%s}`

func withPolicies(policies string) func(*Tx) error {
	return create(KindComponent, fmt.Sprintf(policyDocs, policies))
}

// TestVersionPolicyProblems: each mistake is refused at its place.
func TestVersionPolicyProblems(t *testing.T) {
	t.Parallel()
	image := func(fields string) string {
		return `,"image_policies":[{"name":"web","image":"ghcr.io/acme/web","track":{"range":">=1.0.0"},"writes":{"image.tag":"{tag}"}` + fields + `}]`
	}
	for name, test := range map[string]struct{ policies, pointer, detail string }{
		"range":                        {`,"version_policies":{"catalog":{"range":"newest please"}}`, "/version_policies/catalog/range", "is not a range of semantic versions"},
		"include without a range":      {`,"version_policies":{"catalog":{"include":"x"}}`, "/version_policies/catalog/range", "is required with include or exclude"},
		"regular expression":           {`,"version_policies":{"catalog":{"range":"1.x","include":"("}}`, "/version_policies/catalog/include", "is not a regular expression"},
		"backreference":                {`,"version_policies":{"catalog":{"range":"1.x","exclude":"(a)\\1"}}`, "/version_policies/catalog/exclude", "is not a regular expression"},
		"long expression":              {`,"version_policies":{"catalog":{"range":"1.x","include":"` + strings.Repeat("a", 257) + `"}}`, "/version_policies/catalog/include", "at most 256 bytes"},
		"long range":                   {`,"version_policies":{"catalog":{"range":"` + strings.Repeat(">1||", 100) + `>1"}}`, "/version_policies/catalog/range", "at most 256 bytes"},
		"negative age":                 {`,"version_policies":{"catalog":{"range":"1.x","min_age":"-1h"}}`, "/version_policies/catalog/min_age", "must be a duration"},
		"age in days":                  {`,"version_policies":{"catalog":{"range":"1.x","min_age":"2d"}}`, "/version_policies/catalog/min_age", "must be a duration"},
		"short interval":               {`,"version_policies":{"catalog":{"range":"1.x","interval":"1s"}}`, "/version_policies/catalog/interval", "must be a duration"},
		"unknown action":               {`,"version_policies":{"catalog":{"range":"1.x","action":"yolo"}}`, "/version_policies/catalog/action", "is not one of"},
		"unknown layer":                {`,"version_policies":{"layer/prod":{"range":"1.x"}}`, "/version_policies/layer~1prod", `there is no layer "prod"`},
		"unknown strategy":             {`,"version_policies":{"catalog":{"range":"1.x","strategy":"waves"}}`, "/version_policies/catalog/strategy", `there is no strategy "waves"`},
		"group":                        {`,"version_policies":{"catalog":{"range":"1.x","group":"A B"}}`, "/version_policies/catalog/group", "lower case"},
		"image with a tag":             {strings.Replace(image(""), "acme/web", "acme/web:1.0", 1), "/image_policies/0/image", "without tag and digest"},
		"image with a scheme":          {strings.Replace(image(""), "ghcr.io", "https://ghcr.io", 1), "/image_policies/0/image", "without tag and digest"},
		"tag and range":                {strings.Replace(image(""), `{"range"`, `{"tag":"latest","range"`, 1), "/image_policies/0/track", "exactly one of tag and range"},
		"no track":                     {strings.Replace(image(""), `{"range":">=1.0.0"}`, `{}`, 1), "/image_policies/0/track", "exactly one of tag and range"},
		"include of a tag":             {strings.Replace(image(""), `{"range":">=1.0.0"}`, `{"tag":"latest","include":"x"}`, 1), "/image_policies/0/track", "include and exclude need a range"},
		"unknown placeholder":          {strings.Replace(image(""), "{tag}", "{tag}{commit}", 1), "/image_policies/0/writes/image.tag", `"{commit}" is not one of the placeholders`},
		"open brace":                   {strings.Replace(image(""), "{tag}", "{tag}{", 1), "/image_policies/0/writes/image.tag", "is not one of the placeholders"},
		"template in a placeholder":    {strings.Replace(image(""), "{tag}", "{{tag}}", 1), "/image_policies/0/writes/image.tag", "is not one of the placeholders"},
		"path":                         {strings.Replace(image(""), "image.tag", "image..tag", 1), "/image_policies", "image..tag"},
		"nothing that changes":         {strings.Replace(image(""), "{tag}", "{image}", 1), "/image_policies/0/writes", "must contain {tag}"},
		"a tag without its digest":     {strings.Replace(image(""), `{"range":">=1.0.0"}`, `{"tag":"latest"}`, 1), "/image_policies/0/writes", "must contain {digest}"},
		"neither writes nor images":    {strings.Replace(image(""), `,"writes":{"image.tag":"{tag}"}`, "", 1), "/image_policies/0/writes", "either writes or images is required"},
		"two policies of one name":     {twoImages("web", "other.tag"), "/image_policies/1/name", "is the name of an earlier policy"},
		"two policies write one path":  {twoImages("two", "image.tag"), "/image_policies/1/writes/image.tag", "an earlier policy writes the path"},
		"a path contains another":      {twoImages("two", "image.tag.x"), "/image_policies", "image.tag"},
		"two policies write one image": {strings.ReplaceAll(twoImages("two", "x"), `"writes":`, `"images":{"name":"web"},"writes":`), "/image_policies/1/images/name", "an earlier policy writes the image"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := newWorld(t).refused(CodeInvalid, withPolicies(test.policies))
			require.Equal(t, test.pointer, err.Problems[0].Pointer, "%v", err)
			require.Contains(t, err.Problems[0].Detail, test.detail)
		})
	}
}

// twoImages are two image policies; the second has the given name and writes the given path.
func twoImages(name, path string) string {
	one := `{"name":"%s","image":"ghcr.io/acme/web","track":{"range":">=1.0.0"},"writes":{"%s":"{tag}"}}`
	return `,"image_policies":[` + fmt.Sprintf(one, "web", "image.tag") + "," + fmt.Sprintf(one, name, path) + "]"
}

// TestVersionPolicyUnset: unset fields are not stored, and a component without policies is stored as before there were any.
func TestVersionPolicyUnset(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{}
	for name, policies := range map[string]string{
		"absent": "", "null": `,"version_policies":null,"image_policies":null`, "empty": `,"version_policies":{"catalog":{}},"image_policies":[]`,
		"unset": `,"version_policies":{"catalog":{"range":null,"action":"","suspended":false}}`,
	} {
		w := newWorld(t)
		w.must(withPolicies(policies))
		d, _ := w.state.Get(KindComponent, "web")
		bodies[name] = string(d.Body)
		require.NotContains(t, string(d.Body), "polic")
	}
	require.Len(t, bodies, 4)
	w := newWorld(t)
	w.must(withPolicies(`,"version_policies":{"catalog":{"range":"1.x","suspended":true}}`))
	w.must(patch(KindComponent, "web", `{"version_policies":{"catalog":{"suspended":false,"action":"apply"}}}`))
	d, _ := w.state.Get(KindComponent, "web")
	var stored map[string]any
	require.NoError(t, json.Unmarshal(d.Body, &stored))
	require.Equal(t, map[string]any{"catalog": map[string]any{"range": "1.x", "action": "apply"}}, stored["version_policies"])
	w.must(patch(KindComponent, "web", `{"version_policies":null}`))
	d, _ = w.state.Get(KindComponent, "web")
	require.Equal(t, bodies["absent"], string(d.Body))
}

package fleet

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// certificateSpec has the keywords and shapes of the spec in the schemas of CustomResourceDefinitions.
const certificateSpec = `{"type":"object","description":"what is wanted","required":["secretName","issuerRef"],"properties":{
	"secretName":{"type":"string"},
	"issuerRef":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"kind":{"type":"string"}},"x-kubernetes-map-type":"atomic"},
	"duration":{"type":"string","format":"duration"},
	"keystore":{"type":"object","properties":{"password":{"type":"object","properties":{"key":{"type":"string"}}}}},
	"ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],
		"properties":{"name":{"type":"string"},"port":{"x-kubernetes-int-or-string":true},
			"target":{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true,"pattern":"^[0-9]+%$"}}}},
	"labels":{"type":"object","additionalProperties":{"type":"string"}},
	"values":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
	"replicas":{"type":"integer","format":"int32","nullable":true,"minimum":0,"exclusiveMinimum":true}},
	"x-kubernetes-validations":[{"rule":"self.secretName != ''","message":"a name is needed"}],
	"oneOf":[{"required":["duration"]},{"required":["keystore"]},{"not":{"anyOf":[{"required":["duration"]},{"required":["keystore"]}]}}]}`

// certificates is a resource type whose specs have one property, the spec of an object.
func certificates(t *testing.T, template string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"id": "certificates", "receipt": "none", "template": template, "schema": map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"spec"}, "properties": map[string]any{"spec": json.RawMessage(certificateSpec)},
	}})
	require.NoError(t, err)
	return string(body)
}

const (
	certificate      = "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: << inputs.id | quote >>, namespace: ns}\n"
	certificateWhole = certificate + "spec: << inputs.spec | toJson >>\n"
)

func TestSchemaOfACustomResource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	result := w.must(create(KindResourceType, certificates(t, certificateWhole)))
	require.Len(t, result.Warnings, 1)
	require.Contains(t, result.Warnings[0], `the rules in CEL of resource type`)

	kind := ResourceKind("certificates")
	w.must(create(kind, `{"id":"web","spec":{"spec":{"secretName":"web","issuerRef":{"name":"ca"}}}}`))
	w.must(create(KindCluster, `{"id":"k","cluster_dns":"k.example.com","environment":"dev"}`))
	w.must(assign("k", kind, "web", ""))
	require.Contains(t, poll(t, w.state, "k.example.com", kind), `{"id":"web","spec":{"issuerRef":{"name":"ca"},"secretName":"web"},"cluster"`)
	for name, c := range map[string]struct{ fields, problem string }{
		"all":                   {`"duration":"2160h","labels":{"a":"b"},"replicas":1,"ports":[{"name":"a","port":80,"target":"50%"},{"name":"b","port":"http","target":80}]`, ""},
		"a duration of ISO":     {`"duration":"P90D"`, ""},
		"null":                  {`"replicas":null`, ""},
		"unknown ones":          {`"values":{"any":{"thing":[1,"a"]}}`, ""},
		"a duration":            {`"duration":"long"`, "/spec/spec/duration"},
		"null of another":       {`"duration":null`, "/spec/spec/duration"},
		"the exclusive minimum": {`"replicas":0`, "/spec/spec/replicas"},
		"neither of both":       {`"ports":[{"name":"a","port":true}]`, "/spec/spec/ports/0/port"},
		"a pattern":             {`"ports":[{"name":"a","target":"half"}]`, "/spec/spec/ports/0/target"},
		"a required one":        {`"ports":[{}]`, "/spec/spec/ports/0/name"},
		"two alternatives":      {`"duration":"1h","keystore":{}`, "/spec/spec"},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"spec":{"spec":{"secretName":"web","issuerRef":{"name":"ca"},` + c.fields + `}}}`
			if c.problem == "" {
				w.must(put(kind, "web", body))
				return
			}
			require.Equal(t, c.problem, w.refused(CodeInvalid, put(kind, "web", body)).Problems[0].Pointer)
		})
	}
}

// TestTemplatesOfOptionalProperties: a template must not fail on a nested property that is absent, wherever it is.
func TestTemplatesOfOptionalProperties(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec string
		want []string // of the message; none: accepted
	}{
		"the whole":           {"<< inputs.spec | toJson >>", nil},
		"read":                {"{duration: << inputs.spec.duration >>}", []string{"/spec/duration is optional", "`dig \"duration\" \"\" inputs.spec`"}},
		"read deeper":         {"{key: << inputs.spec.keystore.password.key >>}", []string{"/spec/keystore is optional", "`dig \"keystore\" \"password\" \"key\" \"\" inputs.spec`"}},
		"dig":                 {`{duration: << dig "duration" "1h" inputs.spec >>}`, nil},
		"dig deeper":          {`{key: << dig "keystore" "password" "key" "" inputs.spec | quote >>}`, nil},
		"hasKey":              {`{<< if hasKey inputs.spec "duration" >>duration: << inputs.spec.duration >><< end >>}`, nil},
		"hasKey of its map":   {`{<< if hasKey inputs.spec "keystore" >>key: << inputs.spec.keystore.password | toJson >><< end >>}`, []string{"everything but the optional properties \"password\"", "/spec/keystore/password is optional"}},
		"in a list":           {`{<< range $p := dig "ports" list inputs.spec >><< $p.name >>: << $p.port >><< end >>}`, []string{"/spec/ports/*/port is optional", `dig "port" "" MAP`}},
		"in a list with dig":  {`{<< range $p := dig "ports" list inputs.spec >><< $p.name >>: << dig "port" 80 $p >><< end >>}`, nil},
		"in the dot":          {`{<< range dig "ports" list inputs.spec >><< .name >>: << .target >><< end >>}`, []string{"/spec/ports/*/target is optional"}},
		"a required one":      {"{name: << inputs.spec.issuerRef.name >>}", nil},
		"fails on everything": {`{<< range $k := dig "labels" (dict) inputs.spec >>a: << $k.name >><< end >>}`, []string{"with the spec"}},
		"not in the schema":   {"{name: << inputs.spec.nothing >>}", []string{`no entry for key "nothing"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if len(c.want) == 0 {
				w.must(create(KindResourceType, certificates(t, certificate+"spec: "+c.spec+"\n")))
				return
			}
			e := w.refused(CodeInvalid, create(KindResourceType, certificates(t, certificate+"spec: "+c.spec+"\n")))
			require.Equal(t, "/template", e.Problems[0].Pointer)
			for _, part := range c.want {
				require.Contains(t, e.Problems[0].Detail, part)
			}
		})
	}
}

// TestTemplateOfAStoredDefinition: a changed template is tried with every definition, whose messages say the same.
func TestTemplateOfAStoredDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(create(KindResourceType, certificates(t, certificateWhole)))
	w.must(create(ResourceKind("certificates"), `{"id":"web","spec":{"spec":{"secretName":"web","issuerRef":{"name":"ca"},"values":{"mode":"a"}}}}`))
	body, err := json.Marshal(map[string]any{"template": certificate + `spec: {<< if eq (dig "values" "mode" "" inputs.spec) "a" >>kind: << inputs.spec.issuerRef.kind >><< end >>}`})
	require.NoError(t, err)
	e := w.refused(CodeInvalid, patch(KindResourceType, "certificates", string(body)))
	require.Contains(t, e.Detail, `/spec/issuerRef/kind is optional and may be absent: read it with `+"`dig \"kind\" \"\" inputs.spec.issuerRef`", "%v", e.Problems)
}

package input

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

func TestLiteral(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "plain": "plain", "3": `"3"`, "-3": `"-3"`, "+3": `"+3"`, "0x1f": `"0x1f"`, "true": `"true"`, "NULL": `"NULL"`,
		"False": `"False"`, "truer": "truer", `"x"`: `""x""`, "'x'": `"'x'"`, "a,b={c}": "a,b={c}", "1.5": `"1.5"`, "#fff": "#fff",
	} {
		if got := literal(in); got != want {
			t.Errorf("literal(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFlatten(t *testing.T) {
	t.Parallel()
	values := map[string]any{}
	err := flatten(values, []byte(`
a.b: {c=d: 1, "e,f": two}
list: [x, {yy: 3}, [4]]
"back\\slash": "true"
"odd[0]": 1
none: {}
`), "test")
	if err != nil {
		t.Fatal(err)
	}
	got, err := render.Encode(values)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"a\\.b.c\\=d":1,"a\\.b.e\\,f":"two","back\\\\slash":"\"true\"","list[0]":"x","list[1].yy":3,"list[2][0]":4,"none":{},"odd\\[0]":1}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, source := range []string{"[1]", "a: [", "text"} {
		if err := flatten(map[string]any{}, []byte(source), "test"); err == nil {
			t.Errorf("%q was accepted", source)
		}
	}
	for source, path := range map[string]string{"a: null": "a", "a: {b: [null]}": "a.b[0]"} {
		if err := flatten(values, []byte(source), "test"); err != nil || values[path] != "null" {
			t.Errorf("%q: %v, %v", source, values, err)
		}
	}
	for _, source := range []string{"{}", "# nothing but a comment\n{}"} {
		if err := flatten(values, []byte(source), "test"); err != nil {
			t.Errorf("%q: %v", source, err)
		}
	}
}

// Images are written as for kustomize edit set image; what cannot be one is refused.
func TestVariables(t *testing.T) {
	t.Parallel()
	got, err := Variables("var", []string{"a=3", "b=-3", "c=0", "d=012", "e=3.5", "f=true", "g=True", `h="3"`, "i='x'", "j=", "k-", "l=a=b,c", `m="`, "n=1234567890123456", "o=x-"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"a": json.Number("3"), "b": json.Number("-3"), "c": json.Number("0"), "d": "012", "e": "3.5", "f": true, "g": "True", "h": "3", "i": "x", "j": "",
		"k": nil, "l": "a=b,c", "m": `"`, "n": "1234567890123456", "o": "x-",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%#v", got)
	}
	for _, text := range []string{"", "-", "a", "=x"} {
		if _, err := Variables("var", []string{text}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis:7":                           `[{"name":"redis","new_tag":"7"}]`,
		"redis@sha256:ab":                   `[{"digest":"sha256:ab","name":"redis"}]`,
		"redis":                             `[{"name":"redis"}]`,
		"a.example:5000/redis":              `[{"name":"a.example:5000/redis"}]`,
		"redis=a.example:5000/redis":        `[{"name":"redis","new_name":"a.example:5000/redis"}]`,
		"ghcr.io/x/y=m.io:1/y:7@sha256:abc": `[{"digest":"sha256:abc","name":"ghcr.io/x/y","new_name":"m.io:1/y","new_tag":"7"}]`,
		"redis=:7@sha256:abc":               `[{"digest":"sha256:abc","name":"redis","new_tag":"7"}]`,
	} {
		images, err := Images("image", []string{text})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := render.Encode(images); err != nil || string(got) != want {
			t.Errorf("%q is %s, not %s (%v)", text, got, want, err)
		}
	}
	for _, text := range []string{"", "=x", "redis=", "redis:", "redis@", ":7", "@sha256:ab"} {
		if images, err := Images("image", []string{text}); err == nil {
			t.Errorf("%q is %v", text, images)
		}
	}
}

package strictyaml

import (
	"encoding/json"
	"testing"
)

// FuzzStream: any text is an error, or JSON whose size is that of the text if nothing in it is an alias.
func FuzzStream(f *testing.F) {
	for _, text := range []string{
		"", "a: 1\n", `{"a":1}{"b":[{}]}`, "a: &a {b: 1}\nc: {<<: *a}\n", "a: &a [*a]\n", "---\n- |\n  x\n...\n", "? {a: b}\n: c\n", "!!set {a, b}\n", "x: !!binary aGk=\n",
		"a: 2001-01-01\nb: .inf\n", "\ufeffa: 1\n", "\xff\xfea\x00", "a: \"\\x01\"\n", "%TAG ! !x\n---\na: !b 1\n", bomb("x"),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		budget := Budget{Values: 1 << 16, DocumentValues: 1 << 16, Bytes: 1 << 20}
		values, err := budget.Stream(data)
		if err != nil {
			return
		}
		if budget.Values < 0 || budget.Bytes < 0 {
			t.Fatalf("%+v", budget)
		}
		size := 0
		for _, value := range values {
			if !json.Valid(value) {
				t.Fatalf("%q became %q", data, value)
			}
			size += len(value)
		}
		if limit := 20*len(data) + 8*(1<<20-budget.Bytes) + 64; size > limit {
			t.Fatalf("%d bytes became %d", len(data), size)
		}
	})
}

package strictyaml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

func TestTruncated(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"a: 1\n": false, "a: 1": true, "a: 1\n...": false, "a: 1\n...\nb: 2": true, `{"a":1}`: false, "a: 1\n---\nb: 2": true,
		"a: 1\n... # end": false, "": false, "a: 1\n..": true, "a: 1\n...b": true, `{"a":1} {"b":2}`: false, `{"a":1,"a":2}`: false,
		`{"a":1} {"b":`: true, "a: 1\r\n": false, "a: 1\n...\n# a remark": true,
	} {
		if got := Truncated([]byte(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestYAMLDocuments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"a: 1\n":                       {"a: 1\n"},
		"---\na: 1\n---\nb: 2\n":       {"", "\na: 1\n", "\nb: 2\n"},
		"a: |\n  ---\n  x\n---":        {"a: |\n  ---\n  x\n", ""},
		"--- # first\na: 1\n---\tb: 2": {"", " # first\na: 1\n", "\tb: 2"},
		"a: 1\r\n---\r\nb: 2\r\n":      {"a: 1\r\n", "\r\nb: 2\r\n"},
		"---x: 1\n----\n":              {"---x: 1\n----\n"},
	} {
		if got := yamlDocuments([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	// The time must be linear: string concatenation took minutes for a fleet of 10,000 clusters.
	large := strings.Repeat("- {id: some-cluster, environment: dev}\n", 500_000)
	if got := yamlDocuments([]byte(large)); len(got) != 1 || len(got[0]) != len(large) {
		t.Errorf("a large document became %d", len(got))
	}
}

// TestKeysAreText: keys are read as written, not as booleans or numbers as YAML 1.1 has them.
func TestKeysAreText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"on: {y: 1, n: 2, 010: x}\n":                          `{"on":{"010":"x","n":2,"y":1}}`,
		"a: &a {yes: 1}\nb:\n  <<: *a\n  off: on\n":           `{"a":{"yes":1},"b":{"off":true,"yes":1}}`,
		"\"on\": 1\n'no': 2\n1e3: 3\n0x10: 4\n":               `{"0x10":4,"1e3":3,"no":2,"on":1}`,
		"list:\n- on: 1\n  text: |\n    on: 2\n  big: 1.10\n": `{"list":[{"big":1.1,"on":1,"text":"on: 2\n"}]}`,
	} {
		got, err := Stream([]byte(text))
		if err != nil || len(got) != 1 || string(got[0]) != want {
			t.Errorf("%q: %s %v, want %s", text, got, err, want)
		}
	}
	if _, err := Stream([]byte("on: 1\non: 2\n")); err == nil {
		t.Error("a duplicate key is read")
	}
}

// TestYAMLOfOtherPrograms: YAML is read as kubectl apply and helm -f read it.
func TestYAMLOfOtherPrograms(t *testing.T) {
	t.Parallel()
	utf16 := func(text string, order binary.AppendByteOrder) string {
		var out []byte
		for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
			out = order.AppendUint16(out, unit)
		}
		return string(out)
	}
	for text, want := range map[string]string{
		utf16("a: ü\r\n", binary.LittleEndian):                      `{"a":"ü"}`,
		utf16("a: ü\n", binary.BigEndian):                           `{"a":"ü"}`,
		"\ufeffa: 1\n---\n\ufeffb: 2\n":                             `{"a":1} {"b":2}`,
		"%YAML 1.2\n---\na: 1\n...\n%YAML 1.1\n---\nb: yes\n":       `{"a":1} {"b":true}`,
		"a: &a {x: 1, y: 2}\nb: {z: 0, x: 3, <<: *a}\n":             `{"a":{"x":1,"y":2},"b":{"x":3,"y":2,"z":0}}`,
		"a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {y: 3, <<: [*a, *b]}": `{"a":{"x":1},"b":{"x":2,"y":2},"c":{"x":1,"y":3}}`,
		"a: &a {on: 1}\nb:\n  010: x\n  <<: *a\n  n: no\n":          `{"a":{"on":1},"b":{"010":"x","n":false,"on":1}}`,
		"a: |\n  %YAML 1.2\nb: x":                                   `{"a":"%YAML 1.2\n","b":"x"}`,
	} {
		values, err := Stream([]byte(text))
		var got []string
		for _, value := range values {
			got = append(got, string(value))
		}
		if joined := strings.Join(got, " "); err != nil || joined != want {
			t.Errorf("%q: %s, want %s: %v", text, joined, want, err)
		}
	}
	for _, text := range []string{"a: &a {x: 1}\nb: {<<: *a, <<: {y: 1}}", "a: {1: x, \"1\": y}", "&k a: 1\n*k : 2", "a: {010: 1, 010: 2}"} {
		if values, err := Stream([]byte(text)); !errors.Is(err, ErrDuplicateKey) {
			t.Errorf("%q: %s, %v", text, values, err)
		}
	}
}

// TestDuplicateKeysRefused: duplicate keys, and text after the value, are errors.
func TestDuplicateKeysRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"kind":"namespace","id":"a","id":"b"}`,
		`{"kind":"cluster","id":"a","namespaces":[{"id":"x"}],"namespaces":[]}`,
		`{"kind":"cluster","id":"a","patches":{"p":{"a.b":"1","a.b":"2"}}}`,
		`{"kind":"cluster","id":"a","namespaces":[{"id":"x","id":"y"}]}`,
		`{"kind":"namespace","id":"a"} {"kind":"namespace","id":"b","labels":{},"labels":{}}`,
		"kind: cluster\nid: a\nnamespaces: [{id: x}]\nnamespaces: []\n",
		"kind: cluster\nid: a\nnamespaces: [{id: x, id: y}]\n",
	} {
		if values, err := Stream([]byte(text)); !errors.Is(err, ErrDuplicateKey) {
			t.Errorf("%s: %d values, %v", text, len(values), err)
		}
	}
	if _, err := JSON([]byte(`{"a":{"b.c":[1,{"d":1,"d":2}]}}`)); err == nil || err.Error() != "the key a[b.c][1].d is there twice" {
		t.Errorf("%v", err)
	}
}

// bomb is YAML of 9 levels, each of which refers ten times to the one before.
func bomb(value string) string {
	text := "a0: &a0 [" + value + "]\n"
	for i := range 9 {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	return text
}

// TestBudget: texts that are not trusted are refused before they take more time or memory than the budget permits.
func TestBudget(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for name, text := range map[string]string{
		"aliases of aliases":    bomb("lol"),
		"aliases of long texts": "a: &a " + long + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n",
		"aliases as keys":       "a: &a " + long + "\nb: [" + strings.Repeat("{*a : 1},", 1000) + "]\n",
		"merged aliases":        "a: &a {" + long[:1000] + ": 1}\nb: [" + strings.Repeat("{<<: *a},", 2000) + "]\n",
		"values of YAML":        "[" + strings.Repeat("a,", 20_000) + "]",
		"members of YAML":       strings.Repeat("- a:\n", 7_000),
		"nested YAML":           strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
		"nested entries":        strings.Repeat("- ", 20_000),
		"nested keys":           strings.Repeat("? ", 20_000),
		"values of JSON":        "[" + strings.Repeat("1,", 20_000) + "1]",
		"nested JSON":           strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "[" + strings.Repeat("1,", 20_000) + "1]",
		"documents of JSON":     strings.Repeat("1 ", 20_000),
		"documents of YAML":     strings.Repeat("a\n---\n", 20_000),
		"null documents":        strings.Repeat("~\n---\n", 20_000),
	} {
		budget := Budget{Values: 60_000, DocumentValues: 19_000, Bytes: 1 << 20}
		if values, err := budget.Stream([]byte(text)); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: %d values, %v", name, len(values), err)
		}
	}
	if _, err := Stream([]byte(bomb(long))); !errors.Is(err, ErrBudget) {
		t.Errorf("without a budget: %v", err)
	}
	for _, text := range []string{"a: &a [*a]\n", "a: &a\n  b: &b {c: [*a]}\nd: *b\n", "a: &a {<<: *a}\n"} {
		if values, err := Stream([]byte(text)); err == nil {
			t.Errorf("%q is %s", text, values)
		}
	}
	budget := Budget{Values: 200, DocumentValues: 60, Bytes: 500}
	for range 2 {
		if values, err := budget.Stream([]byte("a: &a {b: c}\nd: *a\n---\n- e\n")); err != nil || len(values) != 2 {
			t.Errorf("%s, %v", values, err)
		}
	}
	if _, err := budget.Stream([]byte("a: b\n---\nc: d\n---\ne: f\n---\ng: h\n---\ni: j\n")); !errors.Is(err, ErrBudget) || !strings.HasPrefix(err.Error(), "document ") {
		t.Errorf("the budget is not consumed: %v", err)
	}
}

// TestLongLines: a text of only blank lines, or of an object with a long path, takes linear time. Minutes otherwise.
func TestLongLines(t *testing.T) {
	t.Parallel()
	if values, err := Stream([]byte(strings.Repeat("\n", 4<<20))); err != nil || len(values) != 0 {
		t.Errorf("%d values, %v", len(values), err)
	}
	key := strings.Repeat("k", 1<<20)
	if values, err := Stream([]byte(`{"` + key + `":[` + strings.Repeat("1,", 1<<20) + `1]}`)); err != nil || len(values) != 1 {
		t.Errorf("%d values, %v", len(values), err)
	}
}

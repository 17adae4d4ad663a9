package versions

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzReadIndex: any text is read without a panic, and what is found is within the limits.
func FuzzReadIndex(f *testing.F) {
	for _, seed := range []string{
		helmIndex, `{"entries":{"podinfo":[{"version":"1.0.0","created":"2026-01-01T00:00:00Z"},{}],"x":[[[{}]]]}}`, "entries:\n  podinfo:\n  - {version: 1.0.0}\n", "entries:\n    podinfo:\n      - &a\n        version: |\n          1\n",
		"entries:\n  podinfo:\n  - version: *x\n  -\n  - - - -\n", "\xef\xbb\xbf---\nentries: {}\n", "{", "entries:\n  \"podinfo\": # x\n   -  'version':  \"\\u0031\"\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found := 0
		one := &chart{add: func(e *entry) bool {
			if found++; e != nil {
				require.LessOrEqual(t, len(e.Version)+len(e.Created)+len(e.Digest), 2*maxJSONEntry)
			}
			return found < 10
		}}
		if err := readIndex(strings.NewReader(text), map[string]*chart{"podinfo": one}); err != nil {
			require.LessOrEqual(t, len(err.Error()), 200)
		}
		require.LessOrEqual(t, found, 10)
	})
}

// FuzzTags: any page of tags is read without a panic.
func FuzzTags(f *testing.F) {
	for _, seed := range []string{`{"name":"x","tags":["1.0.0","latest"]}`, `{"tags":null}`, `{"tags":[[]]}`, `{"tags":["a"],"tags":["b"]}`, `{"a":{"tags":["x"]}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found := 0
		_ = decodeTags(strings.NewReader(text), func(string) bool { found++; return found < 10 })
		require.LessOrEqual(t, found, 10)
	})
}

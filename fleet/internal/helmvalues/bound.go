package helmvalues

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Bound returns an upper bound, in bytes, of the size that patches add to an answer: as patches; as substitutions, where
// numbers gain quotes; and as nested values, where each step of a path may have an object of its own, an index may stand for
// a list of nulls, and encoding may double the length of a string. If any value is null, perhaps in other patches, values_json
// repeats the values as a string. It is computed for every cluster of a batch, so it builds no values.
func Bound(patches map[string]json.RawMessage) int {
	n := 3*len(`{}`) + len(`"values_json":"{}",`)
	for path, raw := range patches {
		name := len(path) + len(`"":`)
		if !jsontext.Plain(path) {
			text, _ := jsontext.Canonical(path) // encoding a string cannot fail
			name = len(text) + len(`:`)
		}
		n += 2*(name+len(raw)+len(`,""`)) + len(`{}`)
		steps := strings.Count(path, ".") + strings.Count(path, "[") + 1
		nested := name + 2*len(raw) + len(`,`) + steps*len(`"":{},`)
		for _, rest, more := strings.Cut(path, "["); more; _, rest, more = strings.Cut(rest, "[") {
			index, _, _ := strings.Cut(rest, "]")
			if i, err := strconv.Atoi(index); err == nil {
				nested += (min(i, maxListIndex) + 1) * len(`null,`)
			}
		}
		n += 3 * nested // escaping doubles the text
	}
	return n
}

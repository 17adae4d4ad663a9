package helmvalues

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Bound is at least what patches add to an answer: as they are, as substitutions, where numbers gain quotes, and as
// nested values, where each step of a path may have an object of its own, an index may stand for a list of nulls, and
// encoding may double what a string takes. It is worked out for every cluster of a batch, so nothing is put together.
func Bound(patches map[string]json.RawMessage) int {
	n := 3 * len(`{}`)
	for path, raw := range patches {
		name := len(path) + len(`"":`)
		if !jsontext.Plain(path) {
			text, _ := jsontext.Canonical(path) // of a string: it cannot fail
			name = len(text) + len(`:`)
		}
		n += 2*(name+len(raw)+len(`,""`)) + len(`{}`)
		steps := strings.Count(path, ".") + strings.Count(path, "[") + 1
		n += name + 2*len(raw) + len(`,`) + steps*len(`"":{},`)
		for _, rest, more := strings.Cut(path, "["); more; _, rest, more = strings.Cut(rest, "[") {
			index, _, _ := strings.Cut(rest, "]")
			if i, err := strconv.Atoi(index); err == nil {
				n += (min(i, maxListIndex) + 1) * len(`null,`)
			}
		}
	}
	return n
}

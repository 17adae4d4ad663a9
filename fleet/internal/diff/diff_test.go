package diff_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/diff"
)

func TestFields(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, after, fields string }{
		"nothing":                  {`{"a":1}`, `{"a":1}`, `null`},
		"only written differently": {`{"a":1,"b":2}`, `{"b":2, "a":1}`, `null`},
		"a field of an object":     {`{"o":{"x":1,"y":2}}`, `{"o":{"x":1,"y":3}}`, `[{"pointer":"/o/y","before":2,"after":3}]`},
		"a list as a whole":        {`{"l":[1,2]}`, `{"l":[2,1]}`, `[{"pointer":"/l","before":[1,2],"after":[2,1]}]`},
		"what comes and what goes": {`{"gone":1}`, `{"new":2}`, `[{"pointer":"/gone","before":1},{"pointer":"/new","after":2}]`},
		"null is not absent":       {`{}`, `{"n":null}`, `[{"pointer":"/n","after":null}]`},
		"an object for a value":    {`{"a/b":1}`, `{"a/b":{"c":1}}`, `[{"pointer":"/a~1b","before":1,"after":{"c":1}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields, err := diff.Fields(json.RawMessage(test.before), json.RawMessage(test.after))
			require.NoError(t, err)
			text, err := json.Marshal(fields)
			require.NoError(t, err)
			require.JSONEq(t, test.fields, string(text))
		})
	}
}

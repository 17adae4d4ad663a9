package change

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

// DocumentFrom returns the document of a create or update: the file's fields, overridden by those of flags. Its id is the
// argument's, or else the file's.
func (s *Engine) DocumentFrom(c *cli.Context, n kinds.Kind) (id string, doc map[string]any, err error) {
	doc = map[string]any{}
	if name := c.String("file"); name != "" {
		data, err := s.Input(name)
		if err != nil {
			return "", nil, err
		}
		object, err := input.Object(data, name)
		if err != nil {
			return "", nil, err
		}
		// Values stay as written: a number is not rounded.
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(object, &fields); err != nil {
			return "", nil, err
		}
		if string(fields["kind"]) == strconv.Quote(n.Name) { // as export --split writes it
			delete(fields, "kind")
		}
		for field, value := range fields {
			doc[field] = value
		}
		if raw, ok := fields["id"]; ok {
			if err := json.Unmarshal(raw, &id); err != nil {
				return "", nil, fmt.Errorf("%s: the id must be a string", name)
			}
		}
	}
	if c.NArg() > 0 || id == "" {
		operands, err := args.Operands(c, "NAME")
		if err != nil {
			return "", nil, err
		}
		if id != "" && id != operands[0] {
			return "", nil, args.Errorf("%s is about %q, not %q", c.String("file"), id, operands[0])
		}
		id = operands[0]
	}
	if err := args.CheckID("NAME", id); err != nil {
		return "", nil, err
	}
	doc["id"] = id
	return id, doc, kinds.CollectFields(c, n.Fields, doc)
}

package kinds

import (
	"fmt"
	"net/url"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/urfave/cli/v2"
)

// Filter is a flag of a list that becomes a parameter of the query.
type Filter struct {
	Flag  cli.Flag
	Param string
}

// FilterEdit sets the parameters of the filters whose flags are set.
func FilterEdit(c *cli.Context, filters []Filter) conn.Edit {
	values := url.Values{}
	for _, f := range filters {
		name := f.Flag.Names()[0]
		if c.IsSet(name) {
			values.Set(f.Param, fmt.Sprint(c.Value(name)))
		}
	}
	return conn.Query(values)
}

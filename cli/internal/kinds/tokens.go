package kinds

import (
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// Tokens are the tokens of the service.
var Tokens = Kind{
	API: "token", Name: "token", Plural: "tokens", Title: "token",
	Filters: func() []Filter {
		return []Filter{
			{&cli.StringFlag{Name: "cluster", Usage: "only tokens of this `CLUSTER`"}, "cluster_id"},
			{&cli.StringFlag{Name: "name", Usage: "only the token with this `NAME`"}, "name"},
		}
	},
	View: render.View{
		Header: []string{"ID", "NAME", "ROLE", "CLUSTER", "EXPIRES", "LAST USED", "SECRETS", "REVISION", "DESCRIPTION", "CREATED", "UPDATED"},
		Narrow: 7,
		Row: render.RowOf(func(d api.Token) []string {
			secrets := make([]string, len(d.Secrets))
			for i, s := range d.Secrets {
				secrets[i] = s.Fingerprint
				if s.ExpiresAt != nil {
					secrets[i] += " until " + render.Time(*s.ExpiresAt)
				}
			}
			return []string{
				d.ID, d.Name, d.Role, d.ClusterID, render.TimeOr(d.ExpiresAt, "never"), render.TimeOr(d.LastUsedAt, ""), strings.Join(secrets, ", "),
				strconv.FormatInt(d.Revision, 10), d.Description, render.Time(d.CreatedAt), render.Time(d.UpdatedAt),
			}
		}),
	},
	Calls: conn.Calls{Path: "/tokens"},
}

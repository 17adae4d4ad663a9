package cli

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// asFlags select another subject than the caller, as --as and --as-group of kubectl do.
func asFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "as", Usage: "check a managed token, token:`NAME`, in place of your own; needs the right admin"},
		&cli.StringFlag{Name: "as-issuer", Usage: "check an identity of the `ISSUER`"},
		&cli.StringSliceFlag{Name: "as-group", Usage: "with --as-issuer: a `GROUP` of it"},
		&cli.StringSliceFlag{Name: "as-claim", Usage: "with --as-issuer: a claim `NAME=VALUE` of it, such as sub=00u1a2"},
	}
}

// checkedSubject returns the subject that asFlags select; nil: the caller.
func checkedSubject(c *cli.Context) (*api.CheckedSubject, error) {
	of := func(flags ...string) bool { return slices.ContainsFunc(flags, c.IsSet) }
	issuerOnly := of("as-group", "as-claim")
	switch {
	case !of("as", "as-issuer") && !issuerOnly:
		return nil, nil
	case of("as") && (of("as-issuer") || issuerOnly), !of("as") && !of("as-issuer"):
		return nil, args.Errorf("use --as token:NAME, or --as-issuer with --as-group and --as-claim")
	case of("as"):
		name, ok := strings.CutPrefix(c.String("as"), "token:")
		if !ok || name == "" {
			return nil, args.Errorf("--as %q is not token:NAME; for an identity of an issuer use --as-issuer", c.String("as"))
		}
		return &api.CheckedSubject{Token: name}, nil
	}
	claims, err := claimsOf(c, "as-claim")
	if err != nil {
		return nil, err
	}
	sub := &api.CheckedSubject{Issuer: c.String("as-issuer"), Sub: claims["sub"], Groups: c.StringSlice("as-group"), Claims: claims}
	delete(sub.Claims, "sub")
	return sub, nil
}

// subjectName names a checked subject.
func subjectName(sub api.CheckedSubject) string {
	if sub.Token != "" {
		return "token:" + sub.Token
	}
	claims := sub.Claims
	if sub.Sub != "" {
		claims = map[string]string{"sub": sub.Sub}
		maps.Copy(claims, sub.Claims)
	}
	return kinds.SubjectText(api.AccessSubject{Issuer: sub.Issuer, Groups: sub.Groups, Claims: claims})
}

// checkRights asks the server for the permission of a subject, or of the caller. One of the rights of the query is sufficient.
func (s authCommands) checkRights(c *cli.Context, client conn.Client, q permissionQuery, sub *api.CheckedSubject, actor string) (permission, error) {
	if len(q.rights) == 0 {
		return permission{}, args.Errorf("--as checks rights on the fleet, not polls")
	}
	token := func(ctx context.Context, req *http.Request) error {
		return s.Connection.SendToken(ctx, req, sub == nil && q.use == forReads)
	}
	var refused permission
	for i, request := range q.requests(sub) {
		res, err := conn.ReceiveAs[api.AccessCheck](conn.Send(c.Context, client, http.MethodPost, "/access/check", request, []conn.Edit{token}))
		if err != nil {
			return refused, err
		}
		p := permission{Allowed: res.Allowed, Needs: request.Right, Actor: actor, Role: res.Role, Reason: res.Reason, Access: res.PermittedBy}
		if i == 0 {
			for _, warning := range res.Warnings {
				s.Note("Warning: %s", render.Printable(warning))
			}
			refused = p
		}
		if p.Allowed {
			p.Reason = limitsText(slices.DeleteFunc(res.Access, func(a api.GrantedAccess) bool { return !slices.Contains(p.Access, a.ID) }))
			return p, nil
		}
	}
	return refused, nil
}

// requests returns a request for each right and kind of a query.
func (q permissionQuery) requests(sub *api.CheckedSubject) (out []api.AccessCheckRequest) {
	for _, right := range q.rights {
		request := api.AccessCheckRequest{Subject: sub, Right: right}
		if len(q.kinds) == 0 {
			out = append(out, request)
		}
		for _, kind := range q.kinds {
			request.Kind, request.ID, request.Create = kind, q.id, q.create
			out = append(out, request)
		}
	}
	return out
}

// limitsText describes the limits of access documents that permit something; empty if one of them has none.
func limitsText(granted []api.GrantedAccess) string {
	if len(granted) == 0 || slices.ContainsFunc(granted, func(a api.GrantedAccess) bool { return a.On == nil }) {
		return ""
	}
	return "limited by access documents: " + limitList(granted)
}

func limitList(granted []api.GrantedAccess) string {
	limits := make([]string, len(granted))
	for i, a := range granted {
		limits[i] = a.ID + ": " + kinds.ScopeText(a.On)
	}
	return strings.Join(limits, " | ")
}

// grantedRight is a row of can-i --list.
type grantedRight struct {
	Right     string           `json:"right"`
	Access    string           `json:"access"` // id of the access document; empty: from the role
	On        *api.AccessScope `json:"on,omitempty"`
	ExpiresAt *time.Time       `json:"expires_at,omitempty"`
}

var grantedRightView = render.View{
	Header: []string{"RIGHT", "ON", "ACCESS DOCUMENT", "EXPIRES"},
	Row: render.RowOf(func(r grantedRight) []string {
		return []string{r.Right, kinds.ScopeText(r.On), r.Access, render.TimeOr(r.ExpiresAt, "never")}
	}),
}

// grantedRights returns a row for each right of a role, or of each access document.
func grantedRights(role string, may []string, granted []api.GrantedAccess) []grantedRight {
	rows := []grantedRight{}
	if role != "scoped" {
		for _, right := range may {
			rows = append(rows, grantedRight{Right: right})
		}
	}
	for _, a := range granted {
		for _, right := range a.May {
			rows = append(rows, grantedRight{Right: right, Access: a.ID, On: a.On, ExpiresAt: a.ExpiresAt})
		}
	}
	return rows
}

// listRights prints the rights of a subject, or of the credential for changes.
func (s authCommands) listRights(c *cli.Context, sub *api.CheckedSubject) error {
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	var granted []grantedRight
	var res api.AccessCheck
	mode := "crud"
	if sub == nil {
		who, err := s.identity(c.Context, client, forChanges)
		if err != nil {
			return err
		}
		granted, mode = grantedRights(who.Role, who.May, who.Access), who.Mode
	}
	if mode == "crud" {
		res, err = conn.ReceiveAs[api.AccessCheck](conn.Send(c.Context, client, http.MethodPost, "/access/check", api.AccessCheckRequest{Subject: sub, Right: "read"}, nil))
		if err != nil {
			return err
		}
	}
	if sub != nil {
		for _, warning := range res.Warnings {
			s.Note("Warning: %s", render.Printable(warning))
		}
		granted = grantedRights(res.Role, res.May, res.Access)
	}
	rows, names := make([]json.RawMessage, len(granted)), make([]string, len(granted))
	for i, r := range granted {
		if rows[i], err = render.Encode(r); err != nil {
			return err
		}
		names[i] = r.Right
	}
	out := kinds.Kind{View: grantedRightView}.OutputOf(granted, rows...)
	tables := out.Tables
	out.Tables = func() ([]render.Table, error) {
		all, err := tables()
		rules := render.Table{Header: []string{"RULE", "ACTION", "DESCRIPTION"}}
		for _, r := range res.Rules {
			rules.Rows = append(rules.Rows, []string{r.Kind + "/" + r.ID, r.Action, r.Description})
		}
		return append(all, rules), err
	}
	out.Names = func() ([]string, error) { return names, nil }
	return s.Print(c, out)
}

// permissionQuery is the request of can-i.
type permissionQuery struct {
	needs   string   // role, by the server's name
	rights  []string // of role scoped: one of them is sufficient; none for polls
	kinds   []string // of the documents, by the API's name; one of them is sufficient; none: any
	id      string   // of the document; empty: any
	create  bool     // the document is new
	use     string   // the use whose token is checked
	cluster string   // the only cluster whose polls are allowed, by id, or by DNS name if the credential has that; empty: any
}

// permission is the result of can-i.
type permission struct {
	Allowed bool   `json:"allowed"`
	Needs   string `json:"needs"`
	Actor   string `json:"actor"`
	Role    string `json:"role"`
	Reason  string `json:"reason"` // reason of the refusal, or the limits; empty: allowed without limits
	// Access are the ids of the access documents that permit it.
	Access []string `json:"access,omitempty"`
}

// Uses of a token.
const (
	forReads   = "reads"
	forChanges = "changes"
)

// identity returns the identity of the token that is used for reads or for changes.
func (s authCommands) identity(ctx context.Context, client conn.Client, use string) (api.Identity, error) {
	return conn.ReceiveAs[api.Identity](client.WhoAmI(ctx, nil, func(ctx context.Context, req *http.Request) error {
		return s.Connection.SendToken(ctx, req, use == forReads)
	}))
}

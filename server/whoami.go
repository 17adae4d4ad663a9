package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// roleNames are the names of the roles in the API, the lowest first.
var roleNames = []struct {
	role auth.Role
	name string
}{{auth.Poll, fleet.RolePoll}, {auth.Read, fleet.RoleRead}, {auth.Write, fleet.RoleWrite}, {auth.Admin, fleet.RoleAdmin}}

// WhoAmI returns the identity and role of the sender. It reveals no more than other requests would.
func (s *Server) WhoAmI(c echo.Context, _ api.WhoAmIParams) error {
	if _, err := s.state(c); err != nil { // from a State as old as for any other request
		return err
	}
	r := requestOf(c)
	out := api.Identity{
		Actor: r.principal.Actor, Credential: r.principal.Method.String(), ClusterID: r.principal.Cluster, ClusterDNS: r.principal.Names,
		May: []string{}, Mode: s.cfg.Mode,
	}
	for _, known := range roleNames {
		if r.principal.Role < known.role {
			break
		}
		out.Role = known.name
		// Polling the list of clusters needs the read role in every mode; that alone does not permit reads of the fleet here.
		if s.cfg.Mode == ModeCRUD || known.role == auth.Poll {
			out.May = append(out.May, known.name)
		}
	}
	if subject := r.principal.Subject; subject != nil {
		rights := r.state.Rights(subject, s.cfg.Now())
		out.Role, out.Access = fleet.RoleScoped, rights.Documents()
		if s.cfg.Mode == ModeCRUD {
			out.May = rights.Names()
		}
	}
	switch {
	case r.principal.Managed != nil:
		out.ID, out.Name = r.principal.Managed.ID, r.principal.Managed.Name
		if at, ends := r.principal.Managed.Until(); ends {
			out.ExpiresAt = &at
		}
	case !r.principal.Expires.IsZero():
		out.ExpiresAt = &r.principal.Expires
	case r.principal.Method == auth.Certificate:
		out.ExpiresAt = &r.Request().TLS.PeerCertificates[0].NotAfter
	}
	if out.ClusterDNS == nil {
		out.ClusterDNS = []string{}
	}
	return response.WriteJSON(c, http.StatusOK, out)
}

package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// roleNames are the names of the roles in the API, the lowest first.
var roleNames = []struct {
	role role
	name string
}{{rolePoll, fleet.RolePoll}, {roleRead, fleet.RoleRead}, {roleWrite, fleet.RoleWrite}, {roleAdmin, fleet.RoleAdmin}}

// WhoAmI returns the identity and role of the sender. It reveals no more than other requests would.
func (s *Server) WhoAmI(c echo.Context, _ api.WhoAmIParams) error {
	if _, err := s.state(c); err != nil { // from a State as old as for any other request
		return err
	}
	r := requestOf(c)
	out := api.Identity{
		Actor: r.principal.actor, Credential: authMethodNames[r.principal.method], ClusterID: r.principal.cluster, ClusterDNS: r.principal.names,
		May: []string{}, Mode: s.cfg.Mode,
	}
	for _, known := range roleNames {
		if r.principal.role < known.role {
			break
		}
		out.Role = known.name
		// Polling the list of clusters needs the read role in every mode; that alone does not permit reads of the fleet here.
		if s.cfg.Mode == ModeCRUD || known.role == rolePoll {
			out.May = append(out.May, known.name)
		}
	}
	switch {
	case r.principal.managed != nil:
		out.ID, out.Name = r.principal.managed.ID, r.principal.managed.Name
		if at, ends := r.principal.managed.Until(); ends {
			out.ExpiresAt = &at
		}
	case r.principal.method == byCertificate:
		out.ExpiresAt = &r.Request().TLS.PeerCertificates[0].NotAfter
	}
	if out.ClusterDNS == nil {
		out.ClusterDNS = []string{}
	}
	return response.WriteJSON(c, http.StatusOK, out)
}

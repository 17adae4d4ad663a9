package poll

import (
	"net/http"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
)

// fluxAgent is the prefix of the User-Agent of Flux Operator.
const fluxAgent = "flux-operator/"

// fluxPoll reports whether the Flux of a cluster polls: the request has a token or certificate of that cluster, or the
// User-Agent of Flux Operator. Polls by people do not count, because they prove nothing about the cluster.
func fluxPoll(r *http.Request, caller auth.Role) bool {
	return r.Method == http.MethodGet && (caller == auth.Poll || strings.HasPrefix(r.UserAgent(), fluxAgent)) && !IsPerson(r)
}

// Counts reports whether what the Flux of a cluster sends with a role counts for the status of the cluster. With
// RequireClusterToken only the cluster's own token or certificate does: any other token may be one of many clusters.
func (p *Responder) Counts(caller auth.Role) bool {
	return caller == auth.Poll || !p.cfg.RequireClusterToken
}

// IsPerson reports whether the User-Agent is that of our programs or of a browser.
func IsPerson(r *http.Request) bool {
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "flux-resourceset-") || strings.HasPrefix(agent, "Mozilla/")
}

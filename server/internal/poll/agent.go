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

// Counts reports whether requests of Flux with a role count for the status of the cluster. With RequireClusterToken, only requests
// with the cluster's own token or certificate count: several clusters may share any other token.
func (p *Responder) Counts(caller auth.Role) bool {
	return caller == auth.Poll || !p.cfg.RequireClusterToken
}

// IsPerson reports whether the User-Agent is that of our programs or of a browser.
func IsPerson(r *http.Request) bool {
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "flux-resourceset-") || strings.HasPrefix(agent, "Mozilla/")
}

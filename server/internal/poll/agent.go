package poll

import (
	"net/http"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
)

// fluxAgent is the prefix of the User-Agent of Flux Operator.
const fluxAgent = "flux-operator/"

// ownPoll reports whether a cluster's own Flux polls: the request has a token or certificate of that cluster, or the
// User-Agent of Flux Operator. Polls by people do not count, because they prove nothing about the cluster.
func ownPoll(r *http.Request, caller auth.Role) bool {
	return r.Method == http.MethodGet && (caller == auth.Poll || strings.HasPrefix(r.UserAgent(), fluxAgent)) && !IsPerson(r)
}

// IsPerson reports whether the User-Agent is that of our programs or of a browser.
func IsPerson(r *http.Request) bool {
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "flux-resourceset-") || strings.HasPrefix(agent, "Mozilla/")
}

package poll

import (
	"net/http"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
)

// fluxAgent is the prefix of the User-Agent of Flux Operator.
const fluxAgent = "flux-operator/"

// fluxPoll reports whether the Flux of a cluster polls: the request has a token or certificate of that cluster, or the
// User-Agent of Flux Operator. Polls by people do not count, because they prove nothing about the cluster.
func fluxPoll(r *http.Request, caller *auth.Principal) bool {
	return r.Method == http.MethodGet && (caller.Role == auth.Poll || strings.HasPrefix(r.UserAgent(), fluxAgent)) && !IsPerson(r)
}

// Reporter returns the name of the tracker's record for a principal's reports about a cluster. Not ok: the reports do not count for the
// status of the cluster. With RequireClusterToken, reports with the shared token do not count either.
func (p *Responder) Reporter(caller *auth.Principal, cluster string) (name string, ok bool) {
	switch caller.ReportSource() {
	case auth.OwnCredential:
		return cluster, true
	case auth.SharedToken:
		return clusterstatus.WithSharedToken(cluster), !p.cfg.RequireClusterToken
	case auth.NoReportSource:
	}
	return "", false
}

// IsPerson reports whether the User-Agent is that of our programs or of a browser.
func IsPerson(r *http.Request) bool {
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "flux-resourceset-") || strings.HasPrefix(agent, "Mozilla/")
}

package poll

import (
	"net/http"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

const (
	pathPrefix = "/api/v2/flux/clusters/"
	// PathTemplate is the router's path of a poll, without the list.
	PathTemplate = pathPrefix + ":cluster_dns/"
)

// FastAnswer is an answer with the labels of its metrics.
type FastAnswer struct {
	Answer
	Method auth.Method
	Kind   fleet.Kind // of a list; empty: of a receipt
}

// Fast finds the answer to a poll as Flux Operator sends it. Not ok unless it is the whole list: the router handles every
// error, every header that changes the answer, and every log line.
func (p *Responder) Fast(r *http.Request) (out FastAnswer, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false // it panics again in the router, which reports it
		}
	}()
	if r.Method != http.MethodGet || r.URL.RawPath != "" {
		return out, false
	}
	for _, header := range [...]string{response.HeaderIfNoneMatch, response.HeaderMinRevision} {
		if _, sent := r.Header[header]; sent {
			return out, false
		}
	}
	dns, endpoint, ok := parsePollPath(r.URL.Path)
	if !ok {
		return out, false
	}
	st, age, err := p.cfg.Replica.StateForPolls()
	if err != nil {
		return out, false
	}
	kind, isList := st.PolledAt(endpoint)
	var sent ReceiptRequest
	if !isList {
		if sent, ok = fastReceipt(st, endpoint, r.URL.RawQuery); !ok {
			return out, false
		}
	}
	caller, err := p.cfg.Auth.Identify(r, st)
	if err != nil {
		return out, false
	}
	cluster, ok := st.ByDNS(dns)
	if !ok || !caller.MayPoll(cluster, dns) {
		return out, false
	}
	p.RecordUse(&caller)
	if isList {
		out.Answer, err = p.List(r, &caller, st, cluster, kind)
		out.Kind = kind
	} else {
		out.Answer, err = p.Receipt(r, &caller, st, cluster, sent)
	}
	out.Age, out.Method = age, caller.Method
	return out, err == nil
}

// fastReceipt parses the rest of a receipt's path, and its query, in the form in which the templates write them.
func fastReceipt(st *fleet.State, endpoint, query string) (sent ReceiptRequest, ok bool) {
	rest, ok := strings.CutPrefix(endpoint, "receipts/")
	if !ok {
		return sent, false
	}
	list, id, ok := strings.Cut(rest, "/")
	if !ok || strings.Contains(id, "/") {
		return sent, false
	}
	input, ok := strings.CutPrefix(query, "input=")
	if !ok {
		return sent, false
	}
	sent, err := ParseReceipt(st, list, id, input)
	return sent, err == nil
}

// parsePollPath splits the path of a poll.
func parsePollPath(path string) (dns, endpoint string, ok bool) {
	rest, ok := strings.CutPrefix(path, pathPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

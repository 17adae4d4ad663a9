package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
)

const demoReceipts = demoPolls + "/receipts/"

func TestReceiptsAreAnsweredWithNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		w := setupWith(t, options{mode: mode})
		input := at(w.poll(demoPolls+"/platform-components").json(), "inputs", 2, "receipt").(string)
		for _, path := range []string{
			"platform-components/podinfo?input=" + input,
			"platform-components/podinfo?input=0123456789abcdef", // of a revision that is past, or that this process has not heard of
			"platform-components/nobody?input=0123456789abcdef",
			"namespaces/podinfo?input=0123456789abcdef",
			"rolebindings/a:b@c?input=0123456789abcdef",
		} {
			got := w.poll(demoReceipts + path).want(200)
			require.Equal(t, "{\"inputs\":[]}\n", string(got.body), path)
			fluxReads(t, got.body)
			w.get(demoReceipts+path, "Authorization", "Bearer "+readToken, "If-None-Match", got.etag()).want(304)
		}
	}
}

func TestReceiptsThatAreNone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, query := range []string{"", "?input=", "?input=x", "?input=0123456789ABCDEF", "?input=0123456789abcdef0", "?input=%00123456789abcdef", "?other=0123456789abcdef"} {
		w.poll(demoReceipts+"platform-components/podinfo"+query).problem(400, "validation_error")
	}
	w.poll(demoReceipts+"platform-components/"+strings.Repeat("x", 254)+"?input=0123456789abcdef").problem(400, "validation_error")
	w.poll(demoReceipts+"platform-components/%00?input=0123456789abcdef").problem(400, "validation_error")
	for _, path := range []string{"clusters/podinfo", "receipts/podinfo", "nothing/podinfo", "platform-components", "platform-components/podinfo/x", "%2e%2e/podinfo"} {
		w.poll(demoReceipts+path+"?input=0123456789abcdef").problem(404, "not_found")
	}
	w.poll("/api/v2/flux/clusters/nobody.example.com/receipts/namespaces/a?input=0123456789abcdef").problem(404, "not_found")
	w.do("POST", demoReceipts+"namespaces/a?input=0123456789abcdef", "{}").problem(405, "method_not_allowed")
}

// A cluster speaks for itself alone.
func TestReceiptsOfOtherClusters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/clusters", `{"id":"other","cluster_dns":"other.example.com","environment":"dev"}`)
	mine := "Bearer " + w.issue(pollBody).secret
	w.get(demoReceipts+"namespaces/a?input=0123456789abcdef", "Authorization", mine).want(200)
	for _, dns := range []string{"other.example.com", "nobody.example.com"} { // told the same whether it exists or not
		w.get("/api/v2/flux/clusters/"+dns+"/receipts/namespaces/a?input=0123456789abcdef", "Authorization", mine).problem(403, "forbidden")
	}
	w.get(demoReceipts+"namespaces/a?input=0123456789abcdef", "Authorization", "").problem(401, "unauthorized")
}

package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
)

const demoReceipts = demoPolls + "/receipts/"

func TestReceiptAnswers(t *testing.T) {
	t.Parallel()
	const unknown = "platform-components/podinfo?input=0123456789abcdef" // of a revision that is past, or that this process has not heard of
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		w := setupWith(t, options{mode: mode})
		current := "platform-components/podinfo?input=" + at(w.get(demoPolls+"/platform-components", "Authorization", "Bearer "+readToken, "User-Agent", "curl/8").json(), "inputs", 2, "receipt").(string)
		for _, path := range []string{current, unknown} {
			early := w.poll(demoReceipts+path).problem(409, "early_receipt")
			require.Equal(t, "3", early.header.Get("Retry-After"), "it was not served")
		}
		w.poll(demoPolls + "/platform-components").want(200)
		for _, path := range []string{
			current, current, // which is repeated every hour
			"platform-components/nobody?input=0123456789abcdef", // removed inputs, and invented ones
			"platform-components/" + strings.Repeat("x", 253) + "?input=0123456789abcdef",
			"namespaces/nobody?input=0123456789abcdef",
			"rolebindings/a:b@c?input=0123456789abcdef",
		} {
			got := w.poll(demoReceipts + path).want(200)
			require.Equal(t, "{\"inputs\":[]}\n", string(got.body), path)
			fluxReads(t, got.body)
			w.get(demoReceipts+path, "Authorization", "Bearer "+readToken, "If-None-Match", got.etag()).want(304)
		}
		w.poll(demoReceipts+unknown).problem(409, "early_receipt")
		w.poll(demoReceipts+strings.Replace(current, "podinfo", "invented", 1)).problem(409, "early_receipt") // a digest that was served, under another id
		if mode == server.ModeReadOnly {
			continue // it has no status
		}
		require.Equal(t, "confirmed", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])
		for _, in := range at(w.status("demo-cluster-01"), "inputs").([]any) {
			require.True(t, at(in, "id") == "podinfo" || at(in, "state") != "confirmed", in)
		}
	}
}

// A receipt sent by a person, with any credential, is answered and does not count.
func TestReceiptsOfPeopleIgnored(t *testing.T) {
	t.Parallel()
	w := setup(t)
	mine := w.issue(pollBody).secret
	w.get(demoPolls+"/platform-components", "Authorization", "Bearer "+mine).want(200)
	receipt := w.input("demo-cluster-01", "platform-components", "podinfo")["receipt"].(string)
	path := demoReceipts + "platform-components/podinfo?input=" + receipt
	for _, agent := range []string{"curl/8.5.0", "flux-resourceset-cli/1", "Mozilla/5.0", ""} {
		w.get(path, "Authorization", "Bearer "+readToken, "User-Agent", agent).want(200)
	}
	for _, agent := range []string{"flux-resourceset-cli/1", "Mozilla/5.0"} {
		w.get(path, "Authorization", "Bearer "+mine, "User-Agent", agent).want(200)
	}
	require.Equal(t, "unknown", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])
	w.get(path, "Authorization", "Bearer "+mine, "User-Agent", "flux-operator/v0.58.1").want(200)
	require.Equal(t, "confirmed", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])
}

func TestInvalidReceipts(t *testing.T) {
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
	for _, dns := range []string{"other.example.com", "nobody.example.com"} { // the same answer whether it exists or not
		w.get("/api/v2/flux/clusters/"+dns+"/receipts/namespaces/a?input=0123456789abcdef", "Authorization", mine).problem(403, "forbidden")
	}
	w.get(demoReceipts+"namespaces/a?input=0123456789abcdef", "Authorization", "").problem(401, "unauthorized")
}

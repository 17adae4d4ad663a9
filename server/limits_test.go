package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

const maxAnswer = 900 << 10

// filler is a fleet with one cluster whose answer can have any size: its namespaces have annotations.
func fillers(n, size int) (ids []string, bodies []string) {
	for i := range n {
		id := fmt.Sprintf("ns-%d", i)
		ids = append(ids, id)
		bodies = append(bodies, fmt.Sprintf(`{"id":%q,"annotations":{"a":"%s"}}`, id, strings.Repeat("x", size)))
	}
	return ids, bodies
}

// grown is a world with a cluster whose answer of namespaces has exactly that size, in several namespaces.
func grown(t *testing.T, size int) *world {
	t.Helper()
	w := setupWith(t, options{empty: true})
	ids, bodies := fillers(6, 100<<10)
	refs := make([]map[string]string, 0, len(ids)+1)
	for i, id := range ids {
		w.create("/namespaces", bodies[i])
		refs = append(refs, map[string]string{"id": id})
	}
	w.create("/namespaces", `{"id":"rest","annotations":{"a":"","b":""}}`)
	list, err := json.Marshal(append(refs, map[string]string{"id": "rest"}))
	require.NoError(t, err)
	w.create("/clusters", `{"id":"big","cluster_dns":"big.example.com","environment":"dev","namespaces":`+string(list)+`}`)
	missing := size - len(w.poll("/api/v2/flux/clusters/big.example.com/namespaces").want(200).body)
	half := min(missing, 200<<10)
	w.put("/namespaces/rest", fmt.Sprintf(`{"annotations":{"a":"%s","b":""}}`, strings.Repeat("x", half))).want(200)
	if missing -= half; missing > 0 {
		w.patch("/namespaces/ns-0", fmt.Sprintf(`{"annotations":{"a":"%s"}}`, strings.Repeat("x", 100<<10+missing))).want(200)
	}
	require.Len(t, w.poll("/api/v2/flux/clusters/big.example.com/namespaces").want(200).body, size)
	return w
}

// Flux rejects a body above 900 KiB as a whole, so the change that would make one is refused, whichever document it is
// made through.
func TestAnswerSizeThroughNamespaces(t *testing.T) {
	t.Parallel()
	const poll = "/api/v2/flux/clusters/big.example.com/namespaces"
	w := grown(t, maxAnswer-1024) // 899 KiB
	rest := func(n int) string {
		return fmt.Sprintf(`{"annotations":{"b":"%s"}}`, strings.Repeat("y", n))
	}
	exact := w.patch("/namespaces/rest", rest(1024)).want(200)
	require.Contains(t, exact.header.Get("Warning"), "above 70 %")
	fluxReads(t, w.poll(poll).want(200).body)
	require.Len(t, w.poll(poll).body, maxAnswer)
	w.create("/namespaces", `{"id":"one-more"}`)
	w.unchanged(func() {
		for name, refused := range map[string]*answer{
			"a byte more":               w.patch("/namespaces/rest", rest(1025)),
			"a KiB more":                w.patch("/namespaces/rest", rest(2048)),
			"one more through the list": w.put("/clusters/big/namespaces/one-more", ""),
			"one that grows as JSON":    w.patch("/namespaces/rest", fmt.Sprintf(`{"annotations":{"b":"%s"}}`, strings.Repeat(`\"`, 1000))),
			"a longer cluster name":     w.patch("/clusters/big", `{"cluster_name":"a-longer-name"}`),
			"dry":                       w.patch("/namespaces/rest?dry_run=true", rest(1025)),
		} {
			detail := refused.problem(422, "limit_exceeded").json()["detail"]
			require.Contains(t, detail, `cluster "big"`, name)
			require.Contains(t, detail, "921600", name)
		}
	})
	require.Len(t, w.poll(poll).want(200).body, maxAnswer)
	w.patch("/namespaces/rest", rest(0)).want(200)
	w.put("/clusters/big/namespaces/one-more", "").want(200)
}

func TestAnswerSizeThroughTheCatalog(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{empty: true})
	value := func(n int) string { return strings.Repeat("x", n) }
	var entries []string
	patches := map[string]any{}
	for i := range 3 { // patches count twice: as they are and as values
		id := fmt.Sprintf("c%d", i)
		w.create("/platform_components", fmt.Sprintf(`{"id":%q,"component_path":"p","oci_url":"https://charts.example.com"}`, id))
		entries = append(entries, fmt.Sprintf(`{"id":%q}`, id))
		patches[id] = map[string]string{"a": value(100 << 10)}
	}
	body, err := json.Marshal(patches)
	require.NoError(t, err)
	w.create("/clusters", `{"id":"big","cluster_dns":"big.example.com","environment":"dev","platform_components":[`+strings.Join(entries, ",")+`],"patches":`+string(body)+`}`)
	const poll = "/api/v2/flux/clusters/big.example.com/platform-components"
	w.patch("/platform_components/c0", `{"patches":{"b":""}}`).want(200)
	missing := maxAnswer - len(w.poll(poll).want(200).body)
	if missing%2 == 1 {
		w.patch("/platform_components/c1", `{"component_path":"pp"}`).want(200)
		missing--
	}
	w.patch("/platform_components/c0", `{"patches":{"b":"`+value(missing/2)+`"}}`).want(200)
	require.Len(t, w.poll(poll).body, maxAnswer)
	w.unchanged(func() {
		for name, refused := range map[string]*answer{
			"a byte more":        w.patch("/platform_components/c0", `{"patches":{"b":"`+value(missing/2+1)+`"}}`),
			"another field":      w.patch("/platform_components/c1", `{"component_path":"ppp"}`),
			"a patch of another": w.patch("/clusters/big", `{"patches":{"c2":{"more":"x"}}}`),
			"an override":        w.put("/clusters/big/platform_components/c2", `{"oci_tag":"v1.0.0-long"}`),
		} {
			require.Contains(t, refused.problem(422, "limit_exceeded").json()["detail"], `cluster "big"`, name)
		}
	})
}

// The list of all clusters has the same limit; it is refused when it is asked for, since a fleet may have more.
func TestAnswerSizeOfClusters(t *testing.T) {
	t.Parallel()
	var records []fleet.Record
	label := strings.Repeat("l", 63)
	for i := range 8_000 {
		id := fmt.Sprintf("c%d", i)
		env := []string{"dev", "prod"}[i%2]
		records = append(records, fleet.Record{Kind: fleet.KindCluster, ID: id, Body: fmt.Appendf(nil,
			`{"id":%q,"cluster_name":%q,"cluster_dns":"%s.example.com","environment":%q,"labels":{"a":%q},"platform_components":[],"namespaces":[],"rolebindings":[],"patches":{},"deletion_protection":false}`,
			id, id, id, env, label)})
	}
	w := setupWith(t, options{records: records})
	require.Contains(t, w.poll("/api/v2/flux/clusters").problem(422, "limit_exceeded").json()["detail"], "narrow the list")
	fluxReads(t, w.poll("/api/v2/flux/clusters?environment=prod").want(200).body)
	require.Len(t, w.poll("/api/v2/flux/clusters?environment=dev").ids(), 4000)
}

// Flux cuts a list at the provider's filter.limit, silently, and removes the rest: all ours set 10,000.
func TestNumberOfInputs(t *testing.T) {
	t.Parallel()
	const most = 10_000
	records := []fleet.Record{
		{Kind: fleet.KindCluster, ID: "c", Body: json.RawMessage(`{"id":"c","cluster_name":"c","cluster_dns":"c.k","environment":"dev","labels":{},"platform_components":[],"namespaces":[],"rolebindings":[],"patches":{},"deletion_protection":false}`)},
	}
	refs := make([]string, 0, most+1)
	for i := range most + 1 {
		id := fmt.Sprintf("b%05d", i)
		refs = append(refs, fmt.Sprintf(`{"id":%q}`, id))
		records = append(records, fleet.Record{Kind: fleet.KindRoleBinding, ID: id, Body: fmt.Appendf(nil, `{"id":%q,"role":"v","subjects":[]}`, id)})
	}
	w := setupWith(t, options{records: records})
	list := func(n int) string { return `{"rolebindings":[` + strings.Join(refs[:n], ",") + `]}` }
	require.Empty(t, w.put("/clusters/c", list(100)).want(200).header.Values("Warning"))
	require.Contains(t, w.put("/clusters/c", list(101)).want(200).header.Get("Warning"), "filter.limit")
	w.unchanged(func() {
		problems := w.put("/clusters/c", list(most+1)).problem(422, "limit_exceeded")
		require.Contains(t, problems.pointers(), "/rolebindings")
		require.Contains(t, string(problems.body), "10001")
		// 10,000 of them are few enough, and too many bytes.
		refused := w.put("/clusters/c", list(most)).problem(422, "limit_exceeded")
		require.NotContains(t, string(refused.body), "at most 10000")
	})
	w.put("/clusters/c", list(7_000)).want(200)
	poll := w.poll("/api/v2/flux/clusters/c.k/rolebindings").want(200)
	fluxReads(t, poll.body)
	require.Len(t, poll.ids(), 7_000)
}

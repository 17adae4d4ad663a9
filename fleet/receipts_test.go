package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func receiptsOn(t *testing.T, w *world, dns string, kind Kind) map[string]string {
	t.Helper()
	var answer struct {
		Inputs []struct{ ID, Receipt string }
	}
	require.NoError(t, json.Unmarshal([]byte(pollSealed(t, w.state, dns, kind)), &answer))
	out := map[string]string{}
	for _, in := range answer.Inputs {
		out[in.ID] = in.Receipt
	}
	return out
}

// TestReceiptsIdentifyInputs: a receipt changes if and only if its input does.
func TestReceiptsIdentifyInputs(t *testing.T) {
	t.Parallel()
	w := demo(t)
	before := receiptsOn(t, w, demoDNS, KindComponent)
	require.Len(t, before, 3)
	w.must(patch(KindComponent, "podinfo", `{"component_version":"6.9.0"}`))
	after := receiptsOn(t, w, demoDNS, KindComponent)
	require.NotEqual(t, before["podinfo"], after["podinfo"])
	require.Equal(t, before["traefik"], after["traefik"], "not with its neighbours")
	w.must(patch(KindComponent, "podinfo", `{"component_version":"latest"}`))
	require.Equal(t, before, receiptsOn(t, w, demoDNS, KindComponent), "not with the revision, nor with time")
	w.must(patch(KindCluster, "demo-cluster-01", `{"cluster_name":"renamed"}`))
	for id, receipt := range receiptsOn(t, w, demoDNS, KindComponent) {
		require.NotEqual(t, before[id], receipt, "the cluster is part of what they say")
	}
	w.must(assign("demo-cluster-01", KindComponent, "podinfo", `{"enabled":false}`))
	require.Regexp(t, "^[0-9a-f]{16}$", receiptsOn(t, w, demoDNS, KindComponent)["podinfo"], "one that is off has one too")
}

// TestPlansIgnoreReceipts, which change with their inputs anyway.
func TestPlansIgnoreReceipts(t *testing.T) {
	t.Parallel()
	w := demo(t)
	plan := w.plan(patch(KindComponent, "podinfo", `{"component_version":"6.9.0"}`))
	body, err := json.Marshal(plan)
	require.NoError(t, err)
	require.Contains(t, string(body), "6.9.0")
	require.NotContains(t, string(body), "receipt")
}

func TestParseReceipt(t *testing.T) {
	t.Parallel()
	good, ok := ParseReceipt("0123456789abcdef")
	require.True(t, ok)
	require.Equal(t, "0123456789abcdef", good.String())
	for _, bad := range []string{"", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "0123456789abcdeg", strings.Repeat("0", 1<<20)} {
		_, ok := ParseReceipt(bad)
		require.False(t, ok)
	}
}

// TestAnswersWithoutRoomForReceipts are served without them: Flux would refuse the whole.
func TestAnswersWithoutRoomForReceipts(t *testing.T) {
	t.Parallel()
	// Documents stored before receipts existed do not pass the checks any more.
	const n = 9_000
	refs := make([]string, n)
	records := make([]Record, n, n+1)
	for i := range n {
		id := fmt.Sprintf("b%05d", i)
		refs[i] = fmt.Sprintf(`{"id":%q}`, id)
		records[i] = Record{Kind: KindRoleBinding, ID: id, Body: fmt.Appendf(nil, `{"id":%q,"role":"v","subjects":[]}`, id)}
	}
	records = append(records, Record{Kind: KindCluster, ID: "c", Body: fmt.Appendf(nil,
		`{"id":"c","cluster_name":"c","cluster_dns":"c.k","environment":"dev","labels":{},"platform_components":[],"namespaces":[],"rolebindings":[%s],"patches":{}}`, strings.Join(refs, ","))})
	state, err := NewState(testRules, Head{Revision: 1}, time.Time{}, records)
	require.NoError(t, err)
	body := pollSealed(t, state, "c.k", KindRoleBinding)
	require.LessOrEqual(t, len(body), MaxAnswerBytes)
	require.Equal(t, n, strings.Count(body, `"role"`), "all of them")
	require.NotContains(t, body, "receipt")
}

// TestReceiptsOfAClusterCreatedAgain are new ones for unchanged inputs, so that the cluster sends them at once. The first
// cluster of a name has the same document and answers as before.
func TestReceiptsOfAClusterCreatedAgain(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]DeleteOptions{"orphan": {Orphan: true}, "decommission": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := demo(t)
			cluster, _ := w.state.Get(KindCluster, "demo-cluster-01")
			body := string(cluster.Body)
			require.NotContains(t, body, incarnationField)
			seen := map[string]bool{receiptsOn(t, w, demoDNS, KindComponent)["podinfo"]: true}
			for n := 1; n < 4; n++ {
				w.must(remove(KindCluster, "demo-cluster-01", opt))
				w.now = w.now.Add(time.Hour)
				w.must(create(KindCluster, strings.Replace(body, "{", `{"incarnation":77,`, 1)))
				receipt := receiptsOn(t, w, demoDNS, KindComponent)["podinfo"]
				require.False(t, seen[receipt], "the %d. time", n)
				seen[receipt] = true
				w.must(patch(KindCluster, "demo-cluster-01", `{"labels":{"a":"b"},"incarnation":0}`))
				w.must(patch(KindCluster, "demo-cluster-01", `{"labels":{}}`))
				again, _ := w.state.Get(KindCluster, "demo-cluster-01")
				require.Equal(t, n, again.incarnation(), "it stays what it is, whatever a request says")
				view, err := json.Marshal(again.View())
				require.NoError(t, err)
				require.NotContains(t, string(view), incarnationField)
			}
		})
	}
}

package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPodSecurityLabels: a namespace has only those labels of Pod Security that Kubernetes accepts.
func TestPodSecurityLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, value string
		accepted   bool
	}{
		{"enforce", "restricted", true},
		{"audit", "baseline", true},
		{"warn", "privileged", true},
		{"enforce-version", "latest", true},
		{"warn-version", "v1.30", true},
		{"audit-version", "v1.0", true},
		{"exempt", "x", true},
		{"enforce", "Restricted", false},
		{"enforce", "strict", false},
		{"audit", "", false},
		{"enforce-version", "1.30", false},
		{"warn-version", "v1.x", false},
		{"warn-version", "v1.030", false},
		{"audit-version", "v2.1", false},
		{"audit-version", "Latest", false},
	} {
		key := "pod-security.kubernetes.io/" + c.key
		w, edit := newWorld(t), create(KindNamespace, `{"id":"pss","labels":{"`+key+`":"`+c.value+`"}}`)
		if c.accepted {
			w.must(edit)
		} else {
			require.Equal(t, "/labels/pod-security.kubernetes.io~1"+c.key, w.refused(CodeInvalid, edit).Problems[0].Pointer, "%s=%s", key, c.value)
		}
	}
}

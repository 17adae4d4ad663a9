package kinds

import (
	"testing"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/stretchr/testify/require"
)

func TestSubjectText(t *testing.T) {
	t.Parallel()
	for want, sub := range map[string]api.AccessSubject{
		"token ci":                          {Token: "ci"},
		"source platform":                   {Source: "platform"},
		"corp group=web group=ops env=prod": {Issuer: "corp", Groups: []string{"web", "ops"}, Claims: map[string]string{"env": "prod"}},
	} {
		require.Equal(t, want, SubjectText(sub))
	}
}

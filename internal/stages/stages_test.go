package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]api.RolloutStage{
		"canary=id=dev-01":                  {Name: "canary", Selector: "id=dev-01"},
		"rest=*":                            {Name: "rest", All: true},
		"prod=environment=prod:10%:approve": {Name: "prod", Selector: "environment=prod", Percent: 10, Approval: true},
		"few=*:3:soak=2h":                   {Name: "few", All: true, Count: 3, Gate: &api.RolloutGate{Soak: "2h"}},
	} {
		got, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "canary", "=id=x", "canary=", "a=*:", "a=*:0", "a=*:-1%", "a=*:soak=", "a=*:approved", "a=*:approve:", "a=*::3"} {
		_, err := Parse(text)
		require.Error(t, err, text)
	}
}

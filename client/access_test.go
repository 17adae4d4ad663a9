package client_test

import (
	"testing"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func TestInLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		on       *api.AccessScope
		kind, id string
		want     bool
	}{
		{nil, "freeze", "x", true},
		{&api.AccessScope{Selector: "team=web"}, "cluster", "x", true},
		{&api.AccessScope{Selector: "team=web"}, "layer", "", false},
		{&api.AccessScope{Selector: "team=web"}, "rollout", "", false},
		{&api.AccessScope{Components: []string{"web-*", "redis"}}, "platform_component", "web-shop", true},
		{&api.AccessScope{Components: []string{"web-*", "redis"}}, "platform_component", "redis", true},
		{&api.AccessScope{Components: []string{"web-*", "redis"}}, "platform_component", "redis-2", false},
		{&api.AccessScope{Components: []string{"web-*"}}, "cluster", "web-1", false},
		{&api.AccessScope{Layers: []string{"web"}}, "layer", "", true},
		{&api.AccessScope{Layers: []string{"web"}}, "layer", "eu", false},
		{&api.AccessScope{Kinds: []string{"cluster", "freeze"}}, "freeze", "x", true},
		{&api.AccessScope{Kinds: []string{"cluster"}}, "freeze", "x", false},
	} {
		if got := client.InLimits(test.on, test.kind, test.id); got != test.want {
			t.Errorf("%+v %s/%s: %v", test.on, test.kind, test.id, got)
		}
	}
}

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMaintenanceWindow: a rollout that starts by itself reaches dev, and prod only when its window opens. Until then neither the
// rollout nor a person changes the release of prod, but a person reverts.
func TestMaintenanceWindow(t *testing.T) {
	t.Parallel()
	const id = "mw-web-2"
	defineStaged(t, "mw-web")
	dev, prod := joinStaged(t, "mw-web", "dev", "dev"), joinStaged(t, "mw-web", "prod", "prod")
	for _, s := range []staged{dev, prod} {
		s.runs("1.0.0")
		s.confirmed("platform-components", "mw-web")
	}
	prod.cli("component", "set", "mw-web", "--cluster", prod.id, "--component-version", "1.1.0")
	made, ok := prod.api("GET", "/clusters/"+prod.id, nil)["revision"].(float64)
	if !ok {
		t.Fatal("the cluster has no revision")
	}
	prod.runs("1.1.0")
	prod.cli("freeze", "create", "mw-hours", "--selector", "mw-web=prod", "--block", "00:00-00:00 ${vars.timezone}", "--until", "7d", "--reason", "hours of prod")

	_, err := prod.w.CLI(t.Context(), "component", "set", "mw-web", "--cluster", prod.id, "--component-version", "2.0.0")
	if err == nil || !strings.Contains(err.Error(), "forbids at this time of the week") {
		t.Fatalf("a person changes prod outside its window: %v", err)
	}
	prod.api("POST", "/batch", object{"operations": []object{{"op": "revert", "revision": made}}, "reason": "it fails"})
	prod.runs("1.0.0")
	prod.confirmed("platform-components", "mw-web")

	releases := prod.installed(prod.exists(helmAPI, "HelmRelease", prod.ns, "platform-mw-web"))
	dev.createRollout(id, "2.0.0", object{"stages": []object{dev.stage("dev"), dev.stage("prod")}, "start_at": time.Now().UTC().Format(time.RFC3339)})
	dev.runs("2.0.0")
	dev.evaluated(id, 1, "freeze")
	if now := prod.installed(prod.exists(helmAPI, "HelmRelease", prod.ns, "platform-mw-web")); !slices.Equal(releases, now) {
		t.Errorf("before the window, prod has installed %q, then %q", releases, now)
	}

	now := time.Now().UTC()
	opens := now.Truncate(time.Minute).Add(time.Minute)
	prod.cli("freeze", "set", "mw-hours", "--block", now.Add(-2*time.Hour).Format("15:04")+"-"+opens.Format("15:04")+" UTC")
	prod.runs("2.0.0")
	prod.confirmed("platform-components", "mw-web")
	prod.rolloutIs(id, "completed", 3, "")
	stages, _ := prod.api("GET", "/rollouts/"+id, nil)["stages"].([]any)
	stage, _ := stages[1].(object)
	started, err := time.Parse(time.RFC3339, stage["started_at"].(string))
	if err != nil || started.Before(opens) {
		t.Errorf("the stage started at %s, and the window opens at %s: %v", started, opens, err)
	}
}

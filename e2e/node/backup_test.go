package node

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Last night's backup, and the lines of docs/backup.md for the morning after.
func backup(t *testing.T) {
	before := polls(t)
	helm(t, "upgrade", "flux-api", "charts/flux-resourceset", "--reuse-values", "--set", "backup.enabled=true", "--wait", "--timeout", "3m")
	kubectl(t, "", "create", "job", "by-hand", "--from=cronjob/flux-api-backup")
	kubectl(t, "", "wait", "job/by-hand", "--for=condition=Complete", "--timeout=3m")
	made := kubectl(t, "", "logs", "job/by-hand")
	t.Log(made)
	match := regexp.MustCompile(`^(\S+) has revision .* (answers sha256:\S+)`).FindStringSubmatch(made)
	if match == nil {
		t.Fatalf("the job says %q", made)
	}
	file, digest := match[1], match[2]

	if _, err := node.CLI(t.Context(), service(t, "flux-api"), "namespace", "create", "after-the-backup", "--cluster", "demo-cluster-01"); err != nil {
		t.Fatal(err)
	}
	if maps.Equal(polls(t), before) {
		t.Fatal("the change reaches nobody")
	}

	kubectl(t, "", "scale", "deployment/flux-api-crud", "--replicas=0")
	kubectl(t, "", "wait", "pod", "--selector=app.kubernetes.io/component=crud", "--for=delete", "--timeout=3m")
	manifest := strings.NewReplacer("/backups/FILE", file, "VERSION", appVersion(t)).Replace(documented(t, "# restore.yaml"))
	kubectl(t, manifest, "apply", "-f", "-")
	kubectl(t, "", "wait", "pod/flux-api-restore", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=3m")
	restored := kubectl(t, "", "logs", "flux-api-restore")
	t.Log(restored)
	if !strings.Contains(restored, digest) {
		t.Errorf("what was restored has other answers than %s", digest)
	}
	kubectl(t, "", "delete", "pod", "flux-api-restore")
	helm(t, "upgrade", "flux-api", "charts/flux-resourceset", "--reuse-values",
		"--set", "store.sqlite.persistence.existingClaim=flux-api-data-restored", "--wait", "--timeout", "3m")
	readyPod(t, "crud")
	if after := polls(t); !maps.Equal(after, before) {
		t.Errorf("polls are answered with %v, not %v", after, before)
	}
}

// documented is the block of docs/backup.md that begins with a line.
func documented(t *testing.T, first string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "```yaml\n"+first)
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatalf("docs/backup.md has no block %q", first)
	}
	return block
}

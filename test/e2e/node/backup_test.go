package node

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// Last night's backup, and the lines of docs/backup.md for the morning after.
func backup(t *testing.T) {
	before := polls(t, "flux-api")
	helm(t, "upgrade", "flux-api", chart, "--reuse-values", "--set", "backup.enabled=true", "--wait", "--timeout", "3m")
	file, digest := lastNight(t, "flux-api")

	change(t, "flux-api", "after-the-backup")
	if maps.Equal(polls(t, "flux-api"), before) {
		t.Fatal("the change reaches nobody")
	}

	kubectl(t, "", "scale", "deployment/flux-api-crud", "--replicas=0")
	kubectl(t, "", "wait", "pod", "--selector=app.kubernetes.io/component=crud", "--for=delete", "--timeout=3m")
	kubectl(t, documented(t, "backup.md", "yaml", "# restore.yaml", "/backups/FILE", file, "VERSION", appVersion(t)), "apply", "-f", "-")
	restored(t, "flux-api", digest)
	helm(t, "upgrade", "flux-api", chart, "--reuse-values",
		"--set", "store.sqlite.persistence.existingClaim=flux-api-data-restored", "--wait", "--timeout", "3m")
	readyPod(t, "crud")
	if after := polls(t, "flux-api"); !maps.Equal(after, before) {
		t.Errorf("polls are answered with %v, not %v", after, before)
	}
	historyReplaced(t, "flux-api")
}

// A backup that the API makes goes to wherever an administrator is, and from there into another installation.
func backupOverTheAPI(t *testing.T) {
	before := polls(t, "flux-api")
	file := filepath.Join(t.TempDir(), "fleet.db")
	made, err := node.CLI(t.Context(), service(t, "flux-api"), "backup", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(made)
	digest := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(made)
	if digest == "" {
		t.Fatal("the backup has no digest")
	}
	change(t, "flux-api", "after-the-second-backup")

	manifest := documented(t, "backup.md", "yaml", "# restore.yaml", "VERSION", appVersion(t), "flux-api", "second",
		"args: [restore, /backups/FILE]", "args: [restore, \"-\"]\n      stdin: true\n      stdinOnce: true",
		"        - {name: backups, mountPath: /backups}\n", "",
		"    - {name: backups, persistentVolumeClaim: {claimName: flux-api-backups}}\n", "")
	if strings.Contains(manifest, "backups") {
		t.Fatal(manifest)
	}
	kubectl(t, manifest, "apply", "-f", "-")
	kubectl(t, "", "wait", "pod/second-restore", "--for=jsonpath={.status.phase}=Running", "--timeout=3m")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, string(content), "attach", "-i", "second-restore")
	restored(t, "second", "file "+digest)
	helm(t, "install", "second", chart, "--set", "name=second", "--set", "auth.existingSecret=fleet-tokens",
		"--set", "store.sqlite.persistence.existingClaim=second-data-restored", "--wait", "--timeout", "3m")
	if after := polls(t, "second"); !maps.Equal(after, before) {
		t.Errorf("polls are answered with %v, not %v", after, before)
	}
	uninstall(t, "second")
}

// The same on Postgres, with the roles of docs/databases.md: pods for changes and for polls, last night's backup and an
// empty database.
func onPostgres(t *testing.T) {
	if err := node.StartPostgres(); err != nil {
		t.Fatal(err)
	}
	roles := documented(t, "databases.md", "sql", "CREATE ROLE fleet_owner", "'...'", "'secret'")
	create, grants, found := strings.Cut(roles, "-- in database fleet")
	if !found {
		t.Fatalf("docs/databases.md: which statements are for after the migration? %s", roles)
	}
	sql(t, "postgres", "postgres", create)
	for secret, role := range map[string]string{"fleet-database": "fleet_owner", "fleet-database-read": "fleet_reader"} {
		kubectl(t, "", "create", "secret", "generic", secret,
			"--from-literal=DATABASE_URL=postgres://"+role+":secret@"+rig.NodeAddress+"/fleet?sslmode=disable")
	}
	helm(t, "install", "third", chart, "--set", "name=third", "--set", "auth.existingSecret=fleet-tokens", "--set", "backup.enabled=true",
		"--set", "store.backend=postgres", "--set", "store.postgres.existingSecret=fleet-database",
		"--set", "store.postgres.read.existingSecret=fleet-database-read", "--set", "crud.replicas=2",
		"--set-file", "seed.data=examples/demo/seed.json", "--set", "seed.accept=true")
	rolledOut(t, "third-crud")
	sql(t, "fleet_owner", "fleet", "-- in database fleet"+grants)
	rolledOut(t, "third-readonly")
	change(t, "third", "before-the-backup")
	before := pollsWith(t, "third", "before-the-backup")
	t.Log("\n" + kubectl(t, "", "get", "pods", "--selector=app.kubernetes.io/instance=third", "-o", "wide"))

	file, digest := lastNight(t, "third")
	change(t, "third", "after-the-backup")
	pollsWith(t, "third", "after-the-backup")

	kubectl(t, "", "scale", "deployment/third-crud", "deployment/third-readonly", "--replicas=0")
	kubectl(t, "", "wait", "pod", "--selector=app.kubernetes.io/component in (crud,readonly),app.kubernetes.io/instance=third", "--for=delete", "--timeout=3m")
	sql(t, "postgres", "postgres", documented(t, "backup.md", "sql", "ALTER DATABASE"))
	kubectl(t, documented(t, "backup.md", "yaml", "# restore-postgres.yaml", "flux-api", "third", "/backups/FILE", file, "VERSION", appVersion(t), "SECRET", "fleet-database"), "apply", "-f", "-")
	restored(t, "third", digest)
	sql(t, "fleet_owner", "fleet", "-- in database fleet"+grants)
	kubectl(t, "", "scale", "deployment/third-crud", "deployment/third-readonly", "--replicas=2")
	rolledOut(t, "third-crud")
	rolledOut(t, "third-readonly")
	if after := polls(t, "third"); !maps.Equal(after, before) {
		t.Errorf("polls are answered with %v, not %v", after, before)
	}
	historyReplaced(t, "third")
	change(t, "third", "after-the-restoration")
	pollsWith(t, "third", "after-the-restoration")
	uninstall(t, "third")
}

// lastNight runs the backup job of an installation, and returns the name of its file and the digest of the answers that it restores to.
func lastNight(t *testing.T, name string) (file, digest string) {
	t.Helper()
	job := "job/" + name + "-by-hand"
	kubectl(t, "", "create", "job", name+"-by-hand", "--from=cronjob/"+name+"-backup")
	kubectl(t, "", "wait", job, "--for=condition=Complete", "--timeout=3m")
	made := kubectl(t, "", "logs", job)
	t.Log(made)
	match := regexp.MustCompile(`^(\S+) has revision .* (answers sha256:\S+)`).FindStringSubmatch(made)
	if match == nil {
		t.Fatalf("the job says %q", made)
	}
	return match[1], match[2]
}

// restored waits until a store is restored, and requires the digest of the backup in the log.
func restored(t *testing.T, name, digest string) {
	t.Helper()
	pod := name + "-restore"
	kubectl(t, "", "wait", "pod/"+pod, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=3m")
	said := kubectl(t, "", "logs", pod)
	t.Log(said)
	if !strings.Contains(said, digest) {
		t.Errorf("what was restored is not what %s was made of", digest)
	}
	kubectl(t, "", "delete", "pod", pod)
}

// historyReplaced expects the command line to refuse one change after it has seen a revision that is lost, and then to go on.
func historyReplaced(t *testing.T, name string) {
	t.Helper()
	_, err := node.CLI(t.Context(), service(t, name), "namespace", "create", "meant-for-the-lost-history", "--cluster", "demo-cluster-01")
	if err == nil || !strings.Contains(err.Error(), "history was replaced") || !strings.Contains(err.Error(), "nothing was changed") {
		t.Fatalf("a change meant for the lost history: %v", err)
	}
	if _, err := node.CLI(t.Context(), service(t, name), "cluster", "list"); err != nil {
		t.Fatal(err)
	}
}

// documented is the block of a page of docs that begins so, with words of it replaced.
func documented(t *testing.T, page, language, first string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "```"+language+"\n"+first)
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatalf("docs/%s has no block %q", page, first)
	}
	block = first + block
	for i := 0; i+1 < len(replace); i += 2 {
		if !strings.Contains(block, replace[i]) {
			t.Fatalf("docs/%s: nothing to replace: %q", page, replace[i])
		}
	}
	return strings.NewReplacer(replace...).Replace(block)
}

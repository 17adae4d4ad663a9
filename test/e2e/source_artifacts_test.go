package e2e

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// The source, and the documents of its artifact.
const (
	followedSource = "followed"
	followedWeb    = "followed-web"
	followedSpace  = "followed-space"
)

// followedArtifact returns the files of an artifact with the version of the component, and with the layer that assigns it, or without.
func followedArtifact(version, team string, assigned bool) map[string]string {
	files := map[string]string{
		"fleet/components.yaml": "kind: component\nid: " + followedWeb + "\ncomponent_path: web\noci_url: https://charts.example.com\ncomponent_version: " + version + "\n",
		"fleet/README.md":       "kind: nothing",
	}
	if assigned {
		files["fleet/namespaces.yaml"] = "kind: ns\nid: " + followedSpace + "\nlabels: {team: " + team + "}\n"
		files["fleet/layers.yaml"] = "kind: layer\nid: followed\npriority: 711\nselector: followed\nplatform_components: [{id: " + followedWeb + "}]\nnamespaces: [{id: " + followedSpace + "}]\n"
	}
	return files
}

// followed is a cluster whose layer and component are in the artifact of a source.
type followed struct{ *cluster }

// push pushes an artifact under the tag that the source follows, and returns its digest.
func (f followed) push(key crypto.Signer, files map[string]string) string {
	f.Helper()
	return digest(f.T)(f.w.Registry.PushArtifact(f.Context(), "followed/fleet", "prod", files, key))
}

func (f followed) source() object {
	f.Helper()
	return f.api("GET", "/sources/"+followedSource, nil)["status"].(object)
}

// sourceIs waits until the source is in a state with a text in its message, and has applied a digest.
func (f followed) sourceIs(state, message, digest string) object {
	f.Helper()
	var now object
	f.eventually("the source is "+state, func(context.Context) error {
		now = f.source()
		if text, _ := now["message"].(string); now["state"] != state || !strings.Contains(text, message) || now["digest"] != digest {
			return fmt.Errorf("its status is %s", canonical(now))
		}
		return nil
	})
	return now
}

// checked waits until the server has requested the digest again.
func (f followed) checked() {
	f.Helper()
	before := f.source()["checked_at"]
	f.eventually("the source is checked again", func(context.Context) error {
		if now := f.source()["checked_at"]; now == before {
			return fmt.Errorf("the last check was at %v", now)
		}
		return nil
	})
}

// runs waits until the cluster runs a version of the component, and has the namespace with the label, and nothing is left to do.
func (f followed) runs(version, team string) {
	f.Helper()
	f.eventually("the Deployment is of version "+version, func(ctx context.Context) error {
		deployment, err := f.get(ctx, "apps/v1", "Deployment", followedWeb, followedWeb)
		if err != nil {
			return err
		}
		if got := deployment.GetLabels()["version"]; got != version {
			return fmt.Errorf("it is of version %s", got)
		}
		return rig.HasCondition(deployment, "Available", "True")
	})
	f.field(f.exists("v1", "Namespace", "", followedSpace), team, "metadata", "labels", "team")
	f.confirmed("platform-components", followedWeb)
	f.settled()
}

// keeps returns a check that the desired state of the cluster is as it was, and that nothing was made or installed again.
func (f followed) keeps() func(when string) {
	f.Helper()
	state := func() []string {
		f.settled()
		release := f.ready(helmAPI, "HelmRelease", f.ns, "platform-"+followedWeb)
		now := []string{identity(release), identity(f.exists("apps/v1", "Deployment", followedWeb, followedWeb)), identity(f.exists("v1", "Namespace", "", followedSpace))}
		for _, list := range f.lists() {
			now = append(now, f.inputs(list)...)
		}
		return now
	}
	before := state()
	return func(when string) {
		f.Helper()
		if now := state(); !slices.Equal(now, before) {
			f.Errorf("%s: the cluster was changed: %v, then %v", when, before, now)
		}
	}
}

// refuses runs the command line, which must fail with a text.
func (f followed) refuses(text string, args ...string) {
	f.Helper()
	if _, err := f.w.CLI(f.Context(), args...); err == nil || !strings.Contains(err.Error(), text) {
		f.Errorf("%v: %v", args, err)
	}
}

// TestSource: artifacts of a registry, signed as with cosign, become objects of the cluster. A hotfix stays until the next digest. An
// artifact of another key, one that is held, and one that is pushed while a revert suspends the source change nothing.
func TestSource(t *testing.T) {
	t.Parallel()
	f := followed{prepare(t, "followed", object{"labels": object{"followed": "yes"}})}
	f.sendEvents()
	f.join(rig.Cluster{})
	key := newKey(t)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(t.TempDir(), "cosign.pub")
	if err := os.WriteFile(keyFile, []byte(pemText("PUBLIC KEY", public)), 0o600); err != nil {
		t.Fatal(err)
	}

	applied := f.push(key, followedArtifact("1.0.0", "one", true))
	f.cli("access", "create", "followed", "--source", followedSource, "--may", "write")
	f.cli("source", "create", followedSource, "--url", "oci://"+f.w.Registry.Host+"/followed/fleet", "--tag", "prod", "--path", "fleet",
		"--prune", "--interval", "30s", "--verify-key", keyFile)
	f.sourceIs("ready", "", applied)
	f.runs("1.0.0", "one")

	// A hotfix.
	hotfix := []string{"component", "set", followedWeb, "--component-version", "1.1.0", "--reason", "INC-7"}
	f.refuses("managed_by_source", hotfix...)
	f.cli(append(hotfix, "--override-source", followedSource)...)
	f.runs("1.1.0", "one")
	unchanged := f.keeps()
	f.checked()
	if drifted := canonical(f.source()["drifted"]); !strings.Contains(drifted, followedWeb) {
		t.Errorf("the drifted documents are %s", drifted)
	}
	unchanged("after a check of the applied digest")
	applied = f.push(key, followedArtifact("1.0.0", "two", true))
	f.sourceIs("ready", "", applied) // at the next check
	f.runs("1.0.0", "two")
	if drifted := canonical(f.source()["drifted"]); drifted != "[]" {
		t.Errorf("after the next digest the drifted documents are %s", drifted)
	}

	// Another key.
	unchanged = f.keeps()
	f.push(newKey(t), followedArtifact("2.0.0", "three", true))
	f.cli("reconcile", "source", followedSource)
	f.sourceIs("failed", "no signature of the artifact is by one of the keys", applied)
	unchanged("after an artifact of another key")

	// A revert suspends the source.
	applied = f.push(key, followedArtifact("1.1.0", "two", true))
	f.cli("reconcile", "source", followedSource)
	f.sourceIs("ready", "", applied)
	f.runs("1.1.0", "two")
	last := f.cli("revision", "list", "--kind", "platform_component", "--id", followedWeb, "--limit", "1", "-o", "name")
	f.cli("revision", "revert", strings.TrimPrefix(strings.TrimSpace(last), "revision/"), "--reason", "INC-8", "--yes")
	f.sourceIs("suspended", "", applied)
	f.runs("1.0.0", "two")
	unchanged = f.keeps()
	next := f.push(key, followedArtifact("2.0.0", "two", true))
	f.refuses("the source is suspended", "reconcile", "source", followedSource)
	unchanged("while the source is suspended")
	f.cli("resume", "source", followedSource)
	f.sourceIs("ready", "", next)
	f.runs("2.0.0", "two")

	// A removal.
	unchanged = f.keeps()
	removal := f.push(key, followedArtifact("2.0.0", "two", false))
	f.cli("reconcile", "source", followedSource)
	status := f.sourceIs("held", "only 1 of the 3 documents that it manages are in the artifact", next)
	unchanged("while the removal is held")
	f.cli("source", "approve", followedSource, fmt.Sprint(status["held"].(object)["plan_hash"]))
	f.sourceIs("ready", "", removal)
	f.gone("apps/v1", "Deployment", followedWeb, followedWeb)
	f.gone("v1", "Namespace", "", followedSpace)
	f.settled()
}

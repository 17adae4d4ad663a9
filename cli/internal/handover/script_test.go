package handover

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubectl is a stand-in for kubectl on a cluster with the objects of testdata/dump.yaml. Files in the folder $fake are its state and the
// log of its calls. The call with the number $FAIL fails, before or after it has had its effect.
const kubectl = `#!/bin/sh
printf "%s\n" "$*" >>"$fake/log"
if [ -n "${FAIL:-}" ] && [ "$(wc -l <"$fake/log")" -eq "$FAIL" ]; then echo "error: the server is gone" >&2; exit 1; fi
if [ "$1" = --context ]; then
	[ "$2" = prod ] || exit 1
	shift 2
elif [ "$1" = config ]; then
	cat "$fake/context"
	exit 0
fi
called=$*
name() { # of the object of a call
	case " $called " in
	*" web "* | */web*) echo web ;;
	*" apps "-*) echo apps ;;
	*/kustomizations/apps | *.io/apps*|*" apps --"*) echo apps ;;
	*) echo root ;;
	esac
}
case $called in
"get namespace kube-system "*) echo 0e8f9a8e-0000-4000-8000-000000000001 ;;
*"get secrets"*)
	echo 1 superseded
	[ ! -e "$fake/connected" ] || echo 2 superseded
	[ -e "$fake/connected" ] && echo 3 deployed || echo 2 deployed ;;
*"get namespace web -o go-template"*) printf 'namespace web u2\nlabel web team=a\n' ;;
*"get Namespace web "*) cat "$fake/owner" ;;
*"get deployments,"*) echo "Deployment web/web u3" ;;
*"get pods"*) cat "$fake/pods" 2>/dev/null || echo "Pod web/web-1 u4" ;;
*"get resourcesets"*resourcesTemplate*) [ ! -e "$fake/connected" ] || echo storageNamespace ;;
*"get resourcesets"*) [ ! -e "$fake/connected" ] || echo platform-components: ;;
*platform-web*generation*) [ ! -e "$fake/connected" ] || echo "1=1 True " ;;
*platform-web*lastAttempted*) echo upgrade 3 ;;
*platform-web*releaseName*) echo web-web/apps/web ;;
*platform-web*) [ ! -e "$fake/connected" ] || echo platform-web: ;;
*patch*suspend*) : >"$fake/suspended-$(name)" ;;
*"delete --raw"*)
	cat >/dev/null
	[ -e "$fake/suspended-$(name)" ] || { echo "UNINSTALLED $(name)" >>"$fake/log"; }
	: >"$fake/gone-$(name)" ;;
*wait*--for=delete*) ;;
*get*ignore-not-found*)
	[ ! -e "$fake/gone-$(name)" ] || exit 0
	[ -e "$fake/suspended-$(name)" ] && suspend=true || suspend=
	case $called in
	*resourceVersion*) echo "$suspend/uid/7" ;;
	*) echo "$(name):$suspend" ;;
	esac ;;
*) echo "unknown: $called" >&2; exit 1 ;;
esac
`

// fakeCluster runs the script in a folder of its own.
type fakeCluster struct {
	*testing.T
	dir, shell string
}

func newFakeCluster(t *testing.T, shell string) *fakeCluster {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		t.Fatalf("%v: scripts/need %s installs it", err, shell)
	}
	f := &fakeCluster{T: t, dir: t.TempDir(), shell: shell}
	p, err := plan(t, nil, component, own, namespace)
	if err != nil {
		t.Fatal(err)
	}
	f.write("handover.sh", p.Script())
	f.write("kubectl", kubectl)
	f.write("context", "prod\n")
	f.write("owner", "/\n")
	if err := os.Chmod(filepath.Join(f.dir, "kubectl"), 0o700); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fakeCluster) write(name, text string) {
	f.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

// run runs the script and returns its output, and the calls of kubectl.
func (f *fakeCluster) run(step string, env ...string) (out, log string, err error) {
	f.Helper()
	f.write("log", "")
	cmd := exec.CommandContext(f.Context(), f.shell, "handover.sh", step)
	cmd.Dir = f.dir
	cmd.Env = append([]string{"PATH=" + f.dir + ":/usr/bin:/bin", "fake=" + f.dir, "HANDOVER_PAUSE=0", "HANDOVER_TIMEOUT=1"}, env...)
	text, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		f.Fatal(err)
	}
	calls, readErr := os.ReadFile(filepath.Join(f.dir, "log"))
	if readErr != nil {
		f.Fatal(readErr)
	}
	return string(text), string(calls), err
}

// start runs the steps before the cluster is connected, and connects it.
func (f *fakeCluster) start() {
	f.Helper()
	if out, _, err := f.run("8"); err != nil || !strings.Contains(out, "Connect the cluster now") {
		f.Fatalf("before the connection: %v\n%s", err, out)
	}
	f.write("connected", "")
}

// TestScriptFails: whichever request fails, the script ends with an error, changes nothing after it, and ends well in the next run. bash
// would go on after some failures.
func TestScriptFails(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"sh", "bash"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			started := newFakeCluster(t, shell)
			started.start()
			begin := func() *fakeCluster {
				f := &fakeCluster{T: t, dir: filepath.Join(t.TempDir(), "a"), shell: shell}
				if err := os.CopyFS(f.dir, os.DirFS(started.dir)); err != nil {
					t.Fatal(err)
				}
				return f
			}
			out, log, err := begin().run("8")
			if err != nil || !strings.Contains(out, "cluster set berlin-01 --deletion-protection=false") {
				t.Fatalf("without a failure: %v\n%s", err, out)
			}
			for i, failed := range strings.Split(strings.TrimSpace(log), "\n") {
				if strings.HasPrefix(failed, "config") || shell == "bash" && !strings.Contains(failed, "--ignore-not-found") {
					continue
				}
				f := begin()
				_, log, err := f.run("8", fmt.Sprint("FAIL=", i+1))
				if err == nil {
					t.Errorf("ends without an error after: %s", failed)
				}
				for _, line := range strings.Split(strings.TrimSpace(log), "\n")[i+1:] {
					if strings.Contains(line, "delete --raw") || strings.Contains(line, " patch ") {
						t.Errorf("after %s\n%s", failed, line)
					}
				}
				if strings.Contains(failed, "--raw") || strings.Contains(failed, "wait") {
					if out, log, err := f.run("8"); err != nil || strings.Contains(log, "UNINSTALLED") {
						t.Errorf("the next run after %s: %v\n%s", failed, err, out)
					}
				}
			}
		})
	}
}

// TestScriptContext: all requests go to the context with which the script has begun, and a state of another cluster is refused.
func TestScriptContext(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, "sh")
	f.start()
	f.write("context", "another\n")
	if out, log, err := f.run("8"); err == nil || strings.Contains(log, "patch") {
		t.Errorf("another context: %v\n%s", err, out)
	}
	f.write("context", "prod\n")
	_, log, err := f.run("8")
	if err != nil {
		t.Error(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(log), "\n") {
		if i > 0 && !strings.HasPrefix(line, "--context prod ") {
			t.Errorf("without the context: %s", line)
		}
	}
	state := filepath.Join(f.dir, "handover-berlin-01.before")
	before, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	for old, want := range map[string]string{"cluster 0e8": "is of another cluster", "release apps/web-web ": "is of a script without release apps/web-web"} {
		f.write(filepath.Base(state), strings.Replace(string(before), old, "x", 1))
		if out, log, err := f.run("8"); err == nil || !strings.Contains(out, want) || strings.Contains(log, "patch") {
			t.Errorf("%v, not %q\n%s", err, want, out)
		}
	}
}

// TestScriptSharedObjects: an object that still has the labels of its Kustomization must stay in Git.
func TestScriptSharedObjects(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, "sh")
	f.start()
	for owner, want := range map[string]string{
		"flux-system/flux-system": "KEEP IN GIT: Namespace web. Kustomization flux-system/flux-system would delete it",
		"/":                       "Remove from Git, before you resume Kustomization flux-system/flux-system: Namespace web",
	} {
		f.write("owner", owner+"\n")
		if out, _, err := f.run("8"); err != nil || !strings.Contains(out, want) {
			t.Errorf("%v, not %q\n%s", err, want, out)
		}
	}
}

// TestScriptChanges: accepted changes do not stop the last step.
func TestScriptChanges(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, "sh")
	f.start()
	f.write("pods", "Pod web/web-2 u5\n")
	if out, log, err := f.run("8"); err == nil || !strings.Contains(out, "Pod web/web-1 u4") || strings.Contains(log, "delete") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err := f.run("8", "ACCEPT_CHANGES=yes"); err != nil || !strings.Contains(out, "cluster set berlin-01 --deletion-protection=false") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestScriptOfAnOldDump: an object of the plan that is not on the cluster stops the script before it changes anything.
func TestScriptOfAnOldDump(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]string{"apps": "there is no kustomizations.kustomize.toolkit.fluxcd.io flux-system/apps on the cluster", "web": "there is no helmreleases.helm.toolkit.fluxcd.io apps/web on the cluster"} {
		f := newFakeCluster(t, "sh")
		f.write("gone-"+object, "")
		if out, log, err := f.run("8"); err == nil || !strings.Contains(out, want) || strings.Contains(log, "patch") {
			t.Errorf("%v, not %q\n%s", err, want, out)
		}
	}
}

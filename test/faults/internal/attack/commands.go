package attack

import (
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// Harmful input and timing for the command line client.
var commands = []Attack{
	{"apply-through-a-balancer", "`apply` of one file, then of another, through a balancer that sends each request to any of two processes", (*env).applyThroughBalancer},
	{"cut-yaml", "`apply` of a YAML file of which the end is missing", (*env).cutYAML},
	{"doubled-key", "`apply` of a file that names a field twice", (*env).doubledKey},
}

// runCLI runs the command line client without a terminal and returns its exit code and its output.
func (a *env) runCLI(base string, args ...string) (code int, output string) {
	cmd := exec.CommandContext(a.ctx, a.cfg.CLI, args...) //nolint:gosec // the program under attack
	cmd.Env = []string{
		"HOME=" + a.cfg.Dir, "XDG_CONFIG_HOME=" + a.cfg.Dir, "XDG_STATE_HOME=" + a.cfg.Dir, "XDG_CACHE_HOME=" + a.cfg.Dir,
		"FLUX_API_URL=" + base, "FLUX_API_TOKEN=" + rig.ReadToken, "FLUX_API_WRITE_TOKEN=" + rig.WriteToken,
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.ProcessState == nil {
		a.fail("running the command line client: %w", err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func (a *env) applyThroughBalancer() {
	pg, one, other := a.twoWriters(fleetOf{clusters: 1, namespaces: 2})
	for _, p := range pg.Proxies {
		p.Set(testrig.Trouble{Delay: 20 * time.Millisecond}) // the latency of a database on another machine
	}
	balancer, err := rig.NewBalancer(a.ctx, one, other)
	if err != nil {
		a.fail("%w", err)
	}
	a.closing = append(a.closing, balancer.Close)
	file := func(v string) string {
		return a.file(v+".yaml", fmt.Appendf(nil, "kind: namespace\nid: n0\nlabels: {v: %s}\n", v))
	}
	bad, good := file("bad"), file("good")
	if code, output := a.runCLI(balancer.Base(), "apply", "-f", good); code != 0 {
		a.fail("apply: %d %s", code, output)
	}
	for range 30 {
		first, output := a.runCLI(balancer.Base(), "apply", "-f", bad)
		second, then := a.runCLI(balancer.Base(), "apply", "-f", good)
		if first != 0 || second != 0 {
			a.notef("exit codes %d and %d: %.300s %.300s", first, second, output, then)
		}
		now := a.mustSend(one, http.MethodPatch, "/clusters/c0", object{"labels": object{"round": fmt.Sprint(len(a.made), a.rec.Now())[2:]}})
		name, value := minRevision(now.Revision)
		doc := a.mustSend(one, http.MethodGet, "/namespaces/n0", nil, name, value)
		a.count(second == 0 && !strings.Contains(string(doc.Body), `"v":"good"`), "what `apply` had said was done was not so")
		a.waitForRevision(other, now.Revision)
	}
}

func (a *env) cutYAML() {
	p := a.singleServer(fleetOf{clusters: 2, namespaces: 30}, "MAX_REMOVALS=5")
	code, whole := a.runCLI(p.Running().Base, "export", "clusters")
	if code != 0 {
		a.fail("export: %d %s", code, whole)
	}
	put := a.mustSend(p, http.MethodGet, "/clusters/c1", nil).Body
	for n := range 12 {
		cut := whole[:len(whole)*(n+6)/20]
		if n%2 == 0 { // at the end of a line, or anywhere
			cut = cut[:strings.LastIndex(cut, "\n")+1]
		}
		code, _ := a.runCLI(p.Running().Base, "apply", "-f", a.file(fmt.Sprintf("cut-%d.yaml", n), []byte(cut)))
		missing := false
		for i := range 2 {
			missing = missing || len(a.getCluster(p, clusterID(i), 0).Namespaces) < 30
		}
		a.count(code == 0 && missing, "files without their end took namespaces away")
		if missing {
			a.mustSend(p, http.MethodPut, "/clusters/c1", string(put))
			a.mustSend(p, http.MethodPut, "/clusters/c0", strings.NewReplacer("c1", "c0").Replace(string(put)))
		}
	}
}

func (a *env) doubledKey() {
	p := a.singleServer(fleetOf{clusters: 1, namespaces: 3})
	for name, text := range map[string]string{
		"doubled.json": `{"kind":"cluster","id":"c0","namespaces":[{"id":"n0"},{"id":"n1"},{"id":"n2"}],"namespaces":[]}`,
		"list.json":    `{"clusters":[{"id":"c0","labels":{"a":"b"}}],"clusters":[{"id":"c0","namespaces":[]}]}`,
		"doubled.yaml": "kind: cluster\nid: c0\nnamespaces: [{id: n0}, {id: n1}, {id: n2}]\nnamespaces: []\n",
	} {
		code, output := a.runCLI(p.Running().Base, "apply", "-f", a.file(name, []byte(text)))
		emptied := len(a.getCluster(p, "c0", 0).Namespaces) == 0
		if a.count(code == 0, "files that name a field twice were applied") {
			a.notef("%s: emptied the list: %t; %.200s", name, emptied, output)
		}
		if emptied {
			a.mustSend(p, http.MethodPut, "/clusters/c0", `{"namespaces":[{"id":"n0"},{"id":"n1"},{"id":"n2"}]}`)
		}
	}
}

// Command demo-local is the demo without containers: a real cluster on this machine that runs its desired state, until
// it is interrupted.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Stdout, os.Stderr) //nolint:forbidigo // the program's own streams
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo-local: %v\n", err) //nolint:forbidigo // the program's own streams
		os.Exit(1)                                      //nolint:forbidigo // the program's end
	}
}

func run(ctx context.Context, stdout, stderr io.Writer) error {
	fmt.Fprintln(stdout, "Starting a Kubernetes API server, Flux and the fleet's API ...")
	w, err := rig.Start(ctx, rig.Config{Progress: stderr})
	defer w.Stop()
	if ctx.Err() != nil {
		return nil // interrupted while starting, which is no failure
	}
	if err != nil {
		return err
	}
	narration, quiet := context.WithCancel(ctx)
	defer quiet()
	if err := w.Join(ctx, rig.Cluster{ID: "demo-cluster-01", URL: w.ReadURLs[0], Interval: "5s"}); err != nil {
		return err
	}
	fmt.Fprintf(stdout, `
A cluster runs here: %s asks the API every 5 seconds, and Flux makes it so.
Charts and pods are stand-ins (there is no network and no container), everything else is real.
Below you see what happens in the cluster. In another terminal, in the same directory:

  export FLUX_API_URL=%s FLUX_API_TOKEN=%s FLUX_API_WRITE_TOKEN=%s
  alias frs=%s

  frs inputs demo-cluster-01                      # what the cluster is told
  frs component set podinfo --cluster demo-cluster-01 --set replicaCount=3
  frs namespace create team-sandbox --label team=sandbox --cluster demo-cluster-01
  frs component set podinfo --cluster demo-cluster-01 --enabled=false
  frs component set podinfo --cluster demo-cluster-01 --enabled
  frs cluster delete demo-cluster-01              # everything goes

Look at any object, with kubectl if you have it, or with curl:

  kubectl --kubeconfig %s get deployments -A
  curl -sk -H 'Authorization: Bearer %s' %s/apis/apps/v1/namespaces/podinfo/deployments/podinfo

Swagger UI is at %s/docs/. Ctrl-C stops everything. The cluster is gone then; the logs stay in %s.

`, "demo-cluster-01", w.URL, rig.ReadToken, rig.WriteToken, filepath.Join(w.Bin(), "flux-resourceset-cli"), w.Kubeconfig, rig.AdminToken, w.KubeURL, w.URL, filepath.Dir(w.Bin()))
	w.Narrate(narration, stdout)
	<-ctx.Done()
	fmt.Fprintln(stdout, "\nStopping ...")
	return nil
}

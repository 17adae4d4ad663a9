// Package node installs the charts on a real node, as their users do, and checks the result. scripts/e2e-node runs
// it: the node has namespaces of its own.
package node

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

var node *rig.Node

func TestMain(m *testing.M) {
	dir := os.Getenv("E2E_NODE")
	if dir == "" {
		fmt.Fprintln(os.Stderr, "without a node: make e2e-node runs these tests")
		return
	}
	var err error
	node, err = rig.StartNode(context.Background(), rig.NodeConfig{Dir: dir, Environment: os.Environ(), Progress: os.Stderr})
	code := 1
	if err == nil {
		code = m.Run()
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, node.Logs(15))
	}
	if err != nil { // last, where it is looked for
		fmt.Fprintf(os.Stderr, "the node does not start on this machine: %v\n", err)
	}
	node.Stop()
	os.Exit(code)
}

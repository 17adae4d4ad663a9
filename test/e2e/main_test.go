package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/test/e2e/rig"
)

// shared is the one control plane of all cases, started by the first case that asks for it.
var shared = sync.OnceValues(func() (*rig.Env, error) {
	return rig.Start(context.Background(), rig.Config{
		Progress: os.Stderr,
		// A folder with programs of ours that are built already, such as a release's.
		Bin: os.Getenv("E2E_BIN"),
		// sqlite or postgres.
		Store:       os.Getenv("E2E_STORE"),
		RealSources: []string{realSources, gitSources, versionsCanary, versionsProd},
	})
})

var started bool

func TestMain(m *testing.M) {
	code := m.Run()
	if started {
		if w, _ := shared(); w != nil {
			if code != 0 {
				fmt.Fprintln(os.Stderr, w.Logs(15))
			}
			w.Stop()
		}
	}
	os.Exit(code)
}

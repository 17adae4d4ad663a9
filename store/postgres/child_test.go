package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/migrations"
	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

// The tests start this binary again as a process of its own, to have several at once and something to kill.
const (
	childRole = "POSTGRES_TEST_CHILD"
	childURL  = "POSTGRES_TEST_URL"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := child(context.Background(), role, os.Getenv(childURL)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testrig.RunIOBound(m))
}

// child is the main function of a process started by a test. Each printed line is an acknowledgment.
func child(ctx context.Context, role, url string) error {
	switch role {
	case "migrate":
		return Migrate(ctx, url)
	case "migrate further": // one version after another
		fmt.Println("started")
		for version := 1; ; version++ {
			files, err := storetest.Migrations(migrations.Postgres, migrationsDir, version)
			if err == nil {
				err = migrateTo(ctx, url, files, migrateLockTimeout)
			}
			if err != nil {
				return err
			}
			fmt.Println(version)
		}
	}
	return errors.New("no such role: " + role)
}

func command(t *testing.T, role, url string) *exec.Cmd {
	t.Helper()
	return testrig.Self(t, childRole+"="+role, childURL+"="+url)
}

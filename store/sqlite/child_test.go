package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/migrations"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/storetest"
)

// The tests start this binary again as a process of its own, to have locks between processes and something to kill.
const (
	childRole = "SQLITE_TEST_CHILD"
	childPath = "SQLITE_TEST_PATH"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := child(context.Background(), role, os.Getenv(childPath)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is the main function of a process started by a test. Each printed line is an acknowledgment.
func child(ctx context.Context, role, path string) error {
	switch role {
	case "migrate":
		return Migrate(ctx, path)
	case "migrate further": // one version after another
		fmt.Println("started")
		for version := 1; ; version++ {
			files, err := storetest.Migrations(migrations.SQLite, migrationsDir, version)
			if err == nil {
				err = migrateTo(ctx, path, files)
			}
			if err != nil {
				return err
			}
			fmt.Println(version)
		}
	case "open":
		s, err := Open(ctx, Config{Path: path, ReadOnly: true})
		if err != nil {
			return err
		}
		return s.Close()
	case "look for locks":
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: 0x40000000, Len: 512} // https://www.sqlite.org/lockingv3.html
		err = syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock)
		fmt.Println("locked:", lock.Type != syscall.F_UNLCK)
		return errors.Join(err, f.Close())
	case "write":
		s, err := Open(ctx, Config{Path: path})
		if err != nil {
			return err
		}
		return writeForEver(ctx, s)
	}
	return errors.New("no such role: " + role)
}

// writeForEver adds two documents with every commit and prints each acknowledged revision.
func writeForEver(ctx context.Context, s *Store) error {
	head, err := s.Head(ctx)
	if err != nil {
		return err
	}
	for {
		rev := head.Revision + 1
		c := fleet.Commit{Revision: rev, ID: uuid.New(), Actor: "child"}
		for _, kind := range []fleet.Kind{fleet.KindCluster, fleet.KindNamespace} {
			c.Changes = append(c.Changes, fleet.Change{Kind: kind, ID: fmt.Sprintf("n%d", rev), After: json.RawMessage(`{}`)})
		}
		switch err := s.Commit(ctx, head, c); {
		case errors.Is(err, store.ErrStale):
			if head, err = s.Head(ctx); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			head = c.Head()
			fmt.Println(head.Revision, head.ID)
		}
	}
}

func command(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	return testrig.Self(t, childRole+"="+role, childPath+"="+path)
}

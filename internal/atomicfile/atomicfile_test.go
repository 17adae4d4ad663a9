package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Of several concurrent calls for one name exactly one succeeds, and no other replaces its file.
func TestPublishGivesANameToOneFile(t *testing.T) {
	t.Parallel()
	for range 50 {
		dir := t.TempDir()
		target := filepath.Join(dir, "fleet.db")
		errs := make([]error, 8)
		for i := range errs {
			if err := os.WriteFile(target+strconv.Itoa(i), []byte(strconv.Itoa(i)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				<-begin
				errs[i] = Publish(target+strconv.Itoa(i), target)
			})
		}
		close(begin)
		wg.Wait()
		got, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		for i, err := range errs {
			switch named := string(got) == strconv.Itoa(i); {
			case named && err != nil, !named && err == nil:
				t.Fatalf("%s has the name; %d: %v", got, i, err)
			case !named && !errors.Is(err, os.ErrExist):
				t.Fatal(err)
			}
		}
	}
}

// Directories have no hard links, so they stand for a file system without them: link renames, and does not replace an
// existing target.
func TestPublishWithoutHardLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(dir, "fleet.db")
	for _, name := range []string{"first", "second"} {
		if err := os.MkdirAll(filepath.Join(dir, name, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := linkOrRename(filepath.Join(dir, "first"), target); err != nil {
		t.Fatal(err)
	}
	if err := linkOrRename(filepath.Join(dir, "second"), target); err == nil || !errors.Is(err, os.ErrExist) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(target, "first")); err != nil {
		t.Error(err)
	}
	if err := linkOrRename(filepath.Join(dir, "gone"), target+"2"); !os.IsNotExist(err) {
		t.Error(err)
	}
}

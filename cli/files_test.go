package cli

import (
	"testing"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

func TestFilesBuildOnEachOther(t *testing.T) {
	t.Parallel()
	testrig.FilesBuildOnEachOther(t, 30)
}

package kinds

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/documents"
)

// TestKindsOfFiles: the server reads the files of sources as apply does.
func TestKindsOfFiles(t *testing.T) {
	t.Parallel()
	require.Equal(t, ForFiles(), documents.All())
}

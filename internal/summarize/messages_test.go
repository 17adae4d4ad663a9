package summarize

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneLine(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"": "",
		"Helm upgrade failed for release ns/podinfo with chart podinfo@6.9.0: timed out waiting for the condition":                        "timed out waiting for the condition",
		"Helm install failed for release ns/x with chart x@1: 1 error occurred:\n\t* already exists\n\nLast Helm logs:\n\nline 1\nline 2": "1 error occurred: * already exists",
		"Helm test failed for release ns/x: pod x failed":                                                                                 "pod x failed",
		"health check failed: timeout":                         "health check failed: timeout",
		strings.Repeat("wrapped: ", 20) + "connection refused": "wrapped: wrapped: …wrapped: wrapped: connection refused",
	} {
		require.Equal(t, want, OneLine(message, 55), message)
	}
}

func TestShortenKeepsTheLimit(t *testing.T) {
	t.Parallel()
	for limit := 1; limit < 12; limit++ {
		require.Len(t, []rune(shorten("äöüäöüäöüäöüäöü", limit)), limit)
	}
	require.Equal(t, "short", shorten("short", 5))
}

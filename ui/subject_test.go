package ui

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSubjectOf(t *testing.T) {
	t.Parallel()
	for actor, subject := range map[string]string{
		"oidc:corp:ann (00u1)":                   "oidc:corp:00u1",
		"oidc:ci:repo:acme/web (repo:acme/web)":  "oidc:ci:repo:acme/web",
		"oidc:corp:x%29%20%28root (x%29%20%28a)": "oidc:corp:x) (a",
		"static-write":                           "static-write",
	} {
		require.Equal(t, subject, subjectOf(actor), actor)
	}
}

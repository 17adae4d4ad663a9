package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ann(groups ...string) Session {
	return Session{fleet.Subject{Issuer: "corp", User: "ann@example.com", Sub: "00u1", Groups: groups, Claims: map[string]string{"sub": "00u1"}}, start, start.Add(MaxAge)}
}

func keys(t *testing.T, secrets ...string) *Keys {
	t.Helper()
	k, err := NewKeys(secrets...)
	require.NoError(t, err)
	return k
}

const oldKey, newKey = "an-old-key-that-nobody-guesses-00", "a-new-key-that-nobody-guesses-000"

func TestSession(t *testing.T) {
	t.Parallel()
	token, err := keys(t, oldKey).Seal(ann("team-web", "all"))
	require.NoError(t, err)
	require.True(t, IsToken(token))
	require.NotContains(t, token, "ann")
	for name, k := range map[string]*Keys{"another process": keys(t, oldKey), "a rotation": keys(t, newKey, oldKey)} {
		got, err := k.Open(token, start.Add(MaxAge-time.Second))
		require.NoError(t, err, name)
		require.Equal(t, ann("team-web", "all").Subject, got.Subject, name)
		require.Equal(t, start, got.Started.UTC(), name)
		got, err = k.Open(token, start.Add(MaxAge))
		require.ErrorIs(t, err, ErrExpired, name)
		require.Equal(t, "00u1", got.Sub, name)
	}
	for name, k := range map[string]*Keys{"after the rotation": keys(t, newKey), "a random key": keys(t), "another random key": keys(t, "", "")} {
		_, err := k.Open(token, start)
		require.ErrorIs(t, err, ErrUnknown, name)
	}
	rotated, err := keys(t, newKey, oldKey).Seal(ann())
	require.NoError(t, err)
	_, err = keys(t, newKey).Open(rotated, start)
	require.NoError(t, err, "the first key encrypts")
}

// TestTampered: no token with one changed character is accepted.
func TestTampered(t *testing.T) {
	t.Parallel()
	k := keys(t, oldKey)
	token, err := k.Seal(ann("team-web"))
	require.NoError(t, err)
	for i := range token {
		changed := token[:i] + "x" + token[i+1:]
		if token[i] == 'x' {
			changed = token[:i] + "y" + token[i+1:]
		}
		_, err := k.Open(changed, start)
		require.ErrorIs(t, err, ErrUnknown, i)
	}
	for _, text := range []string{"", prefix, token + "A", token[:len(token)-1], token[len(prefix):], prefix + strings.Repeat("A", 1<<20)} {
		_, err := k.Open(text, start)
		require.ErrorIs(t, err, ErrUnknown)
	}
}

// TestTooLarge: a session fits into a cookie, with 64 groups of usual length.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	k := keys(t, oldKey)
	groups := func(n int, format string) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf(format, i))
		}
		return list
	}
	token, err := k.Seal(ann(groups(MaxGroups, "platform-team-%06d")...))
	require.NoError(t, err)
	require.LessOrEqual(t, len(token), maxBytes)
	for _, wrong := range [][]string{groups(MaxGroups+1, "g%d"), groups(MaxGroups, "0f6d1c1e-5f6c-4a7e-9a52-%012d")} {
		_, err = k.Seal(ann(wrong...))
		require.ErrorIs(t, err, ErrTooLarge)
	}
}

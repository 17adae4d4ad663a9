package fleet

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSecretsHaveAForm(t *testing.T) {
	t.Parallel()
	zero, full := FormatSecret([32]byte{}), FormatSecret([32]byte(bytes.Repeat([]byte{255}, 32)))
	require.Equal(t, "frs_"+strings.Repeat("0", 43)+"2czCLJ", zero)
	require.Equal(t, "frs_YHJSKWDa6oz1al1yMhwzwM8llg7hJNUca2J5RoW8xP13Ivj5c", full)
	rapid.Check(t, func(t *rapid.T) {
		random := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "random"))
		secret := FormatSecret(random)
		require.Regexp(t, `^frs_[0-9A-Za-z]{49}$`, secret)
		require.True(t, LooksLikeSecret(secret))
		at := rapid.IntRange(4, len(secret)-1).Draw(t, "at")
		other := rapid.SampledFrom([]byte("09azAZ")).Draw(t, "other")
		if changed := secret[:at] + string(other) + secret[at+1:]; changed != secret {
			require.False(t, LooksLikeSecret(changed), "a mistyped secret is told by its checksum")
		}
	})
	for _, text := range []string{"", "frs_", zero[:len(zero)-1], zero + "0", "ghp" + zero[3:], strings.ToUpper(zero)} {
		require.False(t, LooksLikeSecret(text), text)
	}
}

// Two sets of random bits never give the same secret.
func TestSecretsDiffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "a"))
		b := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "b"))
		require.Equal(t, a == b, FormatSecret(a) == FormatSecret(b))
	})
}

func digestOf(n byte) Digest { return sha256.Sum256([]byte{n}) }

// withToken adds a poll token of a cluster.
func (w *world) withToken(cluster string, n byte) {
	w.t.Helper()
	w.must(func(tx *Tx) error {
		_, err := tx.CreateToken(NewToken{ID: string('a' + rune(n)), Name: string('a' + rune(n)), Role: RolePoll, ClusterID: cluster, Secret: digestOf(n)}, w.now)
		return err
	})
}

// A token ends with its cluster: not when it is decommissioned, but when the cluster is removed, in any way, or created again. A
// restore brings back the same cluster. Others stay.
func TestTokensEndWithTheirCluster(t *testing.T) {
	t.Parallel()
	remove := func(opt DeleteOptions) func(*Tx) error {
		return func(tx *Tx) error { _, err := tx.Delete(KindCluster, "a", opt); return err }
	}
	create := func(body string) func(*Tx) error {
		return func(tx *Tx) error { _, err := tx.Create(KindCluster, []byte(body)); return err }
	}
	const again = `{"id":"a","cluster_dns":"a.example.com","environment":"dev"}`
	restore := func(tx *Tx) error {
		_, err := tx.restore(KindCluster, "a", []byte(`{"id":"a","cluster_name":"a","cluster_dns":"a.example.com","environment":"dev","platform_components":[],"namespaces":[],"rolebindings":[]}`))
		return err
	}
	for name, tc := range map[string]struct {
		steps []func(*Tx) error
		stays bool
	}{
		"decommissioned":               {[]func(*Tx) error{remove(DeleteOptions{})}, true},
		"created again":                {[]func(*Tx) error{remove(DeleteOptions{}), create(again)}, false},
		"created again by a batch":     {[]func(*Tx) error{remove(DeleteOptions{}), batch(`{"op":"create","kind":"cluster","document":` + again + `}`)}, false},
		"restored":                     {[]func(*Tx) error{remove(DeleteOptions{}), restore}, true},
		"restored, and created again":  {[]func(*Tx) error{remove(DeleteOptions{}), both(restore, remove(DeleteOptions{}), create(again))}, false},
		"deleted and created in one":   {[]func(*Tx) error{both(remove(DeleteOptions{}), create(`{"id":"a","cluster_dns":"a.example.com","environment":"dev","labels":{"x":"y"}}`))}, false},
		"with another name":            {[]func(*Tx) error{both(remove(DeleteOptions{Orphan: true}), create(`{"id":"a","cluster_dns":"z.example.com","environment":"dev"}`))}, false},
		"forgotten":                    {[]func(*Tx) error{remove(DeleteOptions{Orphan: true})}, false},
		"decommissioned and forgotten": {[]func(*Tx) error{remove(DeleteOptions{}), remove(DeleteOptions{Orphan: true})}, false},
		"its name taken by another":    {[]func(*Tx) error{remove(DeleteOptions{}), create(`{"id":"c","cluster_dns":"a.example.com","environment":"dev"}`)}, false},
		"renamed": {[]func(*Tx) error{func(tx *Tx) error {
			_, err := tx.Patch(KindCluster, "a", []byte(`{"cluster_dns":"z.example.com"}`))
			return err
		}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "cluster", `{"id":"a","cluster_dns":"a.example.com","environment":"dev"}`, "cluster", `{"id":"b","cluster_dns":"b.example.com","environment":"dev"}`)
			w.withToken("a", 1)
			w.withToken("a", 2)
			w.withToken("b", 3)
			for _, step := range tc.steps {
				w.must(step)
			}
			for _, n := range []byte{1, 2} {
				require.Equal(t, tc.stays, w.state.Holder(digestOf(n)) != nil)
			}
			require.Equal(t, "b", w.state.Holder(digestOf(3)).ClusterID)
		})
	}
}

// A plan's hash does not depend on a token, which a rotation may change after the plan.
func TestPlansDoNotDependOnTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "cluster", `{"id":"a","cluster_dns":"a.example.com","environment":"dev"}`)
	plan := func() string {
		res, err := w.try(func(tx *Tx) error { _, err := tx.Delete(KindCluster, "a", DeleteOptions{Orphan: true}); return err })
		require.NoError(t, err)
		plan, err := res.Plan()
		require.NoError(t, err)
		return plan.PlanHash
	}
	without := plan()
	w.withToken("a", 1)
	with := plan()
	w.must(func(tx *Tx) error {
		_, err := tx.RotateToken("b", Rotation{Secret: digestOf(9), Overlap: time.Hour}, w.now)
		return err
	})
	require.Equal(t, []string{without, without}, []string{with, plan()})
}

// A token that a newer version wrote, with an unknown role or digest, authenticates no secret and does not prevent serving.
func TestTokensOfANewerVersion(t *testing.T) {
	t.Parallel()
	st, err := NewState(testRules, Head{}, time.Time{}, []Record{
		{Kind: KindToken, ID: "x", Body: []byte(`{"id":"x","name":"x","role":"auditor","secrets":[{"sha256":"argon2:abc"},{"sha256":"00"}],"more":1}`)},
	})
	require.NoError(t, err)
	require.Nil(t, st.Holder(Digest{}))
	require.Equal(t, 1, st.Count(KindToken))
}

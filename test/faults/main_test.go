package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/negativecontrols"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

const source = "../.."

// invoke runs the program and returns its exit code and output.
func invoke(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	var out bytes.Buffer
	code = run(t.Context(), append([]string{"-source", source}, args...), &out, &out)
	return code, out.String()
}

// The drill, in its short form: `make faults-short`, and not `make test`, runs the tests of this name. Some seconds of faults on each store, judged, saved, and judged again; then with one
// answer of the saved history doctored.
func TestDrillPromisesAreKept(t *testing.T) {
	t.Parallel()
	binary, err := rig.Build(t.Context(), source, t.TempDir())
	require.NoError(t, err)
	for _, store := range []string{rig.StoreSQLite, rig.StorePostgres} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			code, said := invoke(t, "-store", store, "-duration", "6s", "-phases", "load", "-binary", binary, "-out", dir)
			require.Equal(t, exitOK, code, said)
			require.Contains(t, said, "every promise was kept")

			file := filepath.Join(dir, "load-"+store, "history.jsonl.gz")
			code, said = invoke(t, "-recheck", file)
			require.Equal(t, exitOK, code, said)

			h, err := history.Load(file)
			require.NoError(t, err)
			require.NotEmpty(t, h.Faults)
			acknowledged := 0
			for _, w := range h.Writes {
				if w.Acknowledged() {
					acknowledged++
				}
			}
			require.Positive(t, acknowledged)
			require.NotEmpty(t, h.Polls)
			require.Greater(t, h.Run.Artifacts, 2)
			for i := range h.Polls {
				if h.Polls[i].Status == 200 {
					h.Polls[i].Inputs, h.Polls[i].Sum = 0, "doctored"
					break
				}
			}
			require.NoError(t, h.Save(file))
			code, said = invoke(t, "-recheck", file)
			require.Equal(t, exitBroken, code, said)
			require.Contains(t, said, "O1             1")
		})
	}
}

// A part of the service fails while clusters poll. The other incidents take longer: `make failover` measures them all.
func TestDrillFailover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, said := invoke(t, "-phases", "failover", "-only", "only-process-killed,synchronous-standby-promoted", "-duration", "1s", "-out", dir)
	require.Equal(t, exitOK, code, said)
	require.Regexp(t, `synchronous-standby-promoted on postgres(?s:.*) polls, 0 of them failed(?s:.*) acknowledged, 0 of them lost`, said)

	file := filepath.Join(dir, "incident-synchronous-standby-promoted", "history.jsonl.gz")
	h, err := history.Load(file)
	require.NoError(t, err)
	require.Greater(t, len(h.Polls), 500)
	for i := range h.Polls {
		if !h.Polls[i].Last {
			h.Polls[i].Status = 503
			break
		}
	}
	require.NoError(t, h.Save(file))
	code, said = invoke(t, "-recheck", file)
	require.Equal(t, exitBroken, code, said)
	require.Regexp(t, `polls +1 `, said)
}

// The quickest attacks. `make faults` makes all of them.
func TestDrillAttacksAreWithstood(t *testing.T) {
	t.Parallel()
	binary, err := rig.Build(t.Context(), source, t.TempDir())
	require.NoError(t, err)
	code, said := invoke(t, "-phases", "attacks", "-only", "protection,removals-one-by-one,wal-removed",
		"-binary", binary, "-cli", "none of them needs it", "-out", t.TempDir())
	require.Equal(t, exitOK, code, said)
}

// Servers with a bug are detected. The other negative controls take longer: `make faults` runs them.
func TestDrillNegativeControlsFail(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"reference-skipped", "noop-unconfirmed", "age-ignored", "authority-unchecked"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, said := invoke(t, "-control", name, "-out", t.TempDir())
			require.Equal(t, exitBroken, code, said)
		})
	}
}

// The replacements of the negative controls still match the source.
func TestNegativeControlsFitTheSource(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range negativecontrols.All() {
		require.False(t, names[c.Name], c.Name)
		names[c.Name] = true
		require.NotEqual(t, len(c.Faults) == 0, c.Damage == "", "%s: faults or a damage bring it to light", c.Name)
		_, err := rig.Apply(source, c.Replace)
		require.NoError(t, err, c.Name)
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	code, said := invoke(t, "-list")
	require.Equal(t, exitOK, code)
	require.Contains(t, said, "kill-postmaster")
	for _, args := range [][]string{
		{"-store", "oracle", "-binary", "none"},
		{"-control", "none"},
		{"-recheck", "none"},
		{"-none"},
		{"none"},
		{"-store", rig.StoreSQLite, "-only", "none", "-binary", "none"},
		{"-promises", "none", "-binary", "none"},
	} {
		code, said := invoke(t, args...)
		require.Equal(t, exitError, code, "%s: %s", args, said)
	}
}

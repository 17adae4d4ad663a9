package attack

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAttacksHaveNames(t *testing.T) {
	t.Parallel()
	names := Names()
	slices.Sort(names)
	require.Len(t, slices.Compact(names), len(All()), "names are unique")
	for _, a := range All() {
		require.NotEmpty(t, a.Description, a.Name)
		require.NotContains(t, a.Name, ",")
	}
}

// An attack without a single try is an error.
func TestAttackThatTriesNothingIsAnError(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*env){
		"nothing": func(*env) {},
		"fails":   func(a *env) { a.count(false, "went wrong"); a.fail("no database") },
	} {
		_, err := Run(t.Context(), Config{Dir: t.TempDir()}, Attack{Name: name, Description: name, run: run})
		require.Error(t, err, name)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), Config{Dir: t.TempDir()}, Attack{Name: "some", Description: "some of it", run: func(a *env) {
		for n := range 3 {
			a.count(n == 1, "writes were lost")
		}
		a.count(false, "reads were wrong")
	}})
	require.NoError(t, err)
	require.True(t, r.Broken())
	var output strings.Builder
	r.Write(&output)
	require.Contains(t, output.String(), "attack some: BROKEN")
	require.Contains(t, output.String(), "1 of 3      writes were lost")
	require.Contains(t, output.String(), "0 of 1      reads were wrong")
}

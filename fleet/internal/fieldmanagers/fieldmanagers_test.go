package fieldmanagers

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func values(pairs ...string) Values {
	out := Values{}
	for i := 0; i < len(pairs); i += 2 {
		if out[pairs[i]] = json.RawMessage(pairs[i+1]); pairs[i+1] == "" {
			out[pairs[i]] = nil
		}
	}
	return out
}

func TestWriters(t *testing.T) {
	t.Parallel()
	start := func() *Patches {
		return Read(values("both", `1`, "ci", `2`, "free", `3`), map[string][]string{"ci": {"both", "ci"}, "ops": {"both"}})
	}
	tests := map[string]struct {
		do        func(*Patches) int // number of conflicts
		conflicts int
		values    Values
		stored    map[string][]string
	}{
		"as it was": {func(*Patches) int { return 0 }, 0, values("both", `1`, "ci", `2`, "free", `3`), map[string][]string{"ci": {"both", "ci"}, "ops": {"both"}}},
		"the same value is shared": {
			func(p *Patches) int { return len(p.Set(values("ci", `2`), Writer{Manager: "ops"})) }, 0,
			values("both", `1`, "ci", `2`, "free", `3`),
			map[string][]string{"ci": {"both", "ci"}, "ops": {"both", "ci"}},
		},
		"every path that others own is a conflict": {
			func(p *Patches) int {
				return len(p.Set(values("both", `9`, "ci", "", "free", `9`), Writer{Manager: "me"}))
			}, 2,
			values("both", `1`, "ci", `2`, "free", `9`),
			map[string][]string{"ci": {"both", "ci"}, "ops": {"both"}, "me": {"free"}},
		},
		"by force it is the writer's alone": {
			func(p *Patches) int { return len(p.Set(values("both", `9`), Writer{Manager: "me", Force: true})) }, 0,
			values("both", `9`, "ci", `2`, "free", `3`),
			map[string][]string{"ci": {"ci"}, "me": {"both"}},
		},
		"what a manager no longer lists is given up": {
			func(p *Patches) int { return len(p.Apply(values("new", `4`), Writer{Manager: "ci"})) }, 0,
			values("both", `1`, "free", `3`, "new", `4`),
			map[string][]string{"ci": {"new"}, "ops": {"both"}},
		},
		"what is relinquished and retained is nobody's": {
			func(p *Patches) int { p.Relinquish("ci", true); return 0 }, 0,
			values("both", `1`, "ci", `2`, "free", `3`),
			map[string][]string{"ops": {"both"}},
		},
		"what is written as a whole leaves alone what it says as it is": {
			func(p *Patches) int { return len(p.Overwrite(values("both", ` 1`, "ci", `2`), false)) }, 0,
			values("both", `1`, "ci", `2`),
			map[string][]string{"ci": {"both", "ci"}, "ops": {"both"}},
		},
		"and takes nothing from named managers": {
			func(p *Patches) int { return len(p.Overwrite(values(), false)) }, 2,
			values("both", `1`, "ci", `2`),
			map[string][]string{"ci": {"both", "ci"}, "ops": {"both"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start()
			require.Equal(t, test.conflicts, test.do(p))
			require.Equal(t, test.values, p.Values())
			require.Equal(t, test.stored, p.Stored())
		})
	}
}

// TestEveryPathHasAnOwner: after any operation each value has an owner, each owned path has a value, and Read restores the
// stored form.
func TestEveryPathHasAnOwner(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom([]string{"a", "b", "c"})
		manager := rapid.SampledFrom([]string{Anonymous, "ci", "ops"})
		some := rapid.MapOf(path, rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`1`), json.RawMessage(`"x"`)}))
		p := Read(nil, nil)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			by := Writer{Manager: manager.Draw(t, "manager"), Force: rapid.Bool().Draw(t, "force")}
			was := Read(p.Values(), p.Stored())
			var conflicts int
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				conflicts = len(p.Set(some.Draw(t, "values"), by))
			case 1:
				conflicts = len(p.Apply(some.Draw(t, "values"), by))
			case 2:
				p.Relinquish(by.Manager, by.Force)
			case 3:
				conflicts = len(p.Overwrite(some.Draw(t, "values"), by.Force))
			}
			if conflicts > 0 {
				require.False(t, by.Force)
				p = was
			}
			owned := map[string]bool{}
			for m, paths := range p.Managers() {
				require.True(t, slices.IsSorted(paths), m)
				for _, path := range paths {
					require.Contains(t, p.Values(), path)
					owned[path] = true
				}
			}
			require.Len(t, owned, len(p.Values()))
			again := Read(p.Values(), p.Stored())
			require.Equal(t, p.Managers(), again.Managers())
			require.Equal(t, p.Values(), again.Values())
		}
	})
}

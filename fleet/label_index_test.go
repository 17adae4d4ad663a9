package fleet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSelected: after any edits of a Tx it returns the same as matching each cluster.
func TestSelected(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 8)
	w.must(remove(KindCluster, "c007", DeleteOptions{}))
	rapid.Check(t, func(t *rapid.T) {
		tx := w.state.Begin()
		value := rapid.SampledFrom([]string{"1", "2", "3"})
		requirement := rapid.Custom(func(t *rapid.T) string {
			label := rapid.SampledFrom([]string{"wave", "tier", "environment", "id"}).Draw(t, "label")
			of := value
			switch label {
			case "environment":
				of = rapid.SampledFrom([]string{"dev", "prod", "qa"})
			case "id":
				of = rapid.SampledFrom([]string{"c000", "c001", "c007", "new", "none"})
			}
			return fmt.Sprintf(rapid.SampledFrom([]string{"%[1]s=%[2]s", "%[1]s==%[2]s", "%[1]s in (%[2]s,%[3]s)", "%[1]s!=%[2]s", "%[1]s notin (%[2]s)", "%[1]s", "!%[1]s"}).Draw(t, "operator")+"%.0[3]s%.0[2]s",
				label, of.Draw(t, "value"), of.Draw(t, "other"))
		})
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			id := fmt.Sprintf("c%03d", rapid.IntRange(0, 7).Draw(t, "cluster"))
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				_, _ = tx.SetLabels(id, fmt.Appendf(nil, `{"wave":%q}`, value.Draw(t, "wave"))) // a deleted one is refused
			case 2:
				_, _ = tx.Patch(KindCluster, id, []byte(`{"labels":{"tier":"1","wave":null},"environment":"qa"}`))
			case 3:
				_, _ = tx.Delete(KindCluster, id, DeleteOptions{Orphan: rapid.Bool().Draw(t, "orphan")})
			case 4:
				_, _ = tx.Create(KindCluster, []byte(`{"id":"new","cluster_dns":"new.example.com","environment":"dev","labels":{"tier":"2"}}`))
			default:
				sel, err := ParseSelector(requirement.Draw(t, "requirement") + "," + requirement.Draw(t, "requirement"))
				require.NoError(t, err)
				want := []string{}
				tx.each(KindCluster, func(d *Document) {
					if !d.Deleted() && sel.Matches(d.Cluster()) {
						want = append(want, d.ID)
					}
				})
				got := tx.selected(sel)
				require.IsIncreasing(t, append([]string{""}, got...))
				require.ElementsMatch(t, want, got)
			}
		}
	})
}

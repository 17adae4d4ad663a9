package fluxsettings

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables of the page")

// TestPage: the page of the documentation has the rows of the table.
func TestPage(t *testing.T) {
	t.Parallel()
	const page = "../../../" + Page
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var accepted, refused strings.Builder
	for _, s := range Table {
		types := strings.Join(s.Types, ", ")
		if s.Refused != "" {
			fmt.Fprintf(&refused, "| `%s` | %s | %s |\n", s.Path, types, s.Refused)
			continue
		}
		identity := ""
		if s.Identity {
			identity = "yes"
		}
		if s.Default != nil {
			identity += fmt.Sprintf("; of the template: `%v`", s.Default)
		}
		fmt.Fprintf(&accepted, "| `%s` | %s | %s | %s |\n", s.Path, types, s.Value.Name, identity)
	}
	want := string(text)
	for header, rows := range map[string]string{
		"| setting | type of component | value | identity |\n|---|---|---|---|\n": accepted.String(),
		"| setting | type of component | reason |\n|---|---|---|\n":               refused.String(),
	} {
		require.Contains(t, want, header)
		want = regexp.MustCompile(regexp.QuoteMeta(header)+`(\|.*\n)*`).ReplaceAllLiteralString(want, header+rows)
	}
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text), "go test ./fleet/internal/fluxsettings -update writes the tables")
}

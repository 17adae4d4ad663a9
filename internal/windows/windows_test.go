package windows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		window api.Window
		text   string
	}{
		"tue-thu 10:00-16:00 Europe/Berlin":    {api.Window{Days: []string{"tue", "wed", "thu"}, From: "10:00", To: "16:00", Tz: "Europe/Berlin"}, "tue-thu 10:00-16:00 Europe/Berlin"},
		"22:00-2:00":                           {api.Window{From: "22:00", To: "02:00"}, "22:00-02:00 UTC"},
		"Fri,mon 8:30-9:00 ${vars.timezone}":   {api.Window{Days: []string{"fri", "mon"}, From: "08:30", To: "09:00", TzVariable: "timezone"}, "mon,fri 08:30-09:00 ${vars.timezone}"},
		"sat-mon 00:00-00:00 UTC":              {api.Window{Days: []string{"sat", "sun", "mon"}, From: "00:00", To: "00:00", Tz: "UTC"}, "mon,sat,sun 00:00-00:00 UTC"},
		"mon-sun,tue 00:00-12:00 Asia/Kolkata": {api.Window{Days: days, From: "00:00", To: "12:00", Tz: "Asia/Kolkata"}, "mon-sun 00:00-12:00 Asia/Kolkata"},
	} {
		got, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want.window, got, text)
		require.Equal(t, want.text, Text([]api.Window{got}), text)
		again, err := Parse(want.text)
		require.NoError(t, err)
		require.Equal(t, want.text, Text([]api.Window{again}))
	}
	for _, text := range []string{"", "mon", "monday 10:00-12:00", "mon-  10:00-12:00", "10:00", "10:00 12:00", "mon 10:00-12:00 a b", "mon--tue 10:00-12:00", ", 10:00-12:00"} {
		_, err := Parse(text)
		require.Error(t, err, text)
	}
}

package cli

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

// timeColumns are the columns of tables whose times are shown as ages.
var timeColumns = []string{"AT", "UPDATED", "CREATED", "SEEN", "SINCE", "EXPIRES", "LAST USED"}

// withAges returns tables with ages in place of times, as kubectl has them: people compare "5m" at a glance.
func withAges(tables []render.Table, now time.Time) []render.Table {
	for t := range tables {
		for column, name := range tables[t].Header {
			if !slices.Contains(timeColumns, name) {
				continue
			}
			for _, row := range tables[t].Rows {
				if at, err := time.Parse(time.RFC3339, row[column]); err == nil {
					row[column] = ageOf(now.Sub(at))
				}
			}
		}
	}
	return tables
}

// ageOf formats an age in the largest unit that fits at least twice; for a future time, the time until then.
func ageOf(age time.Duration) string {
	if age < 0 {
		if age > -time.Minute { // clocks differ
			return "0s"
		}
		return "in " + ageOf(-age)
	}
	const day = 24 * time.Hour
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{365 * day, "y"}, {day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if age >= 2*unit.of {
			return strconv.Itoa(int(age/unit.of)) + unit.name
		}
	}
	return strconv.Itoa(int(age/time.Second)) + "s"
}

// durationFrom reads a duration of Go, or a number of days or weeks: 168h, 7d, 2w.
func durationFrom(flag, text string) (time.Duration, error) {
	const day = 24 * time.Hour
	const longest = 36500 * day // a larger number would overflow
	for suffix, unit := range map[string]time.Duration{"d": day, "w": 7 * day} {
		digits, ok := strings.CutSuffix(text, suffix)
		if n, err := strconv.Atoi(digits); ok && err == nil && n >= 0 && n <= int(longest/unit) {
			return time.Duration(n) * unit, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, args.Errorf("--%s %q is not a duration such as 90m, 168h, 7d or 2w", flag, text)
	}
	return d, nil
}

// pastTime reads a time, or a duration before now, as a time for the API. Other text is an error.
func pastTime(flag, text string, now time.Time) (string, error) {
	if text == "" || strings.ContainsAny(text, "T:") {
		return text, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.Format(time.RFC3339), nil
	}
	ago, err := durationFrom(flag, text)
	if err != nil {
		return "", args.Errorf("--%s %q is neither a time such as 2026-01-02T15:04:05Z nor a duration before now such as 168h or 7d", flag, text)
	}
	return now.Add(-ago).UTC().Format(time.RFC3339), nil
}

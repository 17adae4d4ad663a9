package args

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// DurationFrom reads a duration of Go, or a number of days or weeks: 168h, 7d, 2w.
func DurationFrom(flag, text string) (time.Duration, error) {
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
		return 0, Errorf("--%s %q is not a duration such as 90m, 168h, 7d or 2w", flag, text)
	}
	return d, nil
}

// PastTime reads a time, or a duration before now, as a time for the API. Other text is an error.
func PastTime(flag, text string, now time.Time) (string, error) {
	if _, err := time.Parse(time.RFC3339, text); err == nil || text == "" {
		return text, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.Format(time.RFC3339), nil
	}
	ago, err := DurationFrom(flag, text)
	if err != nil {
		return "", Errorf("--%s %q is neither a time such as 2026-01-02T15:04:05Z nor a duration before now such as 168h or 7d%s", flag, text, suggestTime(flag, text))
	}
	return now.Add(-ago).UTC().Format(time.RFC3339), nil
}

// FutureTime reads a time, a date, or a duration from now. Other text is an error.
func FutureTime(flag, text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	in, err := DurationFrom(flag, text)
	if err != nil {
		return time.Time{}, Errorf("--%s %q is neither a time such as 2027-01-02T15:04:05Z nor a duration from now such as 12h or 7d%s", flag, text, suggestTime(flag, text))
	}
	return now.Add(in).UTC().Truncate(time.Second), nil
}

var (
	amountOfTime = regexp.MustCompile(`^(\d+) ?(?:(w)(?:ee)?k?s?|(d)(?:ay)?s?|(h)(?:(?:ou)?rs?)?|(m)(?:in(?:ute)?s?)?|(s)(?:ec(?:ond)?s?)?)(?: ago| from now)?$`)
	dateAndTime  = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?$`)
)

// suggestTime returns the end of an error message, with the value to write for a time such as "yesterday" or "2 weeks ago". It returns ""
// for text that is no such time.
func suggestTime(flag, text string) string {
	text, use := strings.ToLower(strings.TrimSpace(text)), ""
	amount := amountOfTime.FindStringSubmatch(text)
	switch at := dateAndTime.FindStringSubmatch(strings.ToUpper(text)); {
	case at != nil && at[3] == "":
		use = at[1] + "T" + at[2] + ":00Z"
	case at != nil:
		use = at[1] + "T" + at[2] + at[3] + "Z"
	case text == "yesterday" || text == "tomorrow":
		use = "1d"
	case amount != nil:
		use = strings.Join(amount[1:], "") // a match has one unit; the other groups are empty
	}
	if _, err := time.Parse(time.RFC3339, use); use == "" || err != nil && strings.Contains(use, "T") {
		return ""
	}
	return "; write --" + flag + " " + use
}
